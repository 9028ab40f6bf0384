// SPDX-License-Identifier: Apache-2.0
// Each thread processes one chunk: it finds or claims the slot of its key, lowers the slot's place
// to that of its chunk, and counts the chunk. A second kernel gives each slot the length of the
// chunk whose place has won.
#include <algorithm>
#include <bit>

#include "base/host_device.hpp"
#include "dedup/cuda/device_index.hpp"
#include "gpu/failure.hpp"

namespace warren::dedup::cuda {

namespace {

constexpr u32 threads = 256;
constexpr u64 no_place = ~u64{0};
constexpr u64 no_slot = ~u64{0};

struct Table {
    Entry* slots;
    u64 mask;
    u32* overflow;
};

/// Reads a whole key that another thread may be writing.
__device__ Key load_key(const Key* at) {
    Key key;
    asm volatile(
        "{ .reg .b128 whole; ld.relaxed.gpu.global.b128 whole, [%2]; mov.b128 {%0, %1}, whole; }"
        : "=l"(key.low), "=l"(key.high)
        : "l"(at)
        : "memory");
    return key;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900

/// Stores `key` in an empty slot. Returns the slot's key afterwards. GPUs before sm_90 have no
/// 16-byte exchange: a thread uses the slot's length as a lock meanwhile, which is 0 in a slot
/// without a key.
__device__ Key take_key(Entry& slot, const Key& key) {
    device_atomic<u32> lock(slot.length);
    u32 free = 0;
    while (!lock.compare_exchange_weak(free, 1, hd::memory_order_acquire, hd::memory_order_relaxed))
        free = 0;
    Key there = load_key(&slot.key);
    if (there.low == 0 && there.high == 0) {
        there = key;
        asm volatile(
            "{ .reg .b128 whole; mov.b128 whole, {%1, %2}; st.relaxed.gpu.global.b128 [%0], whole; "
            "}" ::"l"(&slot.key),
            "l"(key.low), "l"(key.high)
            : "memory");
    }
    lock.store(0, hd::memory_order_release);
    return there;
}

#else

/// Stores `key` in an empty slot. Returns the slot's key afterwards.
__device__ Key take_key(Entry& slot, const Key& key) {
    Key before;
    asm volatile(
        "{ .reg .b128 none, mine, was; mov.b128 none, {%3, %3}; mov.b128 mine, {%4, %5};"
        " atom.relaxed.gpu.global.cas.b128 was, [%2], none, mine; mov.b128 {%0, %1}, was; }"
        : "=l"(before.low), "=l"(before.high)
        : "l"(&slot.key), "l"(u64{0}), "l"(key.low), "l"(key.high)
        : "memory");
    return before.low == 0 && before.high == 0 ? key : before;
}

#endif

__device__ bool is_same(const Key& left, const Key& right) {
    return left.low == right.low && left.high == right.high;
}

/// The slot of a key, claimed if `takes`; no_slot if there is none.
__device__ u64 slot_of(const Table& table, const Key& key, bool takes) {
    // A key of zeros marks a free slot, so the chunk whose key is zeros has a slot of its own.
    if (key.low == 0 && key.high == 0) return table.mask + 1;
    u64 at = key.low & table.mask;
    for (u64 tries = 0; tries <= table.mask; ++tries) {
        Key there = load_key(&table.slots[at].key);
        if (there.low == 0 && there.high == 0) {
            if (!takes) return no_slot;
            there = take_key(table.slots[at], key);
        }
        if (is_same(there, key)) return at;
        at = (at + 1) & table.mask;
    }
    return no_slot;
}

__global__ void clear_slots(Entry* slots, u64 count) {
    const u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < count) slots[at] = Entry{{0, 0}, no_place, 0, 0};
}

__global__ void add_chunks(Table table, DeviceChunks chunks, u64* found) {
    const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= chunks.count) return;
    const u64 at = slot_of(table, chunks.keys[index], true);
    found[index] = at;
    if (at == no_slot) {
        device_atomic<u32>(*table.overflow).store(1, hd::memory_order_relaxed);
        return;
    }
    Entry& slot = table.slots[at];
    device_atomic<u64> place(slot.place);
    if (place.load(hd::memory_order_relaxed) > chunks.places[index])
        place.fetch_min(chunks.places[index], hd::memory_order_relaxed);
    device_atomic<u32>(slot.count).fetch_add(1, hd::memory_order_relaxed);
}

__global__ void settle_chunks(Table table, DeviceChunks chunks, const u64* found, u64* originals) {
    const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= chunks.count) return;
    const u64 at = found[index];
    originals[index] = at == no_slot ? no_place : table.slots[at].place;
    if (originals[index] == chunks.places[index]) table.slots[at].length = chunks.lengths[index];
}

__global__ void find_keys(Table table, const Key* keys, u64 count, u64* originals) {
    const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= count) return;
    const u64 at = slot_of(table, keys[index], false);
    originals[index] = at == no_slot ? no_place : table.slots[at].place;
}

u32 blocks_for(u64 count) {
    return static_cast<u32>((count + threads - 1) / threads);
}

}  // namespace

Errc DeviceIndex::open(u64 most_entries, const gpu::Stream& stream) {
    const u64 size = std::bit_ceil(std::max<u64>(most_entries + most_entries / 3, 1024));
    mask_ = size - 1;
    WARREN_TRY(slots_.allocate(size + 1));
    WARREN_TRY(overflow_.allocate(1));
    WARREN_TRY(stream.fill(overflow_.data(), 0, sizeof(u32)));
    clear_slots<<<blocks_for(size + 1), threads, 0, stream.get()>>>(slots_.data(), size + 1);
    return gpu::check(cudaGetLastError(), "clear_slots");
}

Errc DeviceIndex::add(const DeviceChunks& chunks, u64* originals, const gpu::Stream& stream) {
    if (chunks.count == 0) return Errc::ok;
    WARREN_TRY(found_.reserve(chunks.count));
    const Table table{slots_.data(), mask_, overflow_.data()};
    const u32 blocks = blocks_for(chunks.count);
    add_chunks<<<blocks, threads, 0, stream.get()>>>(table, chunks, found_.data());
    WARREN_TRY(gpu::check(cudaGetLastError(), "add_chunks"));
    settle_chunks<<<blocks, threads, 0, stream.get()>>>(table, chunks, found_.data(), originals);
    return gpu::check(cudaGetLastError(), "settle_chunks");
}

Errc DeviceIndex::find(const Key* keys, u64 count, u64* originals,
                       const gpu::Stream& stream) const {
    if (count == 0) return Errc::ok;
    const Table table{slots_.data(), mask_, overflow_.data()};
    find_keys<<<blocks_for(count), threads, 0, stream.get()>>>(table, keys, count, originals);
    return gpu::check(cudaGetLastError(), "find_keys");
}

Errc DeviceIndex::read(std::vector<Entry>& entries, const gpu::Stream& stream) const {
    std::vector<Entry> slots(slots_.count());
    u32 overflow = 0;
    WARREN_TRY(stream.copy(slots.data(), slots_.data(), slots_.bytes()));
    WARREN_TRY(stream.copy(&overflow, overflow_.data(), sizeof overflow));
    WARREN_TRY(stream.wait());
    if (overflow != 0) return Errc::no_space;
    entries.clear();
    std::copy_if(slots.begin(), slots.end(), std::back_inserter(entries),
                 [](const Entry& entry) { return entry.count != 0; });
    std::sort(entries.begin(), entries.end(),
              [](const Entry& left, const Entry& right) { return left.key < right.key; });
    return Errc::ok;
}

}  // namespace warren::dedup::cuda

// SPDX-License-Identifier: Apache-2.0
// Everything is copied to shared or device memory before the first phase, because loads from host
// memory would wait for the bus each time.
#include "fs/engine/cuda/launch/small_batch.hpp"

#include <algorithm>
#include <chrono>

#include "fs/bulk/batch/batch_run.hpp"
#include "fs/engine/cuda/device_clock.hpp"
#include "fs/engine/cuda/launch/block_executor.cuh"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

static_assert(small_records_max <= block_records);

/// How long a block waits for the next batch.
constexpr u64 linger_ns = 500'000;
/// A block that is older than this waits for no batch, so that other work gets the multiprocessor
/// even if batches keep coming.
constexpr u64 life_ns = 5'000'000;

// SmallExchange::asked.
constexpr u64 must_leave = 1;
constexpr u32 count_shift = 1;
constexpr u32 count_bits = 24;
constexpr u32 number_shift = count_shift + count_bits;

// SmallExchange::answered.
constexpr u64 all_done = 1;

__device__ u64 count_in(u64 asked) {
    return asked >> count_shift & ((u64{1} << count_bits) - 1);
}

struct SmallArguments {
    SmallExchange* exchange;
    SmallItems items;
    u64 asked;  // the first batch
    u64 block;  // the block's number
};

/// Copies the batch and its items from host memory. Different threads copy each, so that the loads
/// overlap.
__device__ void fetch(const SmallArguments& arguments, u64 count, uint4* batch) {
    constexpr u32 pieces = sizeof(SmallBatch) / sizeof(uint4);
    static_assert(pieces <= block_threads && sizeof(SmallBatch) % sizeof(uint4) == 0);
    const u32 from_last = block_threads - 1 - threadIdx.x;
    if (from_last < pieces) {
        batch[from_last] = reinterpret_cast<const uint4*>(&arguments.exchange->batch)[from_last];
    }
    for (u64 i = threadIdx.x; i < count; i += block_threads)
        arguments.items.device[i] = arguments.items.host[i];
    __syncthreads();
}

/// Copies answers of the items [begin, end) to host memory, unless `to` is null.
template <class T>
__device__ void give(T* to, const T* from, u64 begin, u64 end) {
    if (to == nullptr) return;
    constexpr u64 words = sizeof(T) / sizeof(u32);
    const auto* source = reinterpret_cast<const u32*>(from);
    auto* target = reinterpret_cast<u32*>(to);
    for (u64 i = begin * words + threadIdx.x; i < end * words; i += blockDim.x)
        target[i] = source[i];
}

/// Whether all items [begin, end) have the code Errc::ok. Collective.
__device__ bool are_done(const Errc* codes, u64 begin, u64 end) {
    bool mine = true;
    for (u64 i = begin + threadIdx.x; i < end; i += block_threads)
        mine = mine && codes[i] == Errc::ok;
    return __syncthreads_and(mine ? 1 : 0) != 0;
}

/// Runs all phases and writes the answers to host memory. If all items succeeded and have no other
/// answers than their codes, it writes nothing and returns true. Collective.
__device__ bool run_batch(BlockExecutor& executor, SmallBatch& call) {
    ops::Batch& batch = call.batch;
    if (threadIdx.x == 0) {
        *batch.state = ops::BatchState{};
        batch.state->limit = batch.end;
    }
    __syncthreads();
    const ops::BatchState state = ops::batch::run(executor, batch, call.store);
    const bool is_whole = state.status == Errc::ok && state.limit == batch.end;
    const bool has_more = call.host_made != nullptr || call.host_attributes != nullptr;
    if (is_whole && !has_more && are_done(batch.codes, batch.begin, batch.end)) return true;
    if (state.status == Errc::ok) {
        give(call.host_codes, batch.codes, batch.begin, state.limit);
        give(call.host_made, batch.made, batch.begin, state.limit);
        give(call.host_attributes, batch.attributes, batch.begin, state.limit);
    }
    if (threadIdx.x == 0) *call.host_state = state;
    __syncthreads();
    return false;
}

/// Waits for the request after `asked` and returns it; 0: the block must leave. Called by one
/// thread.
__device__ u64 wait_for_next(SmallExchange& exchange, u64 asked, u64 born) {
    const system_atomic<u64> word(exchange.asked);
    const u64 now = device_nanoseconds();
    if (now >= born + life_ns) return 0;
    for (;;) {
        // Acquire, for the host's batch and for changes of the store by others: pairs with the
        // release in SmallBatches::run().
        const u64 next = word.load(hd::memory_order_acquire);
        if (next >> number_shift != asked >> number_shift) return next;
        if ((next & must_leave) != 0 || device_nanoseconds() >= now + linger_ns) return 0;
    }
}

__global__ void __launch_bounds__(block_threads, 1)
    run_small(const __grid_constant__ SmallArguments arguments) {
    __shared__ BlockExecutor::Shared shared;
    __shared__ alignas(16) std::byte memory[sizeof(SmallBatch)];
    __shared__ u64 shared_asked;
    // A copy in shared memory, which is faster to read than kernel parameters.
    auto& call = *reinterpret_cast<SmallBatch*>(memory);
    BlockExecutor executor(shared);
    SmallExchange& exchange = *arguments.exchange;
    const u64 born = device_nanoseconds();
    for (u64 asked = arguments.asked; asked != 0;) {
        fetch(arguments, count_in(asked), reinterpret_cast<uint4*>(memory));
        const bool is_done = run_batch(executor, call);
        if (threadIdx.x == 0) {
            const u64 answer = asked >> number_shift << 1 | (is_done ? all_done : 0);
            // Release, for the answers of all threads: pairs with the acquire in
            // SmallBatches::wait().
            system_atomic<u64>(exchange.answered).store(answer, hd::memory_order_release);
            shared_asked = wait_for_next(exchange, asked, born);
        }
        __syncthreads();
        asked = shared_asked;
    }
    // Release: pairs with the acquire in SmallBatches::lingers().
    if (threadIdx.x == 0) {
        system_atomic<u64>(exchange.left).store(arguments.block, hd::memory_order_release);
    }
}

}  // namespace

SmallBatches::~SmallBatches() {
    if (exchange_.data() == nullptr) return;
    make_way();
    static_cast<void>(stream_.wait());
}

Errc SmallBatches::open() {
    if (exchange_.data() != nullptr) return Errc::ok;
    WARREN_TRY(stream_.open());
    WARREN_TRY(exchange_.allocate(1));
    *exchange_.data() = SmallExchange{};
    return Errc::ok;
}

bool SmallBatches::lingers() const {
    // Acquire: pairs with the release in run_small(). A thread that sees that the block has left
    // also sees the block's last answer.
    return system_atomic<u64>(exchange_.data()->left).load(hd::memory_order_acquire) != blocks_;
}

void SmallBatches::make_way() {
    if (exchange_.data() == nullptr) return;
    const system_atomic<u64> asked(exchange_.data()->asked);
    // Release, because this store replaces the one by which run() published a batch: pairs with the
    // acquire in wait_for_next().
    asked.store(asked.load(hd::memory_order_relaxed) | must_leave, hd::memory_order_release);
}

Errc SmallBatches::launch(u64 asked) {
    run_small<<<1, block_threads, 0, stream_.get()>>>(
        SmallArguments{exchange_.data(), items_, asked, blocks_ + 1});
    WARREN_TRY(gpu::check(cudaGetLastError(), "a small batch"));
    ++blocks_;
    return Errc::ok;
}

/// Waits until the last batch is answered, or the block has left without running it. Polling words
/// in host memory is faster than a call of the driver.
Errc SmallBatches::wait(bool& is_answered) {
    using Clock = std::chrono::steady_clock;
    const system_atomic<u64> answered(exchange_.data()->answered);
    const auto look = [&] {
        const bool may_come = lingers();
        // Acquire: pairs with the release in run_small().
        is_answered = answered.load(hd::memory_order_acquire) >> 1 == batches_;
        return is_answered || !may_come;
    };
    const auto patience = Clock::now() + std::chrono::milliseconds(2);
    for (u32 looks = 1; looks % 64 != 0 || Clock::now() < patience; ++looks) {
        if (look()) return Errc::ok;
    }
    // The batch takes long, or the device is lost, which the driver reports. A block that runs the
    // batch leaves after it; a block that has not seen it leaves without it.
    make_way();
    WARREN_TRY(stream_.wait());
    look();
    return Errc::ok;
}

/// If all items succeeded, writes the answers, which the block has left out then.
void SmallBatches::take_answer(const SmallBatch& batch) const {
    if ((relaxed_load(exchange_.data()->answered) & all_done) == 0) return;
    std::fill(batch.host_codes + batch.batch.begin, batch.host_codes + batch.batch.end, Errc::ok);
    *batch.host_state = ops::BatchState{};
    batch.host_state->limit = batch.batch.end;
}

Errc SmallBatches::run(const SmallBatch& batch, const SmallItems& items) {
    WARREN_TRY(open());
    SmallExchange& exchange = *exchange_.data();
    const bool is_elsewhere = items.host != items_.host || items.device != items_.device;
    if (is_elsewhere) {
        // A lingering block has the addresses of the old items.
        make_way();
        WARREN_TRY(stream_.wait());
        items_ = items;
    }
    exchange.batch = batch;
    const u64 asked = ++batches_ << number_shift | items.count << count_shift;
    // Release: pairs with the acquire in wait_for_next().
    system_atomic<u64>(exchange.asked).store(asked, hd::memory_order_release);
    bool is_answered = false;
    if (lingers()) WARREN_TRY(wait(is_answered));
    if (!is_answered) {
        WARREN_TRY(launch(asked));
        WARREN_TRY(wait(is_answered));
    }
    if (!is_answered) return Errc::io;
    take_answer(batch);
    return Errc::ok;
}

}  // namespace warren::cuda_engine

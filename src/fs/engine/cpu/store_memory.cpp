// SPDX-License-Identifier: Apache-2.0
// Every array is sized for the whole volume. Only pages that are touched take memory.
#include "fs/engine/cpu/store_memory.hpp"

#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <utility>

namespace warren {

template <class T>
T* StoreMemory::reserve(u64 count) {
    ReservedRange range(count * sizeof(T) + format::block_size);
    failed_ = failed_ || range.data() == nullptr;
    ranges_.push_back(std::move(range));
    return ranges_.back().as<T>();
}

/// Reserves memory for frames, each aligned as a huge page must be.
std::byte* StoreMemory::reserve_frames(u64 bytes) {
    auto* const at = reserve<std::byte>(bytes + format::frame_size);
    const u64 behind = reinterpret_cast<std::uintptr_t>(at) % format::frame_size;
    return behind == 0 ? at : at + (format::frame_size - behind);
}

void StoreMemory::expect_new_frames(u64 begin) {
    const u64 first = begin * format::frame_size;
    if (store_.heads != nullptr || first >= store_.size_bytes) return;
    static_cast<void>(madvise(store_.base + first, store_.size_bytes - first, MADV_HUGEPAGE));
}

Errc StoreMemory::open(const StoreShape& shape) {
    core::Store& store = store_;
    store.size_bytes = shape.size_bytes;
    store.frame_count = shape.size_bytes / format::frame_size;
    store.frame_table_offset = shape.frame_table_offset;
    store.hash_mask = ~u64{0};
    const u64 blocks = store.block_count();
    const u64 frame_words = store.frame_count / 64 + 1;
    store.state = reserve<core::StoreState>(1);
    store.frame_table = reserve<format::FrameTableBlock>(shape.frame_table_blocks);
    store.overlays = reserve<core::FrameOverlay>(store.frame_count);
    store.frames_free = reserve<u64>(frame_words);
    for (u64*& room : store.frames_with_space)
        room = reserve<u64>(frame_words);
    store.versions = reserve<u64>(core::version_stripes);
    store.dirty = reserve<u64>(blocks / 64 + 1);
    store.dirty_frames = reserve<u64>(frame_words);
    if (shape.meta_buffer_blocks == 0) {
        store.base = reserve_frames(shape.size_bytes);
        store.resident = reserve<u64>(blocks / 64 + 1);
        return failed_ ? Errc::no_space : Errc::ok;
    }
    heads_.head_count = static_cast<u32>(shape.meta_buffer_blocks);
    heads_.bucket_mask = std::bit_ceil(heads_.head_count) - 1;
    heads_.heads = reserve<core::Head>(heads_.head_count);
    heads_.buckets = reserve<core::Bucket>(heads_.bucket_mask + 1);
    heads_.blocks = reserve<format::Block>(heads_.head_count);
    if (failed_) return Errc::no_space;
    for (u32 i = 0; i < heads_.head_count; ++i)
        heads_.heads[i].place = core::place_none;
    for (u32 i = 0; i <= heads_.bucket_mask; ++i)
        heads_.buckets[i].first = core::head_none;
    store.heads = &heads_;
    return Errc::ok;
}

Errc StoreMemory::mark_changes() {
    core::Store& store = store_;
    if (store.heads != nullptr) return Errc::not_supported;
    u64* const blocks = reserve<u64>(store.block_count() / 64 + 1);
    u64* const frames = reserve<u64>(store.frame_count / 64 + 1);
    if (failed_) return Errc::no_memory;
    store.changed_frames = frames;
    store.changed = blocks;
    return Errc::ok;
}

}  // namespace warren

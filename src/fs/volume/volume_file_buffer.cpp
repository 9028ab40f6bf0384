// SPDX-License-Identifier: Apache-2.0
// Where the bytes of files are read from and written to: the file buffer, or without one the disk.
#include <algorithm>
#include <memory>

#include "base/out_of_memory.hpp"
#include "fs/volume/volume_implementation.hpp"
#if defined(WARREN_CUDA)
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#endif

namespace warren {

using format::FrameKind;

namespace {

// The default size of the file buffer with DataMode::journal.
constexpr u64 journal_file_buffer_bytes = 32 * mib;

/// Whether the block at `place` belongs to a file's contents, or is reserved for some.
bool holds_contents(const core::Store& store, u64 place) {
    const u64 frame = place / format::frame_size;
    const u64 block = place / format::block_size % format::blocks_per_frame;
    if (core::kind_of(store, frame) != FrameKind::data) return false;
    // Acquire: pairs with the release in give_back_bits(): used bits are visible.
    const u64 reserved = device_atomic<u64>(store.overlays[frame].reserved[block / 64])
                             .load(hd::memory_order_acquire);
    const u64 used = relaxed_load(store.frame(frame).used[block / 64]);
    return ((reserved | used) >> block % 64 & 1) != 0;
}

/// Pins memory for the GPU; empty if there is none.
PinRange pin_for_gpu() {
#if defined(WARREN_CUDA)
    if (gpu::device_count() == 0) return {};
    return [](void* at, u64 bytes) -> std::shared_ptr<void> {
        auto range = std::make_shared<gpu::PinnedRange>(at, bytes);
        return range->is_pinned() ? range : nullptr;
    };
#else
    return {};
#endif
}

}  // namespace

void VolumeImplementation::make_file_buffer() {
    const bool logs_data = options_.data == DataMode::journal && committer_ != nullptr;
    FileBufferShape shape;
    shape.size_bytes = options_.file_buffer_bytes;
    if (shape.size_bytes == 0 && logs_data) shape.size_bytes = journal_file_buffer_bytes;
    if (shape.size_bytes == 0) return;
    shape.size_bytes = std::max(shape.size_bytes, FileBuffer::size_bytes_min);
    shape.writes_itself = !logs_data;
    // For an engine with its own memory the host knows only what was in use at the last snapshot.
    shape.is_wanted = [this](u64 place) {
        return !works_on_host() || holds_contents(store(), place);
    };
    if (logs_data) {
        // Blocks for the journal cannot be evicted: half of the buffer is kept for other blocks.
        shape.room_blocks =
            std::min(committer_->data_capacity_blocks(), shape.size_bytes / 2 / format::block_size);
        data_step_bytes_ = std::max<u64>(1, shape.room_blocks / 4) * format::block_size;
    }
    if (options_.pins_file_buffer) {
        // Small files are found block by block.
        shape.hint_blocks = 1;
        shape.pin = pin_for_gpu();
    }
    file_buffer_ = std::make_unique<FileBuffer>(disk_, shape);
}

Errc VolumeImplementation::read_data(u64 place, std::span<std::byte> target, u64 run_end) {
    return file_buffer_ == nullptr ? disk_.read(place, target)
                                   : file_buffer_->read(place, target, run_end);
}

Errc VolumeImplementation::write_data(u64 place, std::span<const std::byte> source) {
    // Overwriting in place runs no operation that would check this.
    if (relaxed_load(store().state->read_only) != 0) return Errc::read_only;
    return file_buffer_ == nullptr ? disk_.write(place, source)
                                   : file_buffer_->write(place, source);
}

Errc Volume::hold(Handle file, u64 offset, u64 length, HeldContents& held) {
    return or_no_memory([&] {
        // Its holder may wait for contents that the caller holds.
        const std::shared_lock lock(implementation_->data_lock(file.inode), std::try_to_lock);
        return lock.owns_lock() ? implementation_->hold_contents(file, offset, length, held)
                                : Errc::busy;
    });
}

Errc VolumeImplementation::hold_contents(Handle file, u64 offset, u64 length, HeldContents& held) {
    if (file_buffer_ == nullptr) return Errc::not_supported;
    const u64 block = offset / format::block_size;
    WARREN_LET(mapping, map_block(file, block));
    const bool has_bytes = mapping->kind == ops::MappingKind::data && offset < mapping->size;
    if (!has_bytes || length == 0) return Errc::no_data;
    const u64 run_bytes = mapping->blocks * format::block_size;
    const u64 begin = offset % format::block_size;
    const u64 count = std::min({length, mapping->size - offset, run_bytes - begin});
    WARREN_TRY(file_buffer_->hold(mapping->place + begin, count, mapping->place + run_bytes, held));
    if (still_maps(file, block, mapping->place, ops::blocks_of(begin + held.bytes().size())))
        return Errc::ok;
    held.release();
    return Errc::busy;
}

}  // namespace warren

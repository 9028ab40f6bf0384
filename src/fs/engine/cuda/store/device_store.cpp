// SPDX-License-Identifier: Apache-2.0
// Only the parts of the tables that are in use are copied: those of the frames from the volume's
// start to the last one with memory, and of the data frames at its end.
#include "fs/engine/cuda/store/device_store.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/runs.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/engine/cuda/store/device_kernels.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

// At opening, frames beyond those in use that get memory: 64 MiB of them at least; in large volumes
// 512 MiB, enough for a million files.
constexpr u64 first_frames = 32;
constexpr u64 first_frames_max = 256;
constexpr u64 added_frames_max = 512;  // at once: 1 GiB
constexpr u64 pinned_tables_max = 64 * mib;

u64 divide_up(u64 value, u64 by) {
    return (value + by - 1) / by;
}

}  // namespace

/// Allocates a zeroed device array for the `count` values of the host at `pointer`, and sets
/// `pointer` to it.
template <class T>
Errc DeviceStore::mirror(T*& pointer, u64 count) {
    gpu::DeviceBuffer<std::byte> array;
    WARREN_TRY(array.allocate(count * sizeof(T)));
    WARREN_TRY(stream_.fill(array.data(), 0, array.bytes()));
    if (table_blocks_ * format::block_size <= pinned_tables_max) {
        pinned_.emplace_back(pointer, count * sizeof(T));
    }
    pointer = reinterpret_cast<T*>(array.data());
    arrays_.push_back(std::move(array));
    return Errc::ok;
}

Errc DeviceStore::open_tables() {
    const u64 frame_words = host_.frame_count / 64 + 1;
    const u64 block_words = host_.block_count() / 64 + 1;
    WARREN_TRY(mirror(device_.state, 1));
    WARREN_TRY(mirror(device_.frame_table, table_blocks_));
    WARREN_TRY(mirror(device_.overlays, host_.frame_count));
    WARREN_TRY(mirror(device_.frames_free, frame_words));
    for (u64*& room : device_.frames_with_space)
        WARREN_TRY(mirror(room, frame_words));
    WARREN_TRY(mirror(device_.versions, core::version_stripes));
    WARREN_TRY(mirror(device_.dirty, block_words));
    return mirror(device_.dirty_frames, frame_words);
}

/// Reserves addresses for the whole volume, and maps memory for the metadata frames and some more.
Errc DeviceStore::open_range() {
    WARREN_TRY(mirror(device_.resident, host_.block_count() / 64 + 1));
    WARREN_TRY(range_.reserve(host_.size_bytes));
    device_.base = range_.data();
    has_memory_.assign(host_.frame_count, false);
    const u64 in_use = relaxed_load(host_.state->metadata_frames_end);
    frames_with_memory_ =
        std::min(host_.frame_count,
                 in_use + std::clamp(host_.frame_count / 64, first_frames, first_frames_max));
    return map_frames({0, frames_with_memory_});
}

Errc DeviceStore::open(const core::Store& host, u64 meta_buffer_blocks) {
    WARREN_CHECK(host.heads == nullptr);
    std::lock_guard lock(mutex_);
    host_ = host;
    device_ = host;
    table_blocks_ = format::table_blocks_for(host.frame_count);
    WARREN_TRY(stream_.open());
    WARREN_TRY(open_tables());
    WARREN_TRY(state_.allocate(1));
    WARREN_TRY(block_.allocate(1));
    WARREN_TRY(words_.allocate(host.frame_count / 64 + 1));
    if (meta_buffer_blocks != 0) {
        // Dirty blocks cannot be evicted from the buffer, and most of it must remain for reads.
        host.state->journal_room = std::min(host.state->journal_room, meta_buffer_blocks / 4);
        WARREN_TRY(meta_buffer_.open(meta_buffer_blocks, device_));
    } else {
        WARREN_TRY(open_range());
    }
    WARREN_TRY(upload_tables());
    if (meta_buffer_blocks == 0) WARREN_TRY(upload_blocks());
    return stream_.wait();
}

/// Maps memory for those of the frames that have none and can hold metadata.
Errc DeviceStore::map_frames(Frames frames) {
    const auto lacks_memory = [&](u64 frame) {
        return !has_memory_[frame] && core::kind_of(host_, frame) != format::FrameKind::system;
    };
    return for_each_run(frames.begin, frames.end, lacks_memory, [&](u64 begin, u64 end) {
        WARREN_TRY(range_.map(begin * format::frame_size, (end - begin) * format::frame_size));
        std::fill(has_memory_.begin() + static_cast<i64>(begin),
                  has_memory_.begin() + static_cast<i64>(end), true);
        return Errc::ok;
    });
}

/// Copies the parts of the frame table and the overlays for `frames`.
Errc DeviceStore::upload_entries(Frames frames) const {
    if (frames.begin >= frames.end) return Errc::ok;
    const u64 first = frames.begin / format::frames_per_table_block;
    const u64 end = format::table_blocks_for(frames.end);
    WARREN_TRY(stream_.copy(device_.frame_table + first, host_.frame_table + first,
                            (end - first) * sizeof(format::FrameTableBlock)));
    return stream_.copy(device_.overlays + frames.begin, host_.overlays + frames.begin,
                        (frames.end - frames.begin) * sizeof(core::FrameOverlay));
}

/// Copies all tables except the versions, which only commands use, and the resident bits. The state
/// passes through state_.
Errc DeviceStore::upload_tables() const {
    std::memcpy(state_.data(), host_.state, sizeof(core::StoreState));
    state_.data()->frames_with_memory = frames_with_memory_;
    WARREN_TRY(stream_.copy(device_.state, state_.data(), sizeof(core::StoreState)));
    const bool has_range = device_.heads == nullptr;
    const u64 low =
        has_range ? frames_with_memory_ : relaxed_load(host_.state->metadata_frames_end);
    const u64 high = std::max(low, relaxed_load(host_.state->data_frames_begin));
    WARREN_TRY(upload_entries({0, low}));
    WARREN_TRY(upload_entries({high, host_.frame_count}));
    const u64 frame_bytes = (host_.frame_count / 64 + 1) * sizeof(u64);
    WARREN_TRY(stream_.copy(device_.frames_free, host_.frames_free, frame_bytes));
    for (u32 kind = 0; kind < std::size(host_.frames_with_space); ++kind) {
        WARREN_TRY(stream_.copy(device_.frames_with_space[kind], host_.frames_with_space[kind],
                                frame_bytes));
    }
    WARREN_TRY(stream_.copy(device_.dirty_frames, host_.dirty_frames, frame_bytes));
    return stream_.copy(device_.dirty, host_.dirty, low * format::words_per_frame * sizeof(u64));
}

/// Copies all metadata frames of which the host has a block in memory, and the resident bits.
Errc DeviceStore::upload_blocks() const {
    const auto is_wanted = [&](u64 frame) {
        return format::holds_metadata(core::kind_of(host_, frame)) &&
               core::has_bit(host_.resident + frame * format::words_per_frame);
    };
    WARREN_TRY(for_each_run(0, frames_with_memory_, is_wanted, [&](u64 begin, u64 end) {
        const u64 place = begin * format::frame_size;
        return stream_.copy(device_.base + place, host_.base + place,
                            (end - begin) * format::frame_size);
    }));
    return stream_.copy(device_.resident, host_.resident,
                        frames_with_memory_ * format::words_per_frame * sizeof(u64));
}

Errc DeviceStore::read_counters(core::StoreState& counters) {
    std::lock_guard lock(mutex_);
    WARREN_TRY(stream_.copy(state_.data(), device_.state, sizeof(core::StoreState)));
    WARREN_TRY(stream_.wait());
    std::memcpy(&counters, state_.data(), sizeof counters);
    return Errc::ok;
}

Errc DeviceStore::show_block(u64 place) {
    std::lock_guard lock(mutex_);
    const u64 frame = place / format::frame_size;
    WARREN_TRY(map_frames({frame, frame + 1}));
    std::memcpy(block_.data(), host_.base + place, format::block_size);
    WARREN_TRY(publish_block(device_, place, block_.data(), stream_.get()));
    return stream_.wait();
}

Errc DeviceStore::prepare_inode_frame(u64 frame) {
    if (frame >= host_.frame_count) return Errc::invalid;
    if (device_.heads != nullptr) return Errc::ok;  // missed blocks are placed as zeros
    std::lock_guard lock(mutex_);
    WARREN_TRY(map_frames({frame, frame + 1}));
    WARREN_TRY(stream_.fill(device_.base + frame * format::frame_size, 0, format::frame_size));
    WARREN_TRY(stream_.fill(device_.resident + frame * format::words_per_frame, 0xff,
                            format::words_per_frame * sizeof(u64)));
    return stream_.wait();
}

Errc DeviceStore::add_frames(u64 wanted) {
    std::lock_guard lock(mutex_);
    // Of many commands that find no frame at the same time, the first adds memory for all.
    const u64 words = divide_up(frames_with_memory_, 64);
    WARREN_TRY(stream_.copy(words_.data(), device_.frames_free, words * sizeof(u64)));
    WARREN_TRY(stream_.wait());
    const u64 end = frames_with_memory_;
    u64 free = 0;
    for (u64 frame = core::find_bit_up(words_.data(), 0, end); frame != end && free < wanted;
         frame = core::find_bit_up(words_.data(), frame + 1, end))
        ++free;
    if (free >= wanted) return Errc::ok;
    if (end == host_.frame_count) return Errc::no_space;
    const u64 usual = std::min(std::max(end, first_frames), added_frames_max);
    u64 step = std::min(std::max(usual, wanted - free), host_.frame_count - end);
    Errc mapped = map_frames({end, end + step});
    while (mapped == Errc::no_memory && step > 1) {
        step /= 2;
        mapped = map_frames({end, end + step});
    }
    WARREN_TRY(mapped);
    frames_with_memory_ = end + step;
    words_.data()[0] = frames_with_memory_;
    WARREN_TRY(stream_.copy(&device_.state->frames_with_memory, words_.data(), sizeof(u64)));
    return stream_.wait();
}

}  // namespace warren::cuda_engine

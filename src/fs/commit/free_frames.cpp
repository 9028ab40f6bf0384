// SPDX-License-Identifier: Apache-2.0
// A frame is claimed like one for data while its memory is given back, so no operation allocates in
// it. A thread that reads it through a stale pointer sees its contents change, as if the frame had
// been reused.
#include "fs/commit/free_frames.hpp"

#include <sys/mman.h>

#include "fs/core/allocator.hpp"
#include "fs/ops/inode_frame.hpp"

namespace warren {

namespace {

// With fewer free frames this stops: an operation that needs a frame while one is claimed here
// could report a full volume.
constexpr u64 free_frames_min = 8;

}  // namespace

void give_back_free_frames(const core::Store& store) {
    // Data frames have no memory here.
    const u64 end = relaxed_load(store.state->metadata_frames_end);
    for (u64 frame = 0; frame < end; ++frame) {
        frame = core::find_bit_up(store.frames_free, frame, end);
        if (frame >= end) return;
        if (!core::has_bit(store.resident + frame * format::words_per_frame)) continue;
        if (relaxed_load(store.state->free_frames) < free_frames_min) return;
        if (!core::claim_data_frame_at(store, frame)) continue;
        // If madvise() fails, only the memory is not freed: no block there is resident.
        if (ops::forget_blocks(store, frame)) {
            static_cast<void>(madvise(store.base + frame * format::frame_size, format::frame_size,
                                      MADV_DONTNEED));
        }
        core::unclaim_frame(store, frame);
    }
}

}  // namespace warren

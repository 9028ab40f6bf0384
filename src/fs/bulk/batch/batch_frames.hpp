// SPDX-License-Identifier: Apache-2.0
// Adds inode frames for a batch, as many as it lacks in one call. The phases are as in
// batch_look.hpp; they have exclusive access to the volume's metadata.
//
// Invariant: a claimed frame is either published or returned.
#pragma once

#include "fs/bulk/batch/batch_run.hpp"

namespace warren::ops::batch {

/// Once: claims frames for `argument` inodes, or as many as there are. Always reports that a frame
/// has no memory (Errc::need_frame); any other failure only if no frame was claimed.
struct ClaimFrames : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        u32 count = 0;
        while (count * format::inode_slots_per_frame < argument && count < b.frames_max) {
            const Result<u64> frame = claim_frame(store, FrameKind::inodes);
            if (!frame) {
                if (count == 0 || frame.code() == Errc::need_frame) fail(frame.code());
                break;
            }
            b.frames[count++] = static_cast<u32>(*frame);
        }
        b.state->inode_frames = count;
    }
};

/// Per word of the claimed frames: clears it.
struct WipeFrames : Phase {
    WARREN_HD void operator()(u64 w) const {
        constexpr u64 words = format::frame_size / 8;
        const u64 place = u64{b.frames[w / words]} * format::frame_size;
        relaxed_store(reinterpret_cast<u64*>(store.base + place)[w % words], 0);
    }
};

/// Per claimed frame: marks its blocks as resident and its inodes as free.
struct StartFrames : Phase {
    WARREN_HD void operator()(u64 f) const {
        const u64 frame = b.frames[f];
        for (u32 w = 0; w < format::words_per_frame; ++w) {
            // Release: pairs with the acquire in Operation::pin().
            device_atomic<u64>(store.resident[frame * format::words_per_frame + w])
                .store(~u64{0}, hd::memory_order_release);
        }
        const ThreadTeam team{static_cast<u32>(f)};
        LaneOperation op(team, store);
        Errc started = Errc::retry;
        // Of many threads that reserve journal credits at the same time, some fail with
        // Errc::retry.
        for (u32 i = 0; i < 1000 && started == Errc::retry; ++i)
            started = start_wiped_inode_frame(op, frame);
        finish(op);
        if (started == Errc::ok) return;
        unclaim_frame(store, frame);
        fail(started);
    }
};

/// Adds frames for `inodes` inodes, or for some of them. Errc::need_frame if there were more
/// frames, but without memory. Requires: *b.state is zero.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD Errc add_inode_frames(Executor& executor, Batch& b, const Store& store, u64 inodes) {
    executor.each(1, ClaimFrames{{b, store, inodes}});
    const BatchState claimed = executor.look(*b.state);
    if (claimed.inode_frames == 0) return claimed.status;
    executor.each(u64{claimed.inode_frames} * (format::frame_size / 8), WipeFrames{{b, store}});
    executor.each(claimed.inode_frames, StartFrames{{b, store}});
    return executor.look(*b.state).status;
}

}  // namespace warren::ops::batch

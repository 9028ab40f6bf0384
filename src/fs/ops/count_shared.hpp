// SPDX-License-Identifier: Apache-2.0
// Counts the shared blocks of a file. It reads the reference counts, because the flag of an extent
// stays when the other references are gone. Takes no lock and writes nothing.
#pragma once

#include "fs/core/shared_blocks.hpp"
#include "fs/ops/map.hpp"

namespace warren::ops {

/// The result of one step of counting.
struct SharedCount {
    u64 passed = 0;     // blocks of the file that were counted; the caller continues after them
    u32 allocated = 0;  // how many of these have blocks in the volume
    u32 shared = 0;     // how many of those are used by another extent as well
};

/// How many of the blocks [first, first + count) of `frame` have more than one reference.
template <class Team>
WARREN_HD Result<u32> count_shared_in(Operation<Team>& op, u64 frame, u32 first, u32 count) {
    WARREN_LET(counts, find_counts(op, frame));
    if (*counts == nullptr) return u32{0};
    return once(op.team, [&] {
        u32 shared = 0;
        for (u32 i = first; i < first + count; ++i)
            shared += load_extra(**counts, i) != 0 ? 1 : 0;
        return shared;
    });
}

/// Counts from `block` on, within one extent or hole; within a shared extent in at most
/// shared_frames_max frames.
template <class Team>
WARREN_HD Result<SharedCount> count_shared(Operation<Team>& op, Handle handle, u64 block) {
    WARREN_LET(spot, locate(op, handle, block));
    const bool has_blocks = spot->kind == MappingKind::data || spot->kind == MappingKind::unwritten;
    SharedCount answer;
    answer.passed = spot->blocks;
    if (has_blocks) answer.allocated = static_cast<u32>(spot->blocks);
    if (!spot->is_shared) return answer;
    const u64 step = blocks_in_one_step(spot->place);
    if (answer.passed > step) answer.passed = answer.allocated = static_cast<u32>(step);
    Errc code = Errc::ok;
    for_each_frame_part(spot->place, answer.passed, [&](u64 frame, u32 first, u32 count) {
        if (code != Errc::ok) return;
        const Result<u32> shared = count_shared_in(op, frame, first, count);
        code = shared.code();
        if (shared) answer.shared += *shared;
    });
    WARREN_TRY(code);
    // If this holds, the counts were those of the extent's blocks.
    WARREN_TRY(op.confirm(spot->home.seen));
    return answer;
}

}  // namespace warren::ops

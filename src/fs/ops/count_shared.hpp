// SPDX-License-Identifier: Apache-2.0
// How many blocks of a file are shared, by the reference counts: the flag of an extent stays when
// the other references are gone. Takes no lock and writes nothing.
#pragma once

#include "fs/core/shared_blocks.hpp"
#include "fs/ops/map.hpp"

namespace warren::ops {

/// One step of a count: what lies at the next blocks of a file.
struct SharedCount {
    u64 passed = 0;     // blocks of the file; the count goes on behind them
    u32 allocated = 0;  // of these
    u32 shared = 0;     // of these: another extent refers to them as well
};

/// How many blocks of [first, first + count) of `frame` are referred to more than once.
template <class Team>
WARREN_HD Result<u32> count_shared_in(Operation<Team>& op, u64 frame, u32 first, u32 count) {
    const Result<ReferenceBlock*> counts = find_counts(op, frame);
    if (!counts) return counts.code();
    if (*counts == nullptr) return u32{0};
    return once(op.team, [&] {
        u32 shared = 0;
        for (u32 i = first; i < first + count; ++i)
            shared += relaxed_load((*counts)->extra[i]) != 0 ? 1 : 0;
        return shared;
    });
}

/// Counts from `block` on within one extent or hole, of a shared extent in at most
/// shared_frames_max frames.
template <class Team>
WARREN_HD Result<SharedCount> count_shared(Operation<Team>& op, Handle handle, u64 block) {
    const Result<Spot> spot = locate(op, handle, block);
    if (!spot) return spot.code();
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
    // The counts were those of this extent's blocks.
    WARREN_TRY(op.confirm(spot->home.seen));
    return answer;
}

}  // namespace warren::ops

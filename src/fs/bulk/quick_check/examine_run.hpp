// SPDX-License-Identifier: Apache-2.0
// Runs the phases of a quick check in order, on an executor: the host's threads or a grid of warps.
// An executor has
//
//   each(count, phase)   calls phase(team, sums, i) for each i below count, in any order and in
//                        parallel
//   look(state)          returns the state after all phases so far; sets its flaws on a failure
//   reset(word)          sets a word of the state to 0
//
// Invariant: a phase sees everything that earlier phases wrote.
#pragma once

#include "fs/bulk/quick_check/examine_blocks.hpp"

namespace warren::ops::examine {

/// Requires: the frames are loaded; `owned` has the blocks of system and inode frames; `parents` is
/// `nobody` except for the root directory and the orphan directory, which are their own parents;
/// all other tables are zero.
template <class Executor>
ExamState run(Executor& executor, const Exam& exam) {
    executor.each(exam.facts.counted_frames, ClaimCounts{exam});
    executor.each(u64{exam.inode_frames} * blocks_per_frame, ExamineInodes{exam});
    ExamState state = executor.look(*exam.state);
    for (u32 round = 0; round <= tree_height_max && state.flaws == 0; ++round) {
        const u32 queue = round % 2;
        if (state.node_counts[queue] == 0) break;
        executor.each(state.node_counts[queue], ExamineNodes{exam, queue});
        executor.reset(exam.state->node_counts[queue]);
        state = executor.look(*exam.state);
    }
    if (state.flaws != 0) return state;
    executor.each(exam.metadata_blocks(), ExamineBlocks{exam});
    state = executor.look(*exam.state);
    if (state.flaws != 0) return state;
    executor.each(state.run_count < exam.runs_max ? state.run_count : exam.runs_max,
                  ExamineRuns{exam});
    executor.each(exam.facts.counted_frames, CompareCounts{exam});
    const u64 parts = exam.inode_slots() / inodes_per_part;
    // Each round halves the distance to the top, which is less than 2^32 directories.
    for (u32 round = 0; round <= 32; ++round) {
        executor.reset(exam.state->changes);
        executor.each(parts, Jump{exam});
        state = executor.look(*exam.state);
        if (state.changes == 0 || state.flaws != 0) break;
    }
    executor.each(parts, CompareInodes{exam});
    executor.each((exam.facts.frame_count + 31) / 32, CompareFrames{exam});
    state = executor.look(*exam.state);
    if (state.blocks_used != exam.facts.blocks_used || state.inodes != exam.facts.inodes_used) {
        state.flaws = 1;
    }
    return state;
}

}  // namespace warren::ops::examine

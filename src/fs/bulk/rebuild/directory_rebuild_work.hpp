// SPDX-License-Identifier: Apache-2.0
// What the workers of a rebuild share. They go through its phases together: nobody begins one
// before all have ended the one before it.
//
// A tree that one commit cannot hold is packed a window of its leaves at a time, each window with
// all nodes above the tree's leaves.
//
// Invariant: from the phase that locks the directory to the last one nobody else finds its tree;
// and until all of the window was found sound nothing is written.
#pragma once

#include "fs/bulk/bulk_queue.hpp"
#include "fs/core/permission.hpp"
#include "fs/ops/rebuild.hpp"

namespace warren::bulk {

enum class RebuildPhase : u32 { open, count, place, measure, sum, gather, cut, plan, write, close };
inline constexpr u32 rebuild_phases = static_cast<u32>(RebuildPhase::close) + 1;

/// Leaves whose sizes one worker adds up.
inline constexpr u32 chunk_leaves = 256;
/// Entries that one worker cuts into leaves: full ones, if their names are short.
inline constexpr u32 segment_entries = ops::packed_entries * 64;
inline constexpr u32 packed_heap_words = ops::packed_heap_bytes / 8;
inline constexpr u32 node_levels_max = core::tree_height_max;

/// Entries and words of names: of a leaf, of a chunk, before a leaf.
struct LeafSize {
    u32 entries;
    u32 words;
};

struct RebuildState {
    // These two stay from rebuild to rebuild.
    alignas(128) u32 arrived;  // at the end of a phase
    u32 round;
    alignas(128) u32 codes[rebuild_phases];  // the Errc that ended a phase; from here on all begins
    u32 is_open;                             // barrier and lock are held
    u32 wanted_count;
    u64 blocks_wanted;  // with Errc::need_space: room for a tree of so many blocks
    u64 share;          // of the journal, once it is known how much is needed
    u64 room;           // of the journal, with Errc::overflow
    u64 next_key;       // where the next window begins; core::key_end: this was the last
    u64 version;        // at which the directory was locked
    u32 generation;
    u32 height;  // of the root
    u32 root_count;
    u32 upper_count;  // nodes above those of height 1
    u32 node_count;   // all of them
    u32 leaf_count;
    u32 entries;  // of the window
    u32 words;
    // The new tree.
    u32 is_changed;
    u32 new_leaves;  // of the window
    u32 new_nodes;
    u32 levels;                            // of nodes below the root
    u32 level_nodes[node_levels_max + 1];  // [0]: leaves
    u32 level_begin[node_levels_max + 1];  // of each level among the nodes

    /// What the first phase that failed says.
    Errc code() const {
        for (const u32 one : codes) {
            if (one != 0) return static_cast<Errc>(one);
        }
        return Errc::ok;
    }
};

struct RebuildRef {
    RebuildState* state;
    u64* nodes;            // places of the old tree's nodes: upper ones, then those of height 1
    u64* node_keys;        // with which they must begin
    LeafSize* node_sizes;  // entries: children of a node of height 1
    u64* leaves;           // places of its leaves, in the order of keys
    u64* leaf_keys;        // their lowest keys
    LeafSize* leaf_sizes;  // of the window; and then where a leaf's entries begin
    LeafSize* chunks;
    u64* keys;  // of all entries of the window, in order
    u64* targets;
    u32* name_at;  // words of names before an entry's
    u64* names;
    u32* cuts;             // segment by segment: the entries at which leaves begin
    u32* segment_cuts;     // how many leaves a segment makes, and then how many lie before it
    u64* wanted;           // places of blocks that are not in memory
    RebuildState* report;  // the state at the end, for the host

    u64 block_max;  // of the tree: room for as many leaves and as many nodes
    u64 wanted_max;
    u64 workers;
    u64 from_key;    // the window begins with the leaf that holds this key
    u64 window_max;  // and has at most so many leaves
};

/// Which windows a rebuild goes through, one run after the other.
struct RebuildWindows {
    u64 from_key = 0;
    u64 leaves_max = ~u64{0};

    /// What a run that ended with `code` means: Errc::ok when all is packed, Errc::retry to run
    /// again, with the next window or a smaller one; else the answer.
    Errc take(const RebuildState& report, Errc code) {
        constexpr u64 leaves_min = 16;
        if (code == Errc::overflow) {
            // All that it frees and writes, its nodes and the inode.
            const u64 others = u64{report.node_count} + 2;
            if (report.room < others + leaves_min) return Errc::not_supported;
            // Others need room beside it.
            const u64 fitting = (report.room - others) / 4 * 3;
            if (fitting >= leaves_max) return Errc::not_supported;
            leaves_max = fitting;
            return Errc::retry;
        }
        if (code != Errc::ok || report.next_key == core::key_end) return code;
        from_key = report.next_key;
        return Errc::retry;
    }
};

/// How many blocks of a tree lead to how many entries at most, for who allocates.
inline constexpr u64 rebuild_entries(u64 blocks) {
    return blocks * format::leaf_entries_max;
}
inline constexpr u64 rebuild_words(u64 blocks) {
    return blocks * (format::leaf_heap_bytes / 8);
}
inline constexpr u64 rebuild_segments(u64 blocks) {
    return rebuild_entries(blocks) / segment_entries + 2;
}

/// What the lanes of a worker share.
struct RebuildScratch {
    u64 leaf[format::block_size / 8];
    u64 keys[format::leaf_entries_max];
    u32 words[format::leaf_entries_max + 1];
};

}  // namespace warren::bulk

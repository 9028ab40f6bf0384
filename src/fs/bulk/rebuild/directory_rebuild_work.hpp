// SPDX-License-Identifier: Apache-2.0
// The data that the workers of a rebuild share. They execute its phases together: no worker begins
// a phase before all have ended the previous one.
//
// A tree that is too large for one commit is packed in windows of leaves; each window rewrites all
// nodes.
//
// Invariant: from the phase that locks the directory to the last one, no other operation can use
// its tree. Nothing is written before the whole window has been found sound.
#pragma once

#include "fs/bulk/bulk_queue.hpp"
#include "fs/core/permission.hpp"
#include "fs/ops/rebuild.hpp"

namespace warren::bulk {

enum class RebuildPhase : u32 { open, count, place, measure, sum, gather, cut, plan, write, close };
inline constexpr u32 rebuild_phases = static_cast<u32>(RebuildPhase::close) + 1;

/// Leaves whose sizes one worker adds up.
inline constexpr u32 chunk_leaves = 256;
/// Entries that one worker divides into leaves, which are full if the names are short.
inline constexpr u32 segment_entries = ops::packed_entries * 64;
inline constexpr u32 packed_heap_words = ops::packed_heap_bytes / 8;
inline constexpr u32 node_levels_max = core::tree_height_max;

/// A number of entries, and of words of names: in a leaf, in a chunk, or before a leaf.
struct LeafSize {
    u32 entries;
    u32 words;

    WARREN_HD LeafSize& operator+=(const LeafSize& other) {
        entries += other.entries;
        words += other.words;
        return *this;
    }
};

struct RebuildState {
    // These two survive from one rebuild to the next.
    alignas(128) u32 arrived;  // workers at the end of a phase
    u32 round;
    alignas(128) u32 codes[rebuild_phases];  // first error of each phase; start() clears from here
    u32 is_open;                             // the barrier is passed and the lock is held
    u32 wanted_count;
    u64 blocks_wanted;  // with Errc::need_space: blocks of the tree
    u64 share;          // journal credits that the rebuild holds
    u64 room;           // of the journal; set with the credits, for Errc::overflow
    u64 next_key;       // where the next window begins; core::key_end: there is none
    u64 version;        // the version at which the directory was locked
    u32 generation;
    u32 height;  // of the root
    u32 root_count;
    u32 upper_count;  // nodes of a height above 1
    u32 node_count;   // all nodes
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

    /// The error of the first phase that failed.
    Errc code() const {
        for (const u32 one : codes) {
            if (one != 0) return static_cast<Errc>(one);
        }
        return Errc::ok;
    }
};

struct RebuildRef {
    RebuildState* state;
    u64* nodes;            // addresses of the old tree's nodes: those of height 1 last
    u64* node_keys;        // their first keys
    LeafSize* node_sizes;  // entries: number of children of a node of height 1
    u64* leaves;           // addresses of its leaves, in the order of keys
    u64* leaf_keys;        // their lowest keys
    LeafSize* leaf_sizes;  // of the window; later the positions where a leaf's entries begin
    LeafSize* chunks;
    u64* keys;  // of all entries of the window, in order
    u64* targets;
    u32* name_at;  // words of names before that of an entry
    u64* names;
    u32* cuts;             // by segment: the entries at which leaves begin
    u32* segment_cuts;     // number of leaves of a segment; later that of all segments before it
    u64* wanted;           // addresses of blocks that are not in memory
    RebuildState* report;  // copy of the final state, for the host

    u64 block_max;  // capacity: as many leaves, and as many nodes
    u64 wanted_max;
    u64 workers;
    u64 from_key;    // the window begins with the leaf that covers this key
    u64 window_max;  // and has at most this many leaves
};

/// The windows of a rebuild, each packed by a run of its own.
struct RebuildWindows {
    u64 from_key = 0;
    u64 leaves_max = ~u64{0};

    /// Evaluates a run that ended with `code`: Errc::ok if all is packed; Errc::retry to run again,
    /// with the next window or a smaller one; any other code is the result.
    Errc take(const RebuildState& report, Errc code) {
        constexpr u64 leaves_min = 16;
        if (code == Errc::overflow) {
            // An upper bound of what is dirtied besides one block for each leaf of the window.
            const u64 others = u64{report.node_count} + 2;
            if (report.room < others + leaves_min) return Errc::not_supported;
            // A quarter is left to other operations.
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

/// Upper bounds for a tree of `blocks` blocks, for allocations.
inline constexpr u64 rebuild_entries(u64 blocks) {
    return blocks * format::leaf_entries_max;
}
inline constexpr u64 rebuild_words(u64 blocks) {
    return blocks * (format::leaf_heap_bytes / 8);
}
inline constexpr u64 rebuild_segments(u64 blocks) {
    return rebuild_entries(blocks) / segment_entries + 2;
}

/// Memory that the lanes of a worker share.
struct RebuildScratch {
    u64 leaf[format::block_size / 8];
    u64 keys[format::leaf_entries_max];
    u32 words[format::leaf_entries_max + 1];
};

}  // namespace warren::bulk

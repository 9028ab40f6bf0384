// SPDX-License-Identifier: Apache-2.0
// The memory that the workers of a rebuild share, on a device or on the host, and the loop that
// packs a directory window by window and serves the retry reasons between runs.
//
// Invariant: the memory grows only between two runs, and loses its contents then.
#pragma once

#include "fs/bulk/rebuild/directory_rebuild_work.hpp"

namespace warren::bulk {

/// `Buffer` is gpu::DeviceBuffer, or its counterpart in the tests.
template <template <class> class Buffer>
struct RebuildRoom {
    static constexpr u64 wanted_count = u64{1} << 16;

    u64 tree_blocks = 0;
    Buffer<RebuildState> state;
    Buffer<u64> nodes;
    Buffer<u64> node_keys;
    Buffer<LeafSize> node_sizes;
    Buffer<u64> leaves;
    Buffer<u64> leaf_keys;
    Buffer<LeafSize> leaf_sizes;
    Buffer<LeafSize> chunks;
    Buffer<u64> keys;
    Buffer<u64> targets;
    Buffer<u32> name_at;
    Buffer<u64> names;
    Buffer<u32> cuts;
    Buffer<u32> segment_cuts;
    Buffer<u64> wanted;

    /// Called once. The caller then fills `state` with zeros.
    Errc open() {
        WARREN_TRY(state.allocate(1));
        return wanted.allocate(wanted_count);
    }
    /// Makes room for trees of `blocks` blocks. After an error there is none.
    Errc grow(u64 blocks) {
        tree_blocks = 0;
        WARREN_TRY(each_array(blocks, [](auto& array, u64 count) { return array.grow(count); }));
        tree_blocks = blocks;
        return Errc::ok;
    }
    /// How much memory such room takes.
    u64 bytes_for(u64 blocks) {
        u64 bytes = 0;
        static_cast<void>(each_array(blocks, [&](const auto& array, u64 count) {
            bytes += count * sizeof *array.data();
            return Errc::ok;
        }));
        return bytes;
    }

    /// The reference for `workers` workers in the next window. They store their result in `report`.
    RebuildRef ref(u64 workers, const RebuildWindows& windows, RebuildState* report) const {
        RebuildRef ref{};
        ref.state = state.data();
        ref.nodes = nodes.data();
        ref.node_keys = node_keys.data();
        ref.node_sizes = node_sizes.data();
        ref.leaves = leaves.data();
        ref.leaf_keys = leaf_keys.data();
        ref.leaf_sizes = leaf_sizes.data();
        ref.chunks = chunks.data();
        ref.keys = keys.data();
        ref.targets = targets.data();
        ref.name_at = name_at.data();
        ref.names = names.data();
        ref.cuts = cuts.data();
        ref.segment_cuts = segment_cuts.data();
        ref.wanted = wanted.data();
        ref.report = report;
        ref.block_max = tree_blocks;
        ref.wanted_max = wanted_count;
        ref.workers = workers;
        ref.from_key = windows.from_key;
        ref.window_max = windows.leaves_max;
        return ref;
    }

 private:
    /// Calls `action(array, count)` for each array that a tree of `blocks` blocks needs.
    template <class Action>
    Errc each_array(u64 blocks, const Action& action) {
        WARREN_TRY(action(nodes, blocks));
        WARREN_TRY(action(node_keys, blocks));
        WARREN_TRY(action(node_sizes, blocks));
        WARREN_TRY(action(leaves, blocks));
        WARREN_TRY(action(leaf_keys, blocks));
        WARREN_TRY(action(leaf_sizes, blocks));
        WARREN_TRY(action(chunks, blocks / chunk_leaves + 1));
        WARREN_TRY(action(keys, rebuild_entries(blocks)));
        WARREN_TRY(action(targets, rebuild_entries(blocks)));
        WARREN_TRY(action(name_at, rebuild_entries(blocks) + 1));
        WARREN_TRY(action(names, rebuild_words(blocks)));
        WARREN_TRY(action(cuts, rebuild_segments(blocks) * segment_entries));
        return action(segment_cuts, rebuild_segments(blocks));
    }
};

/// Packs a directory window by window. `run(windows)` runs all workers on one window and leaves the
/// result in `report`. `host` has bring_wanted(), grow(blocks), commit() and rest(), which waits
/// for a while so that other operations can proceed.
template <class Run, class Host>
Errc pack_windows(RebuildWindows windows, const RebuildState& report, const Run& run, Host& host) {
    constexpr u32 retries_max = 100'000;
    constexpr u32 damaged_max = 4;  // a block may have been reused meanwhile: damage must persist
    u32 damaged = 0;
    for (u32 retry = 0; retry < retries_max; ++retry) {
        WARREN_TRY(run(windows));
        const Errc code = windows.take(report, report.code());
        switch (code) {
            case Errc::retry:
                WARREN_TRY(host.rest());
                break;
            case Errc::need_block:
                WARREN_TRY(host.bring_wanted());
                break;
            case Errc::need_commit:
                WARREN_TRY(host.commit());
                break;
            case Errc::need_space:
                WARREN_TRY(host.grow(report.blocks_wanted));
                break;
            case Errc::corrupt:
                if (++damaged == damaged_max) return code;
                WARREN_TRY(host.rest());
                break;
            default:
                return code;
        }
    }
    return Errc::busy;
}

}  // namespace warren::bulk

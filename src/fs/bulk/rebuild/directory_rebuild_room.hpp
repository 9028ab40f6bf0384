// SPDX-License-Identifier: Apache-2.0
// The memory that the workers of a rebuild share, on a device or on the host, and the loop that
// packs a directory window by window and serves the retry reasons between runs.
//
// Invariant: the memory grows only between two runs, and loses its contents then.
#pragma once

#include "base/array_layout.hpp"
#include "fs/bulk/rebuild/directory_rebuild_work.hpp"

namespace warren::bulk {

/// `Buffer` is gpu::DeviceBuffer, or its counterpart in the tests.
template <template <class> class Buffer>
struct RebuildRoom {
    static constexpr u64 wanted_count = u64{1} << 16;

    u64 tree_blocks = 0;
    Buffer<RebuildState> state;
    Buffer<std::byte> arrays;
    Buffer<u64> wanted;

    /// Called once. The caller then fills `state` with zeros.
    Errc open() {
        WARREN_TRY(state.allocate(1));
        return wanted.allocate(wanted_count);
    }
    /// Makes room for trees of `blocks` blocks. After an error there is none.
    Errc grow(u64 blocks) {
        tree_blocks = 0;
        WARREN_TRY(arrays.grow(bytes_for(blocks)));
        tree_blocks = blocks;
        return Errc::ok;
    }
    /// How much memory such room takes.
    static u64 bytes_for(u64 blocks) {
        RebuildRef ref{};
        ArrayLayout count;
        lay_out(ref, blocks, count);
        return count.bytes();
    }

    /// The reference for `workers` workers in the next window. They store their result in `report`.
    RebuildRef ref(u64 workers, const RebuildWindows& windows, RebuildState* report) const {
        RebuildRef ref{};
        lay_out(ref, tree_blocks, ArrayLayout(arrays.data()));
        ref.state = state.data();
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
    /// Lays out the arrays that a tree of `blocks` blocks needs: take(pointer, count) sets
    /// `pointer` to memory for `count` elements.
    template <class Take>
    static void lay_out(RebuildRef& ref, u64 blocks, Take&& take) {
        take(ref.nodes, blocks);
        take(ref.node_keys, blocks);
        take(ref.node_sizes, blocks);
        take(ref.leaves, blocks);
        take(ref.leaf_keys, blocks);
        take(ref.leaf_sizes, blocks);
        take(ref.chunks, blocks / chunk_leaves + 1);
        take(ref.keys, rebuild_entries(blocks));
        take(ref.targets, rebuild_entries(blocks));
        take(ref.name_at, rebuild_entries(blocks) + 1);
        take(ref.names, rebuild_words(blocks));
        take(ref.cuts, rebuild_segments(blocks) * segment_entries);
        take(ref.segment_cuts, rebuild_segments(blocks));
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

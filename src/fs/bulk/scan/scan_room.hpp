// SPDX-License-Identifier: Apache-2.0
// The memory that the workers of a scan share, on a device or on the host.
//
// Invariant: the two lists of tasks are swapped between runs, so a run reads the list that the
// previous run has written.
#pragma once

#include "fs/bulk/scan/scan_output.hpp"

namespace warren::bulk {

/// `Buffer` is gpu::DeviceBuffer, or its host counterpart.
template <template <class> class Buffer>
struct ScanRoom {
    Buffer<ScanState> state;
    Buffer<BulkSlot> slots;
    Buffer<ScanDirectory> directories;
    Buffer<ScanSum> sums;
    Buffer<KeyRange> ranges;
    Buffer<ops::TreeTask> spilled[2];
    Buffer<u64> wanted;
    Buffer<u64> output;
    Buffer<BundlePlace> bundles;
    Buffer<u64> linked;
    Buffer<u64> held;     // ScanPurpose::list
    Buffer<u64> sharing;  // likewise
    Buffer<u64> blocks;   // likewise
    u32 spilling = 0;     // the list to which the current run spills

    /// Swaps the lists, and returns the one to which the last run has spilled.
    const ops::TreeTask* turn_over() {
        const ops::TreeTask* const left = spilled[spilling].data();
        spilling ^= 1;
        return left;
    }

    /// A reference for `workers` workers with `lanes` lanes each.
    ScanRef ref(u64 workers, u32 lanes) const {
        ScanRef ref{};
        ref.state = state.data();
        ref.queue.slots = slots.data();
        ref.queue.capacity = slots.count();
        ref.queue.margin = slots.count() < workers * lanes ? slots.count() : workers * lanes;
        ref.queue.state = &state.data()->queue;
        ref.directories = directories.data();
        ref.sums = sums.data();
        ref.ranges = ranges.data();
        ref.spilled = spilled[spilling].data();
        ref.wanted = wanted.data();
        ref.output = output.data();
        ref.bundles = bundles.data();
        ref.linked = linked.data();
        ref.directory_max = directories.count();
        ref.range_max = ranges.count();
        ref.spilled_max = spilled[0].count();
        ref.wanted_max = wanted.count();
        ref.output_max = output.count();
        ref.bundle_max = bundles.count();
        ref.linked_frames = linked.count() / (format::inodes_per_frame / 64);
        ref.masks = {blocks.data(), linked.data(), held.data(), sharing.data(), ref.linked_frames};
        ref.workers = workers;
        return ref;
    }
};

}  // namespace warren::bulk

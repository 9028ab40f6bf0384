// SPDX-License-Identifier: Apache-2.0
// The memory that the workers of a scan share: the directories found, the ranges of their keys that
// are still to be listed, and the results. Host and workers alternate: a run ends when everything
// is listed or when the host must act (load blocks, allocate memory), and the next run begins with
// the tasks that are left (scan_run.hpp).
//
// Invariant: each range of keys belongs to one task, and a directory's ranges cover it without
// overlap. So a name that exists throughout is found exactly once, however the tree changes
// meanwhile.
#pragma once

#include "fs/bulk/bulk_queue.hpp"
#include "fs/bulk/scan/scan_filter.hpp"
#include "fs/bulk/scan/tree_masks.hpp"
#include "fs/bulk/tree_task.hpp"
#include "fs/core/permission.hpp"

namespace warren::bulk {

enum class ScanPurpose : u8 {
    visit,    // report directories, and the files that match the filter
    measure,  // sum up sizes
    removal,  // check whether the caller may remove everything
    list,     // list what removing the tree frees; of the image of a replica
};

/// The parameters of a scan, the same for all workers.
struct ScanPlan {
    ScanPurpose purpose = ScanPurpose::visit;
    bool counts_links = false;
    core::TreeCheck tree_check = core::TreeCheck::as_rm;  // removal
    u32 permission = 0;        // required in every directory that has names
    u32 sums_depth = 0;        // measure: directories below this depth have no sum of their own
    core::Credentials caller;  // its groups are in memory that the workers can read
    ops::FileFilter files;
};

/// A plan for `purpose`, with the permissions that the caller needs.
inline ScanPlan plan_scan(ScanPurpose purpose, const core::Credentials& caller) {
    ScanPlan plan;
    plan.purpose = purpose;
    plan.permission = core::may_read | core::may_execute;
    if (purpose == ScanPurpose::removal) plan.permission |= core::may_write;
    plan.caller = caller;
    return plan;
}

/// A part of a directory's keys: [from, end).
struct KeyRange {
    u64 from;
    u64 end;
};

/// A directory that was found. Each field but `is_allowed` is written once.
struct ScanDirectory {
    u64 number;
    u32 generation;
    u32 depth;
    u32 sum;         // index of the sum to which it adds
    u32 is_allowed;  // whether the caller is known to be allowed to list it
    KeyRange keys;   // of the task that lists the whole directory
};

/// The usage of a directory.
struct ScanSum {
    u64 entries;
    u64 blocks;
    u64 bytes;

    WARREN_HD ScanSum& operator+=(const ScanSum& other) {
        entries += other.entries;
        blocks += other.blocks;
        bytes += other.bytes;
        return *this;
    }
};

/// The entry that a lane has read from a slot of a leaf.
struct ScanFound {
    Errc code = Errc::ok;
    bool is_told = false;
    bool is_directory = false;
    u32 name_offset = 0;
    u32 name_length = 0;
    Attributes attributes;

    /// Resets the fields that mark it as empty, but not all attributes.
    WARREN_HD void forget() {
        code = Errc::ok;
        is_told = false;
        is_directory = false;
        attributes.handle = {};
    }
};

/// The words that workers change. `written` is bundles << 40 | words.
struct ScanState {
    BulkQueueState queue;
    alignas(128) u64 written;
    alignas(128) u32 directory_count;
    u32 range_count;
    u32 sum_count;
    alignas(128) u32 spilled_count;
    u32 wanted_count;
    u32 damaged_count;
    u32 error;          // an Errc
    u32 masked_count;   // block groups of which the tree has something
    u64 inodes_wanted;  // not 0: more directories than fit; restart with room for this many
    u64 frames_wanted;  // the same for frames in `linked`
};

inline constexpr u32 written_shift = 40;

struct BundlePlace;  // scan_output.hpp

/// A reference to all shared memory of a scan.
struct ScanRef {
    ScanState* state;
    BulkQueue queue;
    ScanDirectory* directories;
    ScanSum* sums;
    KeyRange* ranges;
    ops::TreeTask* spilled;  // tasks for the next run
    u64* wanted;             // addresses of blocks that are not in memory
    u64* output;
    BundlePlace* bundles;
    u64* linked;      // one bit per inode number: set for a counted file with several names
    TreeMasks masks;  // ScanPurpose::list; `inodes` is `linked`

    u64 directory_max;
    u64 range_max;
    u64 spilled_max;
    u64 wanted_max;
    u64 output_max;  // words
    u64 bundle_max;
    u64 linked_frames;
    u64 workers;
};

/// A task lists a directory, or a range of its keys.
struct ScanTask {
    static constexpr u64 no_range = ~u64{0};

    static WARREN_HD ops::TreeTask make(u32 directory, u64 range = no_range) {
        return {u64{directory} + 1, range};
    }
    static WARREN_HD u32 directory(const ops::TreeTask& task) {
        return static_cast<u32>(task.subject - 1);
    }
    static WARREN_HD KeyRange& keys(const ScanRef& ref, const ops::TreeTask& task) {
        return task.part == no_range ? ref.directories[directory(task)].keys
                                     : ref.ranges[task.part];
    }
};

/// The number of votes of lanes before this one.
template <class Team>
WARREN_HD u32 rank_in(const Team& team, u32 votes) {
    return static_cast<u32>(hd::popcount(votes & ((u32{1} << team.lane()) - 1)));
}

/// Stores the first error of the scan. One lane.
WARREN_HD inline void fail_scan(const ScanRef& ref, Errc code) {
    u32 none = 0;
    device_atomic<u32>(ref.state->error)
        .compare_exchange_strong(none, static_cast<u32>(code), hd::memory_order_relaxed);
}

/// Keeps a task for the next run. One lane.
WARREN_HD inline void spill_scan(const ScanRef& ref, const ops::TreeTask& task) {
    const u32 index = relaxed_add(ref.state->spilled_count, 1);
    WARREN_CHECK(index < ref.spilled_max);
    ref.spilled[index] = task;
}

/// Prepares a scan of the directory `root`. One lane.
WARREN_HD inline void start_scan(const ScanRef& ref, Handle root) {
    ScanState& state = *ref.state;
    state.directory_count = 1;
    state.range_count = 0;
    state.sum_count = 1;
    state.error = 0;
    state.masked_count = 0;
    state.inodes_wanted = 0;
    state.frames_wanted = 0;
    ref.directories[0] = {root.inode, root.generation, 0, 0, 0, {0, ~u64{0}}};
    ref.sums[0] = {};
    ref.spilled[0] = ScanTask::make(0);
    state.spilled_count = 1;
}

/// Ends a scan that has not begun with Errc::need_space if there is no room for all inodes of
/// `store`, or for the marks of its files. One lane.
WARREN_HD inline void check_room(const ScanRef& ref, const core::Store& store) {
    ScanState& state = *ref.state;
    const u64 inodes = relaxed_load(store.state->inodes_used);
    const u64 frames = relaxed_load(store.state->metadata_frames_end);
    const u64 wanted = inodes + ref.workers * format::leaf_entries_max;
    if (wanted > ref.directory_max) state.inodes_wanted = wanted;
    if (frames > ref.linked_frames) state.frames_wanted = frames;
    if (state.inodes_wanted != 0 || state.frames_wanted != 0) {
        state.error = static_cast<u32>(Errc::need_space);
    }
}

/// Prepares a run, whose output comes behind that of the run before if it is kept. One lane; then
/// call seed_scan(), and begin_over() of the queue.
WARREN_HD inline void start_run(const ScanRef& ref, bool keeps_output = false) {
    ScanState& state = *ref.state;
    ref.queue.reset();
    if (!keeps_output) state.written = 0;
    state.spilled_count = 0;
    state.wanted_count = 0;
    state.damaged_count = 0;
}

/// Gives the workers task `index` of the initial tasks of a run. One lane.
WARREN_HD inline void seed_scan(const ScanRef& ref, u64 index, const ops::TreeTask& task) {
    // No worker takes tasks yet, so the initial tasks must not fill the ring.
    if (index < ref.queue.capacity / 2) {
        ref.queue.seed(task);
    } else {
        spill_scan(ref, task);
    }
}

}  // namespace warren::bulk

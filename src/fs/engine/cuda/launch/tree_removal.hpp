// SPDX-License-Identifier: Apache-2.0
// remove_tree on a GPU: the host's side of the bulk steps. A step is usually one kernel. A warp
// passes the freeze barrier, another detaches the tree's root from its parent and puts it into the
// queue, many warps take the tree apart (bulk/remove_tree/reclaim_tree.hpp), and the last one
// leaves the freeze barrier and writes a report for the host. Directories that are left over are
// added to the orphan directory first; a tree that is freed in one step is never there.
//
// Invariant: between two steps every directory that was detached and not freed is in the orphan
// directory, and the queue is empty.
#pragma once

#include <string_view>
#include <vector>

#include "fs/bulk/bulk_queue.hpp"
#include "fs/core/held_frames.hpp"
#include "fs/core/permission.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/bulk_host.hpp"
#include "fs/engine/cuda/launch/removal_room.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

using namespace warren::bulk;

/// Moments of a step by the device's clock, in nanoseconds.
struct RemovalTimes {
    u64 begun;      // the step is being opened
    u64 seeded;     // the root is detached and in the queue
    u64 reclaimed;  // the queue is empty
    u64 ended;      // the step has left the freeze barrier
};

/// Capacity of each of a step's lists of directories, and of the list of roots with which it
/// begins.
inline constexpr u32 removal_list_entries = 1u << 20;
inline constexpr u32 removal_roots_max = 1u << 16;

/// What the host learns of a step: a part of the step's state, and of its report.
struct RemovalOutcome {
    RemovalTimes times;
    ops::Removed removed;  // what remains to be done after the root was detached
    u64 files;
    u64 directories;
    u64 inodes;
    u64 blocks;
    u32 error;    // an Errc
    u32 is_open;  // the step has passed the freeze barrier and not left it: it needs another kernel
    u32 is_narrow;  // lonely_max directories were visited alone: list_trees() has to be launched
                    // next
    u32 has_root;   // the root was detached from its parent
    u32 unfinished_count;
    u32 wanted_count;
    u32 wants_frames;   // no frame with memory is left for metadata
    u32 hangs_nowhere;  // a directory that is left could not be added to the orphan directory; the
                        // step must not be committed
    u32 lacks_room;     // the step has found no journal credits or free frame and has not begun
    u32 roots_max;      // with how many roots the next step may begin; only set if this one began
                        // with roots or left directories
};

/// The state of a step, in device memory.
struct RemovalState : RemovalOutcome {
    BulkQueueState queue;
    alignas(128) u64 detached;   // number of directories that are detached and not freed yet
    alignas(128) u64 must_stop;  // 1: an error, the deadline, or a tree that is too narrow
    u64 limits[3];     // the step is full when detached, dirty blocks or must_stop reach theirs
    u64 detached_max;  // hard limit of detached; detached_unbounded: limits[0] suffices
    u64 dirty_max;
    u64 deadline;
    StepRoom room;
    u64 credits;        // journal credits of the step: JournalCredits::keep()
    u64 orphan_blocks;  // blocks of the orphan directory when the step began
    u32 takes_few;      // StepRoom::takes_few()
    u32 emptied_count;
    u32 must_wait;    // the step cannot end before the host has loaded a block or added a frame
    u32 enders_left;  // warps of end_step() that have not finished
    // Listing of directories.
    u32 may_list;
    u32 lonely_count;  // directories that were visited when hardly any other task was left
    u32 is_listing;    // a listing is in force
    u32 holds_moves;   // the step holds the move lock, so no directory moves
    u32 seed_count;
    u32 frame_count;
    u32 directory_count;
    u32 reached_count;
    u64 move_version;
    u64 move_word;   // the step's lanes use it in place of the version word of the move lock
    u64 room_names;  // how many names in the orphan directory the held frames have room for
    core::HeldFrames held;
    alignas(128) u64 dropping;     // see LaneRules
    alignas(128) u32 workers_out;  // warps that found the queue empty for good
};

/// A list of directories that were found by the parent numbers in their inodes instead of by their
/// names, so that a narrow and deep tree is taken apart everywhere at once. The index of an inode
/// is the rank of its frame among those listed * 8192 + its slot.
struct TreeListing {
    static constexpr u32 frames_max = 1024;  // 8 million inodes; others are found by name
    static constexpr u32 rank_none = ~u32{0};

    u32* ranks;        // of each frame of the volume
    u32* frames;       // by rank
    u32* above;        // by index: an ancestor; the inode itself if none above it is listed
    u32* parents;      // by index: the parent, or rank_none
    u32* reached;      // by index: whether the path up leads to a root of the step
    u64* directories;  // the list: index | generation << 32

    /// The index of an inode, or rank_none.
    WARREN_HD u32 index_of(const core::Store& store, u64 number) const {
        const u64 frame = number / format::inodes_per_frame;
        if (frame >= store.frame_count || ranks[frame] >= frames_max) return rank_none;
        return ranks[frame] * format::inodes_per_frame +
               static_cast<u32>(number % format::inodes_per_frame);
    }
};

/// The report of a step for the host, in pinned memory.
struct RemovalReport : RemovalOutcome {
    u64 sequence;  // of the launch; written last
};

/// Flag in the list of unfinished directories: only names of files are left in the directory that a
/// bulk step cannot remove.
inline constexpr u64 leftovers_only = u64{1} << 63;

/// The tasks with which a step begins.
struct RemovalBegin {
    enum class Kind : u8 { roots, name, nothing };

    Kind kind = Kind::roots;  // orphans, a name, or the tasks that are in the queue already
    u32 name_length = 0;
    core::Credentials caller;  // with a name; without groups
    Handle directory;
    char name[format::name_length_max] = {};
};

/// The arguments of a step's kernels.
struct RemovalRef {
    RemovalState* state;
    BulkQueue queue;
    u64* unfinished;  // directories that the step has not freed
    u64* emptied;     // empty directories in the orphan directory; 0: removed from there
    u64* wanted;      // places of missed blocks
    u64* seeds;       // the directories from which a listing starts
    TreeListing listing;
    const u64* roots;  // the directories with which the step begins
    u64 first_root;
    u32 root_count;
    u32 list_max;  // of each list
    u32 workers;   // warps
    i64 now;
    u64 sequence;
    RemovalReport* report;
};

inline constexpr u32 ender_warps = 32;
inline constexpr u64 detached_unbounded = ~u64{0};

/// Launches the kernel of a step.
Errc launch_step(const core::Store& store, const RemovalRef& ref, const RemovalBegin& begin,
                 const RemovalShape& shape, const gpu::Stream& stream);
/// Launches the kernel that ends a step which could not end in its first kernel.
Errc launch_end(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream);
/// Launches the kernels that refill the queue with the unfinished directories and all directories
/// below them that can be found by their parents' numbers.
Errc list_trees(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream);

class TreeRemoval {
 public:
    Errc open(const RemovalShape& shape = {});

    /// Frees the directory `root`, which is in the orphan directory, and everything below it; adds
    /// the counts to `removal`. `store` has device pointers.
    Errc remove(const core::Store& store, u64 root, BulkHost& host, Removal& removal);
    /// As remove() for the directory (directory, name), which `caller` must be allowed to remove;
    /// the caller's groups are ignored. `removed`: what remains to be done afterwards.
    /// Errc::not_directory if it is none; Errc::not_supported, and nothing has changed, if the
    /// volume is too full.
    Errc remove_name(const core::Store& store, const core::Credentials& caller, Handle directory,
                     std::string_view name, BulkHost& host, Removal& removal,
                     ops::Removed& removed);

    /// After an error: whether the last step has ended and the device still works.
    bool is_sound() const;

    u64 warps() const { return warps_; }
    u32 steps() const { return steps_; }
    /// The moments of the last step.
    const RemovalTimes& times() const { return report_.data()->times; }

 private:
    Errc run_steps(const core::Store& store, RemovalBegin& begin, BulkHost& host, Removal& removal,
                   ops::Removed& removed);
    Errc run_step(const core::Store& store, const RemovalBegin& begin, BulkHost& host,
                  Removal& removal);
    Errc finish_step(const core::Store& store, BulkHost& host);
    Errc wait_for_report();
    Errc bring_wanted(BulkHost& host);
    Errc keep_unfinished(BulkHost& host, Removal& removal);
    void take_roots();
    Errc remove_by_names(BulkHost& host, Removal& removal);
    static Errc find_room(Errc lack, bool& has_committed, BulkHost& host);
    RemovalRef ref();

    RemovalShape shape_;
    gpu::Stream stream_;
    gpu::DeviceBuffer<RemovalState> state_;
    gpu::DeviceBuffer<BulkSlot> slots_;
    gpu::DeviceBuffer<u64> lists_;
    gpu::DeviceBuffer<u32> ranks_;
    gpu::DeviceBuffer<u32> listed_;
    gpu::DeviceBuffer<u64> directories_;
    gpu::PinnedBuffer<u64> roots_;
    std::vector<u64> pending_;  // directories in the orphan directory; the newest last
    gpu::PinnedBuffer<RemovalReport> report_;
    u32 root_count_ = 0;
    u32 warps_ = 0;
    u32 steps_ = 0;
    u64 sequence_ = 0;
    i64 now_ = 0;
};

}  // namespace warren::cuda_engine

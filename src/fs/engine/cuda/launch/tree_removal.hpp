// SPDX-License-Identifier: Apache-2.0
// remove_tree on a GPU: the host's side of the bulk steps. A step is one kernel: a warp passes the
// barrier, takes the tree's root out of its parent and fills the queue, many warps take the tree
// apart (bulk/remove_tree/reclaim_tree.hpp), and the last one hangs on the orphan directory what is
// left over, lets go of the freeze barrier and tells the host. A tree that goes in one step never
// gets there.
//
// Invariant: between two steps every inode that still exists hangs on the orphan directory, and the
// queue is empty.
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
    u64 begun;      // the first warp runs
    u64 seeded;     // the root has no name any more and is in the queue
    u64 reclaimed;  // the queue is empty
    u64 ended;      // the freeze barrier is open for others
};

/// Directories in each of a step's lists, and those of the orphan directory that it begins with.
inline constexpr u32 removal_list_entries = 1u << 20;
inline constexpr u32 removal_roots_max = 1u << 16;

/// A step's words in device memory.
struct RemovalState {
    BulkQueueState queue;
    alignas(128) u64 loose;      // directories taken out of their parents and not freed yet
    alignas(128) u64 must_stop;  // 1: an error, too much time, too narrow a tree
    u64 limits[3];  // of loose, of dirty blocks, of must_stop: from there on it is full
    u64 loose_max;  // what loose may never be more than; loose_unbounded: the limit sees to that
    u64 dirty_max;
    u64 deadline;
    StepRoom room;
    u64 credits;        // blocks of the journal's room: JournalCredits::keep()
    u64 orphan_blocks;  // of the orphan directory, when the step began
    u32 takes_few;      // names: see StepRoom
    u32 unfinished_count;
    u32 emptied_count;
    u32 wanted_count;
    u32 must_wait;  // ending the step lacks a block or a frame
    u32 wants_frames;
    u32 enders_left;    // warps of end_step()
    u32 error;          // an Errc
    u32 has_root;       // it was taken out of its parent
    u32 is_open;        // the freeze barrier is held
    u32 hangs_nowhere;  // a directory that is left could not come among the orphans
    u32 lacks_room;     // no frame could be held, so nothing has begun
    // Listing of directories.
    u32 may_list;
    u32 lonely_count;  // directories that were all that was left to do
    u32 is_narrow;     // most of them were: the step stops, to begin again with a listing
    u32 is_listing;    // a listing is in force
    u32 holds_moves;   // no directory moves meanwhile
    u32 seed_count;
    u32 frame_count;
    u32 directory_count;
    u32 reached_count;
    u64 move_version;
    u64 move_word;   // stands for the stripe of the move lock among the step's lanes
    u64 room_names;  // among the orphans: so many have room in what is held
    core::HeldFrames held;
    RemovalTimes times;
    ops::Removed removed;          // what taking the root left to do
    alignas(128) u64 dropping;     // see LaneRules
    alignas(128) u32 workers_out;  // warps that found the queue empty for good
    alignas(128) u64 files;
    u64 directories;
    u64 inodes;
    u64 blocks;
};

/// Directories found by their parents' numbers rather than by their names: a tree that is narrow
/// and deep is taken apart everywhere at once. An inode is named by the rank of its frame among
/// those listed and its slot there.
struct TreeListing {
    static constexpr u32 frames_max = 1024;  // 8 million inodes; deeper ones are found by name
    static constexpr u32 rank_none = ~u32{0};

    u32* ranks;        // of each frame of the volume
    u32* frames;       // by rank
    u32* above;        // of each inode listed: an ancestor; itself where the way ends
    u32* parents;      // the one right above it, or rank_none
    u32* reached;      // whether the way ends in a directory that the step begins with
    u64* directories;  // index, generation << 32

    /// The index of an inode, or rank_none.
    WARREN_HD u32 index_of(const core::Store& store, u64 number) const {
        const u64 frame = number / format::inodes_per_frame;
        if (frame >= store.frame_count || ranks[frame] >= frames_max) return rank_none;
        return ranks[frame] * format::inodes_per_frame +
               static_cast<u32>(number % format::inodes_per_frame);
    }
};

/// What a step tells the host, in pinned memory.
struct RemovalReport {
    u64 sequence;  // written last: that of the launch
    Errc code;
    u32 is_open;    // the step goes on, with another kernel
    u32 is_narrow;  // list_trees() comes next
    u32 has_root;   // the tree has no name any more
    u32 unfinished_count;
    u32 wanted_count;
    u32 wants_frames;   // no frame with memory is left for metadata
    u32 hangs_nowhere;  // no commit may show the step
    u32 lacks_room;     // it has not begun: `code` says what would give it room
    u32 roots_max;      // the next step may begin with so many, if this one began with some or left
                        // some
    u64 files;
    u64 directories;
    u64 blocks;
    ops::Removed removed;
    RemovalTimes times;
};

/// In the list of directories that outlive a step: all that is left of this one are names of files
/// that need operations of their own.
inline constexpr u64 leftovers_only = u64{1} << 63;

/// What a step begins with.
struct RemovalBegin {
    enum class Kind : u8 { roots, name, nothing };

    Kind kind = Kind::roots;  // directories among the orphans, a name, or what the queue holds
    u32 name_length = 0;
    core::Credentials caller;  // with a name: without groups
    Handle directory;
    char name[format::name_length_max] = {};
};

/// What the kernels of a step are given.
struct RemovalRef {
    RemovalState* state;
    BulkQueue queue;
    u64* unfinished;  // directories that outlive the step
    u64* emptied;     // those that hang on the orphan directory and hold nothing; 0: ended
    u64* wanted;      // places of blocks that are not in memory
    u64* seeds;       // what a listing begins with
    TreeListing listing;
    const u64* roots;  // what the step begins with
    u64 first_root;
    u32 root_count;
    u32 list_max;  // of each list
    u32 workers;   // warps
    i64 now;
    u64 sequence;
    RemovalReport* report;
};

inline constexpr u32 ender_warps = 32;
inline constexpr u64 loose_unbounded = ~u64{0};

/// Queues the kernel of a step.
Errc launch_step(const core::Store& store, const RemovalRef& ref, const RemovalBegin& begin,
                 const RemovalShape& shape, const gpu::Stream& stream);
/// Queues the kernel that ends a step which could not end itself.
Errc launch_end(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream);
/// Queues the kernels that fill the queue again with the directories that are left and all those
/// below them that can be found by their parents' numbers.
Errc list_trees(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream);

class TreeRemoval {
 public:
    Errc open(const RemovalShape& shape = {});

    /// Frees the directory `root`, which hangs on the orphan directory, and all below it; adds what
    /// went to `removal`. `store` points to device memory.
    Errc remove(const core::Store& store, u64 root, BulkHost& host, Removal& removal);
    /// As above for the directory (directory, name), which `caller` must be allowed to take away;
    /// its groups are not looked at. `removed` is what is left to do behind it. Errc::not_directory
    /// for anything else; Errc::not_supported, and nothing has changed, if the volume is too full.
    Errc remove_name(const core::Store& store, const core::Credentials& caller, Handle directory,
                     std::string_view name, BulkHost& host, Removal& removal,
                     ops::Removed& removed);

    /// After an error: whether the volume is between two steps, and the device at work.
    bool is_sound() const;

    u64 warps() const { return warps_; }
    u32 steps() const { return steps_; }
    /// The moments of the last step.
    const RemovalTimes& times() const { return report_.data()->times; }
    /// The host's part of the last step, in nanoseconds: to give it to the device, and to wait.
    u64 launch_ns() const { return launch_ns_; }
    u64 wait_ns() const { return wait_ns_; }
    /// Milliseconds that the kernels of the last step took, by the device's clock.
    float kernel_ms() const;
    /// Of these, those behind the last freed inode.
    float end_ms() const;

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
    std::vector<u64> pending_;  // hang on the orphan directory; the newest last
    gpu::PinnedBuffer<RemovalReport> report_;
    u32 root_count_ = 0;
    u32 warps_ = 0;
    u32 steps_ = 0;
    u64 sequence_ = 0;
    i64 now_ = 0;
    u64 launch_ns_ = 0;
    u64 wait_ns_ = 0;
};

}  // namespace warren::cuda_engine

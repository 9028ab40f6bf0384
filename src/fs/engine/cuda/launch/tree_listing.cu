// SPDX-License-Identifier: Apache-2.0
// The listing of a bulk step, for chains of directories that would otherwise be walked level by
// level. All directories of the volume are read at once with the numbers of their parents, and
// pointer jumping finds in a few rounds those below the seeds, with which the step begins.
//
// The listing stays valid: the move lock is held, so no directory moves, none is detached with what
// is below it, and each listed directory is marked as being deleted before any is taken apart, so
// it gets no more names and no other operation removes it. One that is being deleted already is not
// listed: it may be an orphan, whose parent's number may belong to another directory by now.
// Invariant: if a directory is listed, so are all above it up to a seed, so the step drops the name
// of each; one that rmdir(2) removes first has nothing below it. An entry refers to a listed
// directory only if it lies in the parent found here (is_listed()), because the number of a listed
// directory that was freed may be reused elsewhere.
#include "fs/bulk/lane_free.hpp"
#include "fs/engine/cuda/launch/tree_removal.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using core::Store;
using format::Inode;

__device__ u64 thread_index() {
    return u64{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ u64 thread_count() {
    return u64{gridDim.x} * blockDim.x;
}

/// Makes the unfinished directories the seeds of the listing, resets the step's state, and takes
/// the move lock. One block of threads.
__global__ void begin_listing(Store store, RemovalRef ref) {
    RemovalState& state = *ref.state;
    const u32 count = state.unfinished_count;
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        ref.seeds[i] = ref.unfinished[i] & ~leftovers_only;
    if (threadIdx.x != 0) return;
    ref.queue.reset();
    state.seed_count = count;
    state.unfinished_count = 0;
    state.is_narrow = 0;
    state.must_stop = state.error != 0 ? 1 : 0;
    state.may_list = 0;
    state.frame_count = 0;
    state.directory_count = 0;
    state.reached_count = 0;
    state.move_word = 0;
    while (!ops::lock_by_lane(store, {}, core::move_lock_place, state.move_version))
        pause_briefly();
    state.holds_moves = 1;
}

/// Assigns a rank to each inode frame.
__global__ void rank_frames(Store store, RemovalRef ref) {
    const u64 end = store.state->metadata_frames_end;
    for (u64 frame = thread_index(); frame < store.frame_count; frame += thread_count()) {
        u32 rank = TreeListing::rank_none;
        if (frame < end && core::kind_of(store, frame) == format::FrameKind::inodes) {
            rank = relaxed_add(ref.state->frame_count, 1);
            if (rank < TreeListing::frames_max) ref.listing.frames[rank] = static_cast<u32>(frame);
        }
        ref.listing.ranks[frame] = rank;
    }
}

__device__ u32 listed_frames(const RemovalRef& ref) {
    return ref.state->frame_count < TreeListing::frames_max ? ref.state->frame_count
                                                            : TreeListing::frames_max;
}

__device__ u64 number_of(const RemovalRef& ref, u32 index) {
    return u64{ref.listing.frames[index / format::inodes_per_frame]} * format::inodes_per_frame +
           index % format::inodes_per_frame;
}

/// Whether a directory can be taken apart concurrently with its parent: it has one leaf at most,
/// and the leaf and its inode's bitmap are in memory.
__device__ bool is_simple(const Store& store, u64 number, const Inode& at) {
    const u32 count = relaxed_load(at.area_count);
    if (relaxed_load(at.area_kind) != static_cast<u8>(core::AreaKind::tree) || count > 1 ||
        relaxed_load(at.height) > 1) {
        return false;
    }
    const u64 own = number * format::inode_size / format::block_size * format::block_size;
    const u64 bitmap = core::inode_bit(number).bitmap_place;
    u64 leaf = own;
    if (count == 1) {
        const format::BlockPointer child{relaxed_load(at.area.pairs[0].child.raw)};
        if (!child.is_valid() || child.offset() % format::block_size != 0 ||
            child.offset() >= store.size_bytes) {
            return false;
        }
        leaf = child.offset();
    }
    return ops::are_resident(store, bitmap, leaf);
}

/// Returns the generation of an inode and sets `parent`, if the inode is a simple directory that is
/// not being deleted. 0 if not, or if an operation is changing it. An inode whose stripe is that of
/// the move lock, which the step holds, cannot be changing.
__device__ u32 read_directory(const Store& store, u64 number, u64& parent) {
    const u32 stripe = core::stripe_of(number * format::inode_size);
    const bool is_locked_by_step = stripe == core::stripe_of(core::move_lock_place);
    const u64& word = store.versions[stripe];
    // Acquire: pairs with the release of the operation that wrote the inode last.
    const u64 version = device_atomic<u64>(const_cast<u64&>(word)).load(hd::memory_order_acquire);
    const Inode& at = core::block_at<Inode>(store, number * format::inode_size);
    const u32 generation = relaxed_load(at.generation);
    const u32 mode = relaxed_load(at.mode);
    parent = relaxed_load(at.parent);
    const bool takes_names = (relaxed_load(at.entries) & format::entries_dying) == 0;
    const bool is_wanted = generation != 0 && takes_names && format::is_directory(mode) &&
                           is_simple(store, number, at);
    if (!is_wanted) return 0;
    if (is_locked_by_step) return generation;
    if ((version & 1) != 0) return 0;
    core::fence_acquire();  // pairs with the lock of an operation that writes the inode
    return relaxed_load(word) == version ? generation : 0;
}

/// Lists the directories of all ranked frames, each with its parent.
__global__ void scan_directories(Store store, RemovalRef ref) {
    const u64 count = u64{listed_frames(ref)} * format::inodes_per_frame;
    for (u64 i = thread_index(); i < count; i += thread_count()) {
        const u32 index = static_cast<u32>(i);
        const u64 number = number_of(ref, index);
        const u64 block = number * format::inode_size / format::block_size;
        if (number % format::inodes_per_frame < format::inodes_per_block) continue;
        ref.listing.reached[index] = 0;
        ref.listing.above[index] = index;
        ref.listing.parents[index] = TreeListing::rank_none;
        if (!core::test_bit(store.resident, block)) continue;
        u64 parent = 0;
        const u32 generation = read_directory(store, number, parent);
        if (generation == 0) continue;
        const u32 above = ref.listing.index_of(store, parent);
        if (above == TreeListing::rank_none) continue;
        ref.listing.above[index] = above;
        ref.listing.parents[index] = above;
        const u32 entry = relaxed_add(ref.state->directory_count, 1);
        ref.listing.directories[entry] = index | u64{generation} << 32;
    }
}

/// Whether a seed is so small that it can be taken apart completely even when the step is full. No
/// other operation changes it.
__device__ bool is_simple_seed(const Store& store, u64 number) {
    return is_simple(store, number, core::block_at<Inode>(store, number * format::inode_size));
}

/// Marks the seeds that are simple as reached: paths up that end there are those wanted.
__global__ void mark_seeds(Store store, RemovalRef ref) {
    for (u64 i = thread_index(); i < ref.state->seed_count; i += thread_count()) {
        const u64 number = ops::TreeTask{ref.seeds[i], 0}.number();
        const u32 index = ref.listing.index_of(store, number);
        if (index == TreeListing::rank_none || !is_simple_seed(store, number)) continue;
        ref.listing.above[index] = index;
        ref.listing.reached[index] = 1;
    }
}

/// Pointer jumping: each directory moves its `above` upwards, also along the jumps of others, until
/// it meets a reached directory or the end of its path.
__global__ void jump_up(RemovalRef ref) {
    for (u64 i = thread_index(); i < ref.state->directory_count; i += thread_count()) {
        const u32 index = static_cast<u32>(ref.listing.directories[i]);
        if (relaxed_load(ref.listing.reached[index]) != 0) continue;
        for (;;) {
            const u32 above = relaxed_load(ref.listing.above[index]);
            const u32 next = relaxed_load(ref.listing.above[above]);
            if (relaxed_load(ref.listing.reached[above]) != 0) {
                relaxed_store(ref.listing.reached[index], 1);
                relaxed_add(ref.state->reached_count, 1);
                break;
            }
            if (next == above) break;
            relaxed_store(ref.listing.above[index], next);
        }
    }
}

/// Decides whether the step may take apart all listed directories. It needs credits for an inode
/// and a leaf of each, and room for its name in the orphan directory. Called by one thread.
__global__ void admit_listing(Store store, RemovalRef ref) {
    RemovalState& state = *ref.state;
    core::StoreState& all = *store.state;
    const u64 extra = 2 * u64{state.reached_count} + 9 * u64{state.seed_count};
    auto credits = core::JournalCredits::resume(all, core::step_worker, state.credits);
    const core::JournalRoom room = credits.reserve(all, extra);
    // In addition few directories can be detached from here on, so few warps are in leaves with
    // such directories at a time.
    const u64 few = state.room.few_names();
    const u64 beside = few < ref.workers ? few : ref.workers;
    const u64 own = state.room.sum() + ops::dirtied_when_full(store, beside) + extra;
    const u64 others = room.dirty + room.ahead - state.credits;
    const u64 detached = state.detached + state.reached_count;
    const bool has_room = others + own <= room.room &&
                          state.reached_count + state.seed_count < ref.queue.capacity / 2 &&
                          detached <= state.room_names;
    if (has_room) {
        // Listed directories are taken apart even when the step is full.
        state.detached_max = detached + few < state.room_names ? detached + few : state.room_names;
    } else {
        credits.give_back(extra);
    }
    state.credits = credits.keep();
    state.is_listing = has_room ? 1 : 0;
}

/// Marks a directory as being deleted, so that it gets no more names. False if its inode has been
/// reused since, or if another operation has marked it.
__device__ bool freeze(const Store& store, const RemovalRef& ref, u64 number, u32 generation) {
    ops::LaneRules rules;
    rules.held_stripe = core::stripe_of(core::move_lock_place);
    rules.held_word = &ref.state->move_word;
    const u64 place = number * format::inode_size;
    u64 version = 0;
    while (!ops::lock_by_lane(store, rules, place, version))
        pause_briefly();
    Inode& at = core::block_at<Inode>(store, place);
    const bool is_same = relaxed_load(at.generation) == generation &&
                         (relaxed_load(at.entries) & format::entries_dying) == 0;
    if (is_same) core::mark_dying(at);
    ops::unlock_by_lane(store, rules, place, version, is_same ? 2 : 0);
    return is_same;
}

/// Fills the queue with the seeds and all listed directories.
__global__ void push_listed(Store store, RemovalRef ref) {
    RemovalState& state = *ref.state;
    const bool is_listing = state.is_listing != 0;
    for (u64 i = thread_index(); i < state.seed_count; i += thread_count()) {
        const u64 number = ops::TreeTask{ref.seeds[i], 0}.number();
        const bool must = is_listing && is_simple_seed(store, number);
        const Inode& at = core::block_at<Inode>(store, number * format::inode_size);
        // No other operation frees a seed, so its generation does not change. Freezing it keeps
        // names from being added after the listing.
        if (must) freeze(store, ref, number, relaxed_load(at.generation));
        ref.queue.seed({ref.seeds[i] | (must ? ops::TreeTask::must_mark : 0), 0});
    }
    if (!is_listing) return;
    for (u64 i = thread_index(); i < state.directory_count; i += thread_count()) {
        const u64 entry = ref.listing.directories[i];
        const u32 index = static_cast<u32>(entry);
        const u64 number = number_of(ref, index);
        // Seeds, whose `above` is their own index, were pushed before.
        if (relaxed_load(ref.listing.reached[index]) == 0 || ref.listing.above[index] == index) {
            continue;
        }
        if (!freeze(store, ref, number, static_cast<u32>(entry >> 32))) {
            relaxed_store(ref.listing.reached[index], 0);
            continue;
        }
        relaxed_add(state.detached, 1);
        ref.queue.seed({number | ops::TreeTask::must_mark, 0});
    }
}

}  // namespace

Errc list_trees(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream) {
    constexpr u32 threads = 256;
    constexpr u32 blocks = 264;
    begin_listing<<<1, threads, 0, stream.get()>>>(store, ref);
    rank_frames<<<blocks, threads, 0, stream.get()>>>(store, ref);
    scan_directories<<<4 * blocks, threads, 0, stream.get()>>>(store, ref);
    mark_seeds<<<1, threads, 0, stream.get()>>>(store, ref);
    jump_up<<<blocks, threads, 0, stream.get()>>>(ref);
    admit_listing<<<1, 1, 0, stream.get()>>>(store, ref);
    push_listed<<<blocks, threads, 0, stream.get()>>>(store, ref);
    return gpu::check(cudaGetLastError(), "list_trees");
}

}  // namespace warren::cuda_engine

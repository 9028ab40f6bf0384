// SPDX-License-Identifier: Apache-2.0
// A chain of a thousand directories, each in the one before, would be walked level by level. Here
// all directories of the volume are read at once with the numbers of their parents, and pointer
// jumping tells in a few rounds which of them lie below those that a step begins with.
//
// No directory moves meanwhile, and one that was found takes no more names and cannot be removed by
// others before any of them is taken apart; so what was found stays true. One that takes no names
// already is not looked for: it may hang on the orphan directory, and the number of what was once
// above it may mean another by now. Invariant: with a directory that was found all those above it
// were, up to one that the step begins with; so each name of a found directory is met, and dropped,
// in this step. An entry means what was found only in the directory that was above it then: once a
// found directory is freed, its number may stand for a new one elsewhere.
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

/// Keeps what the step had begun with for begin again, and keeps directories from moving.
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

/// Gives each frame of inodes a rank.
__global__ void rank_frames(Store store, RemovalRef ref) {
    const u64 end = store.state->metadata_frames_end;
    for (u64 frame = thread_index(); frame < store.frame_count; frame += thread_count()) {
        u32 rank = TreeListing::rank_none;
        if (frame < end && core::kind_of(store, frame) == format::FrameKind::inodes) {
            rank =
                device_atomic<u32>(ref.state->frame_count).fetch_add(1, hd::memory_order_relaxed);
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

/// Whether a directory can be taken apart beside the one that names it: it has one leaf at most,
/// and all it needs is in memory.
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

/// The generation and the parent of an inode that is a simple directory and takes names; 0 if it is
/// not, or somebody is at work on it. Nobody is at one whose stripe the step has locked.
__device__ u32 read_directory(const Store& store, u64 number, u64& parent) {
    const u32 stripe = core::stripe_of(number * format::inode_size);
    const bool is_locked_by_step = stripe == core::stripe_of(core::move_lock_place);
    const u64& word = store.versions[stripe];
    // Acquire: pairs with the release of who wrote the inode last.
    const u64 version = device_atomic<u64>(const_cast<u64&>(word)).load(hd::memory_order_acquire);
    const Inode& at = *reinterpret_cast<const Inode*>(store.base + number * format::inode_size);
    const u32 generation = relaxed_load(at.generation);
    const u32 mode = relaxed_load(at.mode);
    parent = relaxed_load(at.parent);
    const bool takes_names = (relaxed_load(at.entries) & format::entries_dying) == 0;
    const bool is_wanted = generation != 0 && takes_names &&
                           (mode & format::type_mask) == format::type_directory &&
                           is_simple(store, number, at);
    if (!is_wanted) return 0;
    if (is_locked_by_step) return generation;
    if ((version & 1) != 0) return 0;
    core::fence_acquire();  // pairs with the locking of who writes the inode
    return relaxed_load(word) == version ? generation : 0;
}

/// Lists the directories of all frames, each with the one above it.
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
        if ((relaxed_load(store.resident[block / 64]) >> block % 64 & 1) == 0) continue;
        u64 parent = 0;
        const u32 generation = read_directory(store, number, parent);
        if (generation == 0) continue;
        const u32 above = ref.listing.index_of(store, parent);
        if (above == TreeListing::rank_none) continue;
        ref.listing.above[index] = above;
        ref.listing.parents[index] = above;
        const u32 entry =
            device_atomic<u32>(ref.state->directory_count).fetch_add(1, hd::memory_order_relaxed);
        ref.listing.directories[entry] = index | u64{generation} << 32;
    }
}

/// Whether what the step begins with is small enough to be taken apart to its end, whatever the
/// journal's share. Nobody else changes it.
__device__ bool is_simple_seed(const Store& store, u64 number) {
    return is_simple(store, number,
                     *reinterpret_cast<const Inode*>(store.base + number * format::inode_size));
}

/// What the step begins with is where the ways end that count.
__global__ void mark_seeds(Store store, RemovalRef ref) {
    for (u64 i = thread_index(); i < ref.state->seed_count; i += thread_count()) {
        const u64 number = ops::TreeTask{ref.seeds[i], 0}.number();
        const u32 index = ref.listing.index_of(store, number);
        if (index == TreeListing::rank_none || !is_simple_seed(store, number)) continue;
        ref.listing.above[index] = index;
        ref.listing.reached[index] = 1;
    }
}

/// Each directory jumps upwards, over all that others have jumped already, to where its way ends.
__global__ void jump_up(RemovalRef ref) {
    for (u64 i = thread_index(); i < ref.state->directory_count; i += thread_count()) {
        const u32 index = static_cast<u32>(ref.listing.directories[i]);
        if (relaxed_load(ref.listing.reached[index]) != 0) continue;
        for (;;) {
            const u32 above = relaxed_load(ref.listing.above[index]);
            const u32 next = relaxed_load(ref.listing.above[above]);
            if (relaxed_load(ref.listing.reached[above]) != 0) {
                relaxed_store(ref.listing.reached[index], 1);
                device_atomic<u32>(ref.state->reached_count).fetch_add(1, hd::memory_order_relaxed);
                break;
            }
            if (next == above) break;
            relaxed_store(ref.listing.above[index], next);
        }
    }
}

/// Decides whether the step can end all that was found: each may leave an inode and a leaf to the
/// journal, and its name to the orphans.
__global__ void admit_listing(Store store, RemovalRef ref) {
    RemovalState& state = *ref.state;
    core::StoreState& all = *store.state;
    const u64 extra = 2 * u64{state.reached_count} + 9 * u64{state.seed_count};
    auto credits = core::JournalCredits::resume(all, core::step_worker, state.credits);
    const core::JournalRoom room = credits.reserve(all, extra);
    // Beside what was found, few names are taken from here on: few warps can be at such leaves.
    const u64 few = state.room.few_names();
    const u64 beside = few < ref.workers ? few : ref.workers;
    const u64 own = state.room.sum() + ops::dirtied_when_full(store, beside) + extra;
    const u64 others = room.dirty + room.ahead - state.credits;
    const u64 loose = state.loose + state.reached_count;
    const bool has_room = others + own <= room.room &&
                          state.reached_count + state.seed_count < ref.queue.capacity / 2 &&
                          loose <= state.room_names;
    if (has_room) {
        // Full or not, what was found goes on.
        state.loose_max = loose + few < state.room_names ? loose + few : state.room_names;
    } else {
        credits.give_back(extra);
    }
    state.credits = credits.keep();
    state.is_listing = has_room ? 1 : 0;
}

/// Keeps a directory as it is from here on. False if it is not what was found any more, or has
/// lost its name.
__device__ bool freeze(const Store& store, const RemovalRef& ref, u64 number, u32 generation) {
    ops::LaneRules rules;
    rules.held_stripe = core::stripe_of(core::move_lock_place);
    rules.held_word = &ref.state->move_word;
    const u64 place = number * format::inode_size;
    u64 version = 0;
    while (!ops::lock_by_lane(store, rules, place, version))
        pause_briefly();
    Inode& at = *reinterpret_cast<Inode*>(store.base + place);
    const bool is_same = relaxed_load(at.generation) == generation &&
                         (relaxed_load(at.entries) & format::entries_dying) == 0;
    if (is_same) {
        device_atomic<u64>(at.entries).fetch_or(format::entries_dying, hd::memory_order_relaxed);
    }
    ops::unlock_by_lane(store, rules, place, version, is_same ? 2 : 0);
    return is_same;
}

/// Fills the queue: what the step had begun with, and all directories found below.
__global__ void push_listed(Store store, RemovalRef ref) {
    RemovalState& state = *ref.state;
    const bool is_listing = state.is_listing != 0;
    for (u64 i = thread_index(); i < state.seed_count; i += thread_count()) {
        const u64 number = ops::TreeTask{ref.seeds[i], 0}.number();
        const bool must = is_listing && is_simple_seed(store, number);
        const Inode& at = *reinterpret_cast<const Inode*>(store.base + number * format::inode_size);
        // Nobody else frees it, so its generation stays. No name is added beside those found.
        if (must) freeze(store, ref, number, relaxed_load(at.generation));
        ref.queue.seed({ref.seeds[i] | (must ? ops::TreeTask::must_mark : 0), 0});
    }
    if (!is_listing) return;
    for (u64 i = thread_index(); i < state.directory_count; i += thread_count()) {
        const u64 entry = ref.listing.directories[i];
        const u32 index = static_cast<u32>(entry);
        const u64 number = number_of(ref, index);
        // Seeds have no way up: they are where it ends.
        if (relaxed_load(ref.listing.reached[index]) == 0 || ref.listing.above[index] == index) {
            continue;
        }
        if (!freeze(store, ref, number, static_cast<u32>(entry >> 32))) {
            relaxed_store(ref.listing.reached[index], 0);
            continue;
        }
        device_atomic<u64>(state.loose).fetch_add(1, hd::memory_order_relaxed);
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

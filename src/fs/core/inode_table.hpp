// SPDX-License-Identifier: Apache-2.0
// Finding, allocating and freeing inodes. An inode number is a place divided by 256, so finding an
// inode takes one pin; the generation tells whether it is still the same file.
//
// Invariant in memory: the generation of an inode that does not exist is zero (the loader clears it
// in inodes that it reads from disk), so a handle can be checked without the bitmap.
#pragma once

#include "fs/core/allocator.hpp"
#include "fs/core/operation.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren::core {

using format::AreaKind;
using format::Block;
using format::Inode;

/// A pinned inode, with the version at which it was found.
struct InodeRef {
    Inode* at = nullptr;
    u64 number = 0;
    u32 generation = 0;
    Seen seen;

    WARREN_HD Handle handle() const { return {number, generation}; }
    WARREN_HD u64 block_place() const {
        return number * format::inode_size / format::block_size * format::block_size;
    }
};

/// The inode with this number where a fully resident store has it, whether it is in memory or not.
WARREN_HD inline InodeRef inode_at(const Store& store, u64 number) {
    InodeRef inode;
    inode.at = reinterpret_cast<Inode*>(store.base + number * format::inode_size);
    inode.number = number;
    return inode;
}

/// Blocks that are dirty after a change of nothing but an inode: the inode's block.
inline constexpr u32 inode_blocks_max = 1;

/// The two counts in the references of an inode: lookups by a kernel in the low half, opens in the
/// high half.
inline constexpr u64 one_lookup = 1;
inline constexpr u64 one_open = u64{1} << 32;
inline constexpr u64 lookups_mask = one_open - 1;

/// Whether `more` references can be added to those `held`: neither count may reach 2^32, or lookups
/// would overflow into opens.
WARREN_HD constexpr bool can_count(u64 held, u64 more) {
    return (held & lookups_mask) + (more & lookups_mask) <= lookups_mask &&
           held / one_open + more / one_open <= lookups_mask;
}

/// Whether an inode of this volume can have this number.
WARREN_HD inline bool is_inode_number(const Store& store, u64 number) {
    return number < store.size_bytes / format::inode_size &&
           number % format::inodes_per_frame >= format::inodes_per_block;
}

/// Whether there is a slot for an inode with this number: the number is legal and its frame holds
/// inodes.
WARREN_HD inline bool is_inode_slot(const Store& store, u64 number) {
    return is_inode_number(store, number) &&
           kind_of(store, number / format::inodes_per_frame) == FrameKind::inodes;
}
template <class Team>
WARREN_HD bool is_inode_slot(Operation<Team>& op, u64 number) {
    return once(op.team, [&] { return is_inode_slot(op.store, number); });
}

/// Pins and observes the slot with this number. Requires: is_inode_slot().
template <class Team>
WARREN_HD Result<InodeRef> pin_slot(Operation<Team>& op, u64 number) {
    InodeRef inode;
    inode.number = number;
    WARREN_LET(block,
               op.observe_and_pin(number * format::inode_size, inode.block_place(), inode.seen));
    inode.at = reinterpret_cast<Inode*>(*block) + number % format::inodes_per_block;
    return inode;
}

/// The first half of find_inode(), which does not depend on the inode's words: pins the slot with
/// this number. Errc::stale if there is no such slot.
template <class Team>
WARREN_HD Result<InodeRef> pin_inode(Operation<Team>& op, u64 number) {
    return is_inode_slot(op, number) ? pin_slot(op, number) : Errc::stale;
}

/// The second half: reads the generation in the slot. Errc::stale if no inode is there.
template <class Team>
WARREN_HD Errc read_generation(Operation<Team>& op, InodeRef& inode) {
    inode.generation = load(op.team, inode.at->generation);
    WARREN_TRY(op.confirm(inode.seen));
    return inode.generation == 0 ? Errc::stale : Errc::ok;
}

/// Finds the inode with this number, whatever its generation is. Errc::stale if there is none.
template <class Team>
WARREN_HD Result<InodeRef> find_inode(Operation<Team>& op, u64 number) {
    Result<InodeRef> inode = pin_inode(op, number);
    if (!inode) return inode;
    WARREN_TRY(read_generation(op, *inode));
    return inode;
}

/// Finds the inode that `handle` names. Errc::stale if it no longer exists.
template <class Team>
WARREN_HD Result<InodeRef> find_inode(Operation<Team>& op, Handle handle) {
    const Result<InodeRef> inode = find_inode(op, handle.inode);
    if (inode && inode->generation != handle.generation) return Errc::stale;
    return inode;
}

/// As find_inode(), for directories: Errc::not_directory for other inodes.
template <class Team>
WARREN_HD Result<InodeRef> find_directory(Operation<Team>& op, Handle handle) {
    const Result<InodeRef> inode = find_inode(op, handle);
    if (!inode) return inode;
    const u32 mode = load(op.team, inode->at->mode);
    if (!format::is_directory(mode)) {
        WARREN_TRY(op.confirm(inode->seen));
        return Errc::not_directory;
    }
    return inode;
}

/// Sets the times of an inode after a change of its contents: bytes or names. One lane, within
/// apply.
WARREN_HD inline void touch(const InodeRef& inode, i64 now) {
    relaxed_store(inode.at->modified, now);
    relaxed_store(inode.at->changed, now);
}

/// The fields that stat(2) returns; `get(field)` reads a field of the inode.
template <class Get>
WARREN_HD Attributes make_attributes(Handle handle, const Get& get) {
    return {.handle = handle,
            .mode = get(&Inode::mode),
            .links = get(&Inode::links),
            .user = get(&Inode::user),
            .group = get(&Inode::group),
            .device = get(&Inode::device),
            .size = get(&Inode::size),
            .blocks = get(&Inode::blocks),
            .parent = get(&Inode::parent),
            .accessed = get(&Inode::accessed),
            .modified = get(&Inode::modified),
            .changed = get(&Inode::changed),
            .born = get(&Inode::born)};
}

/// make_attributes() by one lane; the caller confirms the version.
WARREN_HD inline Attributes read_attributes(const InodeRef& inode) {
    return make_attributes(inode.handle(),
                           [&](auto field) { return relaxed_load(inode.at->*field); });
}

/// A consistent copy of the attributes. Errc::retry if the inode changes meanwhile.
template <class Team>
WARREN_HD Result<Attributes> attributes_of(Operation<Team>& op, const InodeRef& inode) {
    const Attributes out = once(op.team, [&] { return read_attributes(inode); });
    WARREN_TRY(op.confirm(inode.seen));
    return out;
}

/// Where the bit of an inode number lies in its frame's bitmap.
struct InodeBit {
    u64 bitmap_place;
    u32 word;
    u64 mask;
};

WARREN_HD inline InodeBit inode_bit(u64 number) {
    const u32 slot = static_cast<u32>(number % format::inodes_per_frame);
    return {number / format::inodes_per_frame * format::frame_size, slot / 64, u64{1} << slot % 64};
}

/// The slots of word `w` of a bitmap that are neither in use nor held.
WARREN_HD inline u64 free_slots(const format::InodeBitmap& bitmap, u32 w) {
    return ~(relaxed_load(bitmap.used[w]) | relaxed_load(bitmap.held[w]));
}

/// Holds those of the slots `wanted` of word `w` of the bitmap of `frame` that are free; returns
/// which. One lane.
WARREN_HD inline u64 hold_slots(const Store& store, u64 frame, format::InodeBitmap& bitmap, u32 w,
                                u64 wanted) {
    device_atomic<u64> held(bitmap.held[w]);
    // Acquire: pairs with the release in let_go_slot().
    const u64 won = wanted & ~held.fetch_or(wanted, hd::memory_order_acquire);
    const u64 in_use = won & relaxed_load(bitmap.used[w]);
    if (in_use != 0) {
        held.fetch_and(~in_use, hd::memory_order_release);
        // A slot may be free by now, and a worker that searched meanwhile may have seen it held and
        // cleared the free-space hint.
        set_bit(space_hints(store, FrameKind::inodes), frame);
    }
    return won & ~in_use;
}

/// Holds one free slot of word `w` of the bitmap of `frame`; returns its number in the frame, 0 if
/// none is free. One lane.
WARREN_HD inline u32 hold_in_word(const Store& store, u64 frame, format::InodeBitmap& bitmap,
                                  u32 w) {
    for (;;) {
        const u64 free = free_slots(bitmap, w);
        if (free == 0) return 0;
        const u64 bit = free & (~free + 1);
        if (hold_slots(store, frame, bitmap, w, bit) != 0) {
            return w * 64 + static_cast<u32>(hd::countr_zero(bit));
        }
    }
}

/// Words of a bitmap of inodes.
inline constexpr u32 bitmap_words = format::inodes_per_frame / 64;

/// Where a worker begins to search a frame in which it has not taken a number yet: few workers
/// begin far apart, up to 16 on cache lines of their own.
WARREN_HD constexpr u32 start_word(u32 worker) {
    static_assert(bitmap_words == 128);
    return (worker & 1) << 6 | (worker & 2) << 4 | (worker & 4) << 2 | (worker & 8);
}

/// Holds the first free slot of `frame`, whose bitmap is `bitmap`, in the order of words from
/// `start` on; returns its number in the frame, 0 if none is free.
template <class Team>
WARREN_HD u32 hold_slot(const Team& team, const Store& store, u64 frame,
                        format::InodeBitmap& bitmap, u32 start) {
    for (u32 base = 0; base < bitmap_words; base += Team::width) {
        const u32 mine = (start + base + team.lane()) % bitmap_words;
        const bool is_free = free_slots(bitmap, mine) != 0;
        for (u32 votes = team.ballot(is_free); votes != 0; votes &= votes - 1) {
            const u32 lane = static_cast<u32>(hd::countr_zero(votes));
            u32 slot = 0;
            if (team.lane() == lane) slot = hold_in_word(store, frame, bitmap, mine);
            slot = team.broadcast(slot, lane);
            if (slot != 0) return slot;
        }
    }
    return 0;
}

/// Whether a slot of this bitmap is free.
template <class Team>
WARREN_HD bool has_free_slot(const Team& team, const format::InodeBitmap& bitmap) {
    bool is_free = false;
    for (u32 w = team.lane(); w < bitmap_words; w += Team::width)
        is_free = is_free || free_slots(bitmap, w) != 0;
    return team.ballot(is_free) != 0;
}

/// Takes an inode frame without free slots out of the search for inode numbers.
template <class Team>
WARREN_HD void drop_full_inodes(const Team& team, const Store& store, u64 frame,
                                const format::InodeBitmap& bitmap) {
    once(team, [&] { clear_space_hint(store, FrameKind::inodes, frame); });
    // A thread that freed a slot just before the hint was cleared may have left the hint as it was.
    if (has_free_slot(team, bitmap))
        once(team, [&] { set_bit(space_hints(store, FrameKind::inodes), frame); });
}

WARREN_HD inline void let_go_slot(format::InodeBitmap& bitmap, const InodeBit& bit) {
    // Release: pairs with the acquire in hold_slots(), so that the used bit is visible before the
    // hold ends.
    device_atomic<u64>(bitmap.held[bit.word]).fetch_and(~bit.mask, hd::memory_order_release);
}

/// Ends the hold of a number that can be reused now. One lane.
WARREN_HD inline void let_go_number(const Store& store, format::InodeBitmap& bitmap, u64 number) {
    let_go_slot(bitmap, inode_bit(number));
    set_bit(space_hints(store, FrameKind::inodes), number / format::inodes_per_frame);
}

/// Holds the number of an inode that is being removed, so that it is not reused; its used bit is
/// still set. Spins while another worker holds the slot, for a moment in hold_slots() or until a
/// run on a replica has ended. One lane.
WARREN_HD inline void hold_removed(format::InodeBitmap& bitmap, const InodeBit& bit) {
    device_atomic<u64> held(bitmap.held[bit.word]);
    while ((held.fetch_or(bit.mask, hd::memory_order_relaxed) & bit.mask) != 0) {
    }
}

/// Ends the generation of an inode that is being removed. generation_of_removed() still returns it,
/// for handles that hold references. One lane.
WARREN_HD inline void end_generation(Inode& at, u32 generation) {
    // The checksum field is free for this: it has a meaning only on disk.
    relaxed_store(at.crc, generation);
    relaxed_store(at.generation, 0);
}
WARREN_HD inline void end_generation(Inode& at) {
    end_generation(at, relaxed_load(at.generation));
}
WARREN_HD inline u32 generation_of_removed(const Inode& at) {
    return relaxed_load(at.crc);
}

/// Takes a frame that no longer holds inodes out of the search for inode numbers: the thread that
/// freed its last inode may have set the hint after the frame's kind had changed. One lane.
WARREN_HD inline void drop_stale_room(const Store& store, u64 frame) {
    u64* room = space_hints(store, FrameKind::inodes);
    if (frame >= store.frame_count || kind_of(store, frame) == FrameKind::inodes) return;
    clear_bit(room, frame);
    // It may have become an inode frame again before the hint was cleared.
    if (kind_of(store, frame) == FrameKind::inodes) set_bit(room, frame);
}

/// Passes the freeze barrier for a search for inode numbers; the destructor of `search` leaves it.
/// Errc::retry while a commit takes its snapshot. From the look at a frame's kind until a number in
/// it is held no snapshot may be taken: after one the frame, which has become free, could be used
/// for something else, and the hold would set a bit in that.
template <class Team>
WARREN_HD Errc enter_search(const Team& team, [[maybe_unused]] const Store& store,
                            [[maybe_unused]] bool barrier_is_held,
                            [[maybe_unused]] JournalCredits& search) {
#if !defined(__CUDA_ARCH__)  // the snapshot of an engine on a GPU waits until no command runs
    if (barrier_is_held) return Errc::ok;
    return once(team, [&] { return search.pass_barrier(*store.state, team.worker); });
#else
    return Errc::ok;
#endif
}

/// A number that is held for apply, and its bitmap. The blocks of both are pinned.
struct ReservedInode {
    InodeRef inode;
    format::InodeBitmap* bitmap = nullptr;
};

/// Reserves an inode number for apply; use_inode() or finish_inode() ends the reservation.
/// Errc::need_inodes if all inode frames are full, Errc::need_commit if no generation is left until
/// the next commit.
///
/// A worker goes on at the word where it took a number last, because most words before it are full;
/// numbers that are freed there are found when the search comes round. All teams take the same
/// number.
template <class Team>
WARREN_HD Result<ReservedInode> reserve_inode(Operation<Team>& op) {
    const Store& store = op.store;
    u64* room = space_hints(store, FrameKind::inodes);
    u64& last_number = store.state->hints[op.team.worker % barrier_slots].inode;
    constexpr u64 spent = ~u64{0};
    const u64 last = once(op.team, [&] {
        // Three independent loads before the first use, so that they overlap on a GPU.
        const u64 generation = relaxed_load(store.state->generation);
        const u64 limit = relaxed_load(store.state->generation_limit);
        const u64 number = relaxed_load(last_number);
        return generation >= limit ? spent : number;
    });
    // Operations that have already passed this check may use generations beyond the limit;
    // generation_margin allows for them.
    if (last == spent) return Errc::need_commit;
    u64 frame = last / format::inodes_per_frame;
    u32 start = inode_bit(last).word;
    ReservedInode reserved;
    JournalCredits search;
    WARREN_TRY(enter_search(op.team, store, op.barrier_is_held, search));
    for (;;) {
        const bool usable = once(op.team, [&] {
            if (frame >= store.frame_count) return false;
            const bool has_room = test_bit(room, frame);
            return kind_of(store, frame) == FrameKind::inodes && has_room;
        });
        if (usable) {
            const u32 mark = op.pin_mark();
            WARREN_LET(block, op.pin(frame * format::frame_size));
            auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(*block);
            const u32 slot = hold_slot(op.team, store, frame, bitmap, start);
            if (slot != 0) {
                op.reserved_inode = frame * format::inodes_per_frame + slot;
                once(op.team, [&] { relaxed_store(last_number, op.reserved_inode); });
                reserved.bitmap = &bitmap;
                break;
            }
            drop_full_inodes(op.team, store, frame, bitmap);
            op.release_pins(mark);
        } else {
            once(op.team, [&] { drop_stale_room(store, frame); });
        }
        frame = once(op.team, [&] { return find_space(store, FrameKind::inodes, 0); });
        if (frame == store.frame_count) return Errc::need_inodes;
        start = start_word(op.team.worker);
    }
    WARREN_LET(inode, pin_slot(op, op.reserved_inode));
    reserved.inode = *inode;
    return reserved;
}

/// The bitmap that contains the bit of `number`, pinned.
template <class Team>
WARREN_HD Result<format::InodeBitmap*> pin_bitmap(Operation<Team>& op, u64 number) {
    WARREN_LET(block, op.pin(inode_bit(number).bitmap_place));
    return reinterpret_cast<format::InodeBitmap*>(*block);
}

/// Creates the reserved inode with a new generation and ends the reservation. It must end here: the
/// inode may be removed as soon as apply is over, and then its number is held while references
/// remain. Only within apply.
template <class Team>
WARREN_HD void use_inode(Operation<Team>& op, InodeRef& inode, format::InodeBitmap& bitmap) {
    const InodeBit bit = inode_bit(inode.number);
    inode.generation = once(op.team, [&] {
        StoreState& state = *op.store.state;
        // On a GPU the atomics complete while the release waits for its stores. The limit is read
        // after the counter: it grows, and other operations may count beyond an older limit.
        device_atomic<u64> counter(state.generation);
        u64 count = counter.fetch_add(1, hd::memory_order_relaxed) + 1;
        const u64 end = relaxed_load(state.generation_limit) + format::generation_margin;
        device_atomic<u64>(state.inodes_used).fetch_add(1, hd::memory_order_relaxed);
        device_atomic<u64>(bitmap.used[bit.word]).fetch_or(bit.mask, hd::memory_order_relaxed);
        let_go_slot(bitmap, bit);
        if (static_cast<u32>(count) == 0)
            count = counter.fetch_add(1, hd::memory_order_relaxed) + 1;
        WARREN_CHECK(count < end);
        return static_cast<u32>(count);
    });
    op.reserved_inode = 0;
    op.mark_dirty_all(2, [&](u32 i) { return i == 0 ? bit.bitmap_place : inode.block_place(); });
}

/// Clears the used bits `mask` of word `w` of a bitmap. `is_held`: hold_removed() was called for
/// one of them.
WARREN_HD inline void clear_used(format::InodeBitmap& bitmap, u32 w, u64 mask, bool is_held) {
    device_atomic<u64> used(bitmap.used[w]);
    if (is_held) {
        // Release: orders the hold before the cleared bit. hold_slots() reads the bit after it
        // has taken the hold.
        used.fetch_and(~mask, hd::memory_order_release);
    } else {
        // Relaxed suffices: the next operation that takes the number finds the inode locked until
        // all of this is visible.
        used.fetch_and(~mask, hd::memory_order_relaxed);
    }
}

/// Clears the used bit of an inode and its generation, which makes its handle invalid. `is_held`:
/// there are references to it, so its number is held and not reused yet. The caller sets the
/// frame's free-space hint. One lane, within apply.
WARREN_HD inline void clear_inode_alone(const Store& store, const InodeRef& inode, u32 generation,
                                        format::InodeBitmap& bitmap, bool is_held) {
    const InodeBit bit = inode_bit(inode.number);
    end_generation(*inode.at, generation);
    note_changed(store, inode.block_place());
    if (is_held) hold_removed(bitmap, bit);
    clear_used(bitmap, bit.word, bit.mask, is_held);
}

/// Clears the used bit of an inode and its generation; the caller updates inodes_used. The inode's
/// block is not marked dirty. Only within apply.
template <class Team>
WARREN_HD void clear_inode(Operation<Team>& op, const InodeRef& inode,
                           format::InodeBitmap& bitmap) {
    const u64 bitmap_place = inode_bit(inode.number).bitmap_place;
    const bool held = once(op.team, [&] {
        const bool known = relaxed_load(inode.at->references) != 0;
        clear_inode_alone(op.store, inode, inode.generation, bitmap, known);
        set_bit(space_hints(op.store, FrameKind::inodes), inode.number / format::inodes_per_frame);
        return known;
    });
    if (held) op.leave_pinned(bitmap_place);
    op.mark_dirty(bitmap_place);
}

/// Frees an inode. Its number can be reused when no references to it remain. Only within apply.
template <class Team>
WARREN_HD void free_inode(Operation<Team>& op, const InodeRef& inode, format::InodeBitmap& bitmap) {
    clear_inode(op, inode, bitmap);
    once(op.team, [&] {
        device_atomic<u64>(op.store.state->inodes_used).fetch_sub(1, hd::memory_order_relaxed);
    });
}

/// Ends a reservation of reserve_inode() that was not used.
template <class Team>
WARREN_HD void finish_inode(Operation<Team>& op) {
    if (op.reserved_inode == 0) return;
    const Result<format::InodeBitmap*> bitmap = pin_bitmap(op, op.reserved_inode);
    WARREN_CHECK(bitmap);  // reserve_inode() pinned it and finish() has not run yet
    once(op.team, [&] { let_go_number(op.store, **bitmap, op.reserved_inode); });
    op.reserved_inode = 0;
}

/// Releases everything that an operation holds. Every operation ends with this, whether it applied
/// or not.
template <class Team>
WARREN_HD void finish(Operation<Team>& op) {
    op.release_reservations();
    finish_inode(op);
    op.forget_locks();
    op.release_pins();
}

}  // namespace warren::core

// SPDX-License-Identifier: Apache-2.0
// Inodes by handle. A number is a place, so the way to an inode is one division and one pin; the
// generation tells whether it is still the same file.
//
// Invariant in memory: the generation of an inode that does not exist is zero (the loader sees to
// it for inodes read from disk), so a handle needs no look at the bitmap.
#pragma once

#include "fs/core/allocator.hpp"
#include "fs/core/operation.hpp"
#include "warren/volume.hpp"

namespace warren::core {

using format::AreaKind;
using format::Block;
using format::Inode;

/// An inode that is pinned, with the version at which it was found.
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

/// Whether there is a slot for an inode of this number: in the volume, in a frame of inodes.
template <class Team>
WARREN_HD bool is_inode_slot(Operation<Team>& op, u64 number) {
    const Store& store = op.store;
    if (number >= store.size_bytes / format::inode_size ||
        number % format::inodes_per_frame < format::inodes_per_block) {
        return false;
    }
    const u64 kind = load(op.team, store.frame(number / format::inodes_per_frame).kind);
    return static_cast<FrameKind>(kind) == FrameKind::inodes;
}

/// Finds the inode with this number, whatever its generation. Errc::stale if there is none.
template <class Team>
WARREN_HD Result<InodeRef> find_inode(Operation<Team>& op, u64 number) {
    if (!is_inode_slot(op, number)) return Errc::stale;
    InodeRef inode;
    inode.number = number;
    WARREN_TRY(op.observe(number * format::inode_size, inode.seen));
    const Result<Block*> block = op.pin(inode.block_place());
    if (!block) return block.code();
    inode.at = reinterpret_cast<Inode*>(*block) + number % format::inodes_per_block;
    inode.generation = load(op.team, inode.at->generation);
    WARREN_TRY(op.confirm(inode.seen));
    if (inode.generation == 0) return Errc::stale;
    return inode;
}

/// Finds the inode that `handle` means. Errc::stale if it is gone.
template <class Team>
WARREN_HD Result<InodeRef> find_inode(Operation<Team>& op, Handle handle) {
    const Result<InodeRef> inode = find_inode(op, handle.inode);
    if (inode && inode->generation != handle.generation) return Errc::stale;
    return inode;
}

/// As find_inode(), for directories: Errc::not_directory if it is something else.
template <class Team>
WARREN_HD Result<InodeRef> find_directory(Operation<Team>& op, Handle handle) {
    const Result<InodeRef> inode = find_inode(op, handle);
    if (!inode) return inode;
    const u32 mode = load(op.team, inode->at->mode);
    if ((mode & format::type_mask) != format::type_directory) {
        WARREN_TRY(op.confirm(inode->seen));
        return Errc::not_directory;
    }
    return inode;
}

/// What stat(2) tells, read by one lane. The caller confirms the version.
WARREN_HD inline Attributes read_attributes(const InodeRef& inode) {
    const Inode& at = *inode.at;
    Attributes out;
    out.handle = inode.handle();
    out.mode = relaxed_load(at.mode);
    out.links = relaxed_load(at.links);
    out.user = relaxed_load(at.user);
    out.group = relaxed_load(at.group);
    out.device = relaxed_load(at.device);
    out.size = relaxed_load(at.size);
    out.blocks = relaxed_load(at.blocks);
    out.parent = relaxed_load(at.parent);
    out.accessed = relaxed_load(at.accessed);
    out.modified = relaxed_load(at.modified);
    out.changed = relaxed_load(at.changed);
    out.born = relaxed_load(at.born);
    return out;
}

/// A consistent copy of the attributes.
template <class Team>
WARREN_HD Result<Attributes> attributes_of(Operation<Team>& op, const InodeRef& inode) {
    const Attributes out = once(op.team, [&] { return read_attributes(inode); });
    WARREN_TRY(op.confirm(inode.seen));
    return out;
}

/// The bit of an inode number in its frame's bitmap.
struct InodeBit {
    u64 bitmap_place;
    u32 word;
    u64 mask;
};

WARREN_HD inline InodeBit inode_bit(u64 number) {
    const u32 slot = static_cast<u32>(number % format::inodes_per_frame);
    return {number / format::inodes_per_frame * format::frame_size, slot / 64, u64{1} << slot % 64};
}

/// Holds one free slot of the frame whose bitmap this is; its number in the frame, 0 if there is
/// none. One lane. The search starts at a word that depends on the worker, so that workers spread.
WARREN_HD inline u32 hold_slot(format::InodeBitmap& bitmap, u32 start_word) {
    constexpr u32 words = format::inodes_per_frame / 64;
    for (u32 i = 0; i < words; ++i) {
        const u32 w = (start_word + i) % words;
        device_atomic<u64> held(bitmap.held[w]);
        for (;;) {
            const u64 free = ~(relaxed_load(bitmap.used[w]) | held.load(hd::memory_order_relaxed));
            if (free == 0) break;
            const u64 bit = free & (~free + 1);
            // Acquire: pairs with the release in let_go_slot().
            if ((held.fetch_or(bit, hd::memory_order_acquire) & bit) != 0) continue;
            if ((relaxed_load(bitmap.used[w]) & bit) == 0) {
                return w * 64 + static_cast<u32>(hd::countr_zero(bit));
            }
            held.fetch_and(~bit, hd::memory_order_release);
        }
    }
    return 0;
}

WARREN_HD inline void let_go_slot(format::InodeBitmap& bitmap, const InodeBit& bit) {
    // Release: pairs with the acquire in hold_slot(): a used bit shows before the hold goes.
    device_atomic<u64>(bitmap.held[bit.word]).fetch_and(~bit.mask, hd::memory_order_release);
}

/// Reserves an inode number for apply; finish_inode() ends the reservation. The inode's block is
/// pinned. Errc::need_inodes if all inode frames are full.
template <class Team>
WARREN_HD Result<InodeRef> reserve_inode(Operation<Team>& op) {
    const Store& store = op.store;
    u64* room = room_of(store, FrameKind::inodes);
    u64& hinted = store.state->hints[op.team.worker % gate_slots].inode_frame;
    u64 frame = load(op.team, hinted);
    for (;;) {
        const bool usable = once(op.team, [&] {
            return frame < store.frame_count && kind_of(store, frame) == FrameKind::inodes &&
                   test_bit(room, frame);
        });
        if (usable) {
            const u32 mark = op.pin_mark();
            const Result<Block*> block = op.pin(frame * format::frame_size);
            if (!block) return block.code();
            auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(*block);
            const u32 slot = once(op.team, [&] {
                const u32 found = hold_slot(bitmap, op.team.worker * 8 % 128);
                if (found == 0) clear_bit(room, frame);
                return found;
            });
            if (slot != 0) {
                once(op.team, [&] { relaxed_store(hinted, frame); });
                op.reserved_inode = frame * format::inodes_per_frame + slot;
                break;
            }
            op.release_pins(mark);
        }
        frame = once(op.team, [&] { return find_bit_up(room, 0, store.frame_count); });
        if (frame == store.frame_count) return Errc::need_inodes;
    }
    InodeRef inode;
    inode.number = op.reserved_inode;
    WARREN_TRY(op.observe(inode.number * format::inode_size, inode.seen));
    const Result<Block*> block = op.pin(inode.block_place());
    if (!block) return block.code();
    inode.at = reinterpret_cast<Inode*>(*block) + inode.number % format::inodes_per_block;
    return inode;
}

/// The bitmap that holds the bit of `number`, pinned.
template <class Team>
WARREN_HD Result<format::InodeBitmap*> pin_bitmap(Operation<Team>& op, u64 number) {
    const Result<Block*> block = op.pin(inode_bit(number).bitmap_place);
    if (!block) return block.code();
    return reinterpret_cast<format::InodeBitmap*>(*block);
}

/// Brings the reserved inode to life with a new generation. Only within apply.
template <class Team>
WARREN_HD void use_inode(Operation<Team>& op, InodeRef& inode, format::InodeBitmap& bitmap) {
    const InodeBit bit = inode_bit(inode.number);
    inode.generation = once(op.team, [&] {
        device_atomic<u64>(bitmap.used[bit.word]).fetch_or(bit.mask, hd::memory_order_relaxed);
        StoreState& state = *op.store.state;
        device_atomic<u64>(state.inodes_used).fetch_add(1, hd::memory_order_relaxed);
        device_atomic<u64> counter(state.generation);
        u32 generation = 0;
        while (generation == 0) {
            generation = static_cast<u32>(counter.fetch_add(1, hd::memory_order_relaxed) + 1);
        }
        return generation;
    });
    op.mark_dirty(bit.bitmap_place);
    op.mark_dirty(inode.block_place());
}

/// Clears the bit of an inode and all that makes its handle valid; the caller counts it. Only
/// within apply. The inode itself is not written to disk.
template <class Team>
WARREN_HD void clear_inode(Operation<Team>& op, const InodeRef& inode,
                           format::InodeBitmap& bitmap) {
    const InodeBit bit = inode_bit(inode.number);
    const bool held = once(op.team, [&] {
        const bool known = relaxed_load(inode.at->references) != 0;
        if (known) {
            device_atomic<u64>(bitmap.held[bit.word]).fetch_or(bit.mask, hd::memory_order_relaxed);
        }
        relaxed_store(inode.at->generation, 0);
        // Release: pairs with the acquire in hold_slot(): the hold shows before the bit is clear.
        device_atomic<u64>(bitmap.used[bit.word]).fetch_and(~bit.mask, hd::memory_order_release);
        set_bit(room_of(op.store, FrameKind::inodes), inode.number / format::inodes_per_frame);
        return known;
    });
    if (held) op.leave_pinned(bit.bitmap_place);
    op.mark_dirty(bit.bitmap_place);
}

/// Ends the life of an inode: its number can be used again, once the kernel has forgotten it. Only
/// within apply.
template <class Team>
WARREN_HD void free_inode(Operation<Team>& op, const InodeRef& inode, format::InodeBitmap& bitmap) {
    clear_inode(op, inode, bitmap);
    once(op.team, [&] {
        device_atomic<u64>(op.store.state->inodes_used).fetch_sub(1, hd::memory_order_relaxed);
    });
}

/// Ends a reservation made by reserve_inode(), used or not.
template <class Team>
WARREN_HD void finish_inode(Operation<Team>& op) {
    if (op.reserved_inode == 0) return;
    const InodeBit bit = inode_bit(op.reserved_inode);
    const Result<Block*> block = op.pin(bit.bitmap_place);
    WARREN_CHECK(block);  // reserve_inode() pinned it and finish() has not run yet
    once(op.team, [&] {
        let_go_slot(*reinterpret_cast<format::InodeBitmap*>(*block), bit);
        set_bit(room_of(op.store, FrameKind::inodes), op.reserved_inode / format::inodes_per_frame);
    });
    op.reserved_inode = 0;
}

/// The end of every operation, whether it applied or not: lets go of all that it held.
template <class Team>
WARREN_HD void finish(Operation<Team>& op) {
    finish_blocks(op);
    finish_inode(op);
    op.forget_locks();
    op.release_pins();
}

}  // namespace warren::core

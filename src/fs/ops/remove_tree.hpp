// SPDX-License-Identifier: Apache-2.0
// Removal of a whole tree: its root goes to the orphan directory in one transaction, then many
// teams free what hangs on it, one directory a task.
//
// The freeing runs in bulk steps. A step passes the gate once for all of its parts, so no commit
// falls into it, and within it the tree may be in pieces. Invariant: when a step ends, every inode
// that still exists hangs on the orphan directory; so a cut between steps loses nothing and the
// next opening goes on.
#pragma once

#include "fs/ops/unlink.hpp"

namespace warren::ops {

/// Moves the directory (directory, name) to the orphan directory and lets it take no more names.
/// The answer is its handle. Errc::not_directory for anything else.
template <class Team>
WARREN_HD Result<Handle> detach_tree(Operation<Team>& op, const Credentials& caller,
                                     Handle directory, const char* name, u32 length, i64 now) {
    op.may_use_reserve = true;
    const Result<Found> found = find_removable(op, caller, directory, name, length);
    if (!found) return found.code();
    const InodeRef parent = found->directory;
    const InodeRef inode = found->inode;
    if (found->entry.type != format::entry_type(format::type_directory)) {
        return Errc::not_directory;
    }
    OrphanEntry orphan;
    WARREN_TRY(find_orphan(op, inode.number, orphan));
    if (orphan.entry.exists) return Errc::corrupt;
    WARREN_TRY(plan_link(op, orphan.directory, orphan.name(op), orphan.entry));
    WARREN_TRY(op.will_write(found->entry.leaf_seen));
    WARREN_TRY(op.will_write(inode.seen));

    WARREN_TRY(op.begin_apply(6));
    apply_unlink(op, parent, found->entry, now);
    once(op.team, [&] {
        device_atomic<u32>(parent.at->links).fetch_sub(1, hd::memory_order_relaxed);
        device_atomic<u64>(inode.at->entries)
            .fetch_or(format::entries_dying, hd::memory_order_relaxed);
        relaxed_store(inode.at->links, 0);
        relaxed_store(inode.at->changed, now);
    });
    op.mark_dirty(inode.block_place());
    apply_orphan(op, orphan, inode.number, format::type_directory, now);
    op.end_apply();
    return inode.handle();
}

/// What happened to one leaf or directory of a dying tree.
struct Harvest {
    u64 files = 0;
    u64 inodes = 0;     // freed
    u64 left_over = 0;  // names that need an operation of their own: open files, very large ones
};

/// Frees one file of a leaf, or takes one of its names away. Errc::busy if it needs an operation of
/// its own, Errc::retry if somebody is at work on it. Only within a bulk step; the leaf is locked.
template <class Team>
WARREN_HD Errc harvest_file(Operation<Team>& op, u64 number, const Seen& leaf, i64 now,
                            Harvest& harvest) {
    if (!is_inode_slot(op, number)) return Errc::corrupt;
    const u64 place = number * format::inode_size;
    const bool shares_lock = stripe_of(place) == stripe_of(leaf.place);
    InodeRef inode;
    inode.number = number;
    if (!shares_lock) WARREN_TRY(op.observe(place, inode.seen));
    const Result<Block*> block = op.pin(inode.block_place());
    if (!block) return block.code();
    inode.at = reinterpret_cast<Inode*>(*block) + number % format::inodes_per_block;
    inode.generation = load(op.team, inode.at->generation);
    if (inode.generation == 0) return Errc::corrupt;
    const Result<format::InodeBitmap*> bitmap = pin_bitmap(op, number);
    if (!bitmap) return bitmap.code();
    if (!shares_lock && !op.lock_now(inode.seen)) return Errc::retry;
    Errc answer = Errc::ok;
    const u32 links = load(op.team, inode.at->links);
    if (links > 1) {
        once(op.team, [&] {
            relaxed_store(inode.at->links, links - 1);
            relaxed_store(inode.at->changed, now);
        });
        op.mark_dirty(inode.block_place());
    } else if (load(op.team, inode.at->references) >= one_open || !is_released_at_once(op, inode)) {
        answer = Errc::busy;
    } else {
        release_contents(op, inode);
        clear_inode(op, inode, **bitmap);
        ++harvest.inodes;
    }
    if (!shares_lock) op.unlock_now(inode.seen);
    if (answer == Errc::ok) ++harvest.files;
    return answer;
}

/// Whether harvest_file() would leave this inode to an operation of its own.
template <class Team>
WARREN_HD Result<bool> needs_own_operation(Operation<Team>& op, u64 number) {
    const Result<InodeRef> inode = find_inode(op, number);
    if (!inode) return inode.code();
    const Result<bool> at_once = releases_in_one_step(op, *inode);
    if (!at_once) return at_once.code();
    const bool is_open = load(op.team, inode->at->references) >= one_open;
    const bool is_last = load(op.team, inode->at->links) <= 1;
    WARREN_TRY(op.confirm(inode->seen));
    return is_last && (is_open || !*at_once);
}

/// Empties one leaf of the dying `directory`: frees its files and hands its directories to `push`.
/// Answers ok, or what kept it from the rest (retry, need_block). Only within a bulk step.
template <class Team, class Push>
WARREN_HD Errc harvest_leaf(Operation<Team>& op, const InodeRef& directory, const Seen& seen,
                            DirectoryLeaf& leaf, i64 now, const Push& push, Harvest& harvest) {
    if (!op.lock_now(seen)) return Errc::retry;
    Errc answer = Errc::ok;
    u64 gone = 0;
    for (u32 slot = 0; slot < format::leaf_entries_max; ++slot) {
        const DirectorySlot entry = once(op.team, [&] { return read_slot(leaf, slot); });
        if (entry.inode() == 0) continue;
        if (entry.type() == format::entry_type(format::type_directory)) {
            push(entry.inode());
        } else {
            const u32 mark = op.pin_mark();
            const Errc freed = harvest_file(op, entry.inode(), seen, now, harvest);
            op.release_pins(mark);
            if (freed == Errc::busy || freed == Errc::corrupt) ++harvest.left_over;
            if (!is_final(freed)) answer = freed;
            if (freed != Errc::ok) continue;
        }
        once(op.team, [&] { erase_in_leaf(leaf, slot); });
        ++gone;
    }
    if (gone > 0) {
        once(op.team, [&] {
            device_atomic<u64>(directory.at->entries).fetch_sub(gone, hd::memory_order_relaxed);
        });
        op.mark_dirty(seen.place);
        // The directory itself is written only if this step cannot finish it (keep_directory());
        // but a meta buffer of fixed size would forget the count with the block.
        if (op.store.heads != nullptr) op.mark_dirty(directory.block_place());
    }
    op.unlock_now(seen);
    return answer;
}

/// Empties the leaves of a dying directory whose keys lie in [begin, end). Answers as
/// harvest_leaf(), or Errc::canceled if `must_stop()` said so between two leaves; started again it
/// goes on with what is left.
template <class Team, class Push, class Stop>
WARREN_HD Errc harvest_range(Operation<Team>& op, u64 number, u64 begin, u64 end, i64 now,
                             const Push& push, const Stop& must_stop, Harvest& harvest) {
    const u32 all_pins = op.pin_mark();
    u64 key = begin;
    while (key < end) {
        if (once(op.team, [&] { return must_stop(); })) return Errc::canceled;
        const Result<InodeRef> directory = find_inode(op, number);
        if (!directory) return directory.code();
        Descent descent;
        WARREN_TRY(descend(op, *directory, directory_tree, key, descent));
        if (descent.empty) break;
        WARREN_TRY(harvest_leaf(op, *directory, descent.leaf_seen,
                                *reinterpret_cast<DirectoryLeaf*>(descent.leaf), now, push,
                                harvest));
        key = descent.upper;
        op.release_pins(all_pins);
    }
    return Errc::ok;
}

/// Lets a directory of a dying tree take no more names.
template <class Team>
WARREN_HD Errc start_dying(Operation<Team>& op, u64 number) {
    const Result<InodeRef> directory = find_inode(op, number);
    if (!directory) return directory.code();
    WARREN_TRY(op.begin_apply(1));
    once(op.team, [&] {
        device_atomic<u64>(directory->at->entries)
            .fetch_or(format::entries_dying, hd::memory_order_relaxed);
    });
    if (op.store.heads != nullptr) op.mark_dirty(directory->block_place());
    op.end_apply();
    return Errc::ok;
}

/// Notes that a directory outlives the step that took names from it. Within the step.
template <class Team>
WARREN_HD Errc keep_directory(Operation<Team>& op, u64 number) {
    const Result<InodeRef> directory = find_inode(op, number);
    if (!directory) return directory.code();
    op.mark_dirty(directory->block_place());
    return Errc::ok;
}

/// Whether all nodes of a subtree will stay in memory while it is freed, and its pointers lead to
/// blocks of this volume.
template <class Team>
WARREN_HD bool subtree_stays_resident(Operation<Team>& op, u64 place, u32 height) {
    if (place % format::block_size != 0 || place >= op.store.size_bytes) return false;
    if (height == 0) return true;
    if (op.store.heads != nullptr) return false;
    const Result<Block*> block = op.pin(place);
    if (!block) return false;
    auto* node = reinterpret_cast<TreeNode*>(*block);
    if (load(op.team, node->height) != height) return false;
    const u32 count = load(op.team, node->count);
    for (u32 i = 0; i < count && i < format::node_pairs_max; ++i) {
        const BlockPointer child{load(op.team, node->pairs[i].child.raw)};
        if (!subtree_stays_resident(op, child.offset(), height - 1)) return false;
    }
    return true;
}

/// Frees the blocks of a tree that hangs on nothing any more. The blocks are retired first, so that
/// whoever still plans a change in them starts again. Requires: its nodes are resident.
template <class Team>
WARREN_HD void free_subtree(Operation<Team>& op, u64 place, u32 height) {
    op.retire_place(place);
    if (height > 0) {
        const Result<Block*> block = op.pin(place);
        WARREN_CHECK(block);
        auto* node = reinterpret_cast<TreeNode*>(*block);
        const u32 count = load(op.team, node->count);
        for (u32 i = 0; i < count && i < format::node_pairs_max; ++i) {
            const BlockPointer child{load(op.team, node->pairs[i].child.raw)};
            free_subtree(op, child.offset(), height - 1);
        }
    }
    free_metadata(op, place);
}

/// Errc::need_prune for the first leaf of a directory without names; Errc::corrupt if that has any:
/// pruning would leave it there for ever.
template <class Team>
WARREN_HD Errc ask_for_prune(Operation<Team>& op, const InodeRef& directory) {
    Descent descent;
    WARREN_TRY(descend(op, directory, directory_tree, 0, descent));
    if (!descent.empty) {
        const bool is_empty = DirectoryLeafType{}.is_empty(op, descent.leaf);
        WARREN_TRY(op.confirm(descent.leaf_seen));
        if (!is_empty) return Errc::corrupt;
    }
    return op.need_structure(Errc::need_prune, directory.number, 0);
}

/// Frees an emptied directory of a dying tree and its own blocks. Errc::not_empty if names are
/// left, Errc::need_prune if its tree must be taken down leaf by leaf first. Only within a bulk
/// step; no lock is held.
template <class Team>
WARREN_HD Errc free_directory(Operation<Team>& op, u64 number) {
    const Result<InodeRef> found = find_inode(op, number);
    if (!found) return found.code();
    const InodeRef directory = *found;
    if (load(op.team, directory.at->entries) != format::entries_dying) return Errc::not_empty;
    const Result<Pairs> root = root_pairs(op, directory);
    if (!root) return root.code();
    const Result<format::InodeBitmap*> bitmap = pin_bitmap(op, number);
    if (!bitmap) return bitmap.code();
    u64 children[format::root_pairs_max];
    for (u32 i = 0; i < root->count; ++i) {
        children[i] = BlockPointer{load(op.team, root->pairs[i].child.raw)}.offset();
        if (!subtree_stays_resident(op, children[i], root->height - 1)) {
            return ask_for_prune(op, directory);
        }
    }
    const format::BlockPointer attributes{load(op.team, directory.at->attributes.raw)};
    if (!op.lock_now(directory.seen)) return Errc::retry;
    once(op.team, [&] {
        relaxed_store(directory.at->area_count, 0);
        relaxed_store(directory.at->height, 0);
        relaxed_store(directory.at->attributes.raw, 0);
    });
    clear_inode(op, directory, **bitmap);
    op.unlock_now(directory.seen);
    for (u32 i = 0; i < root->count; ++i)
        free_subtree(op, children[i], root->height - 1);
    if (attributes.raw != 0) {
        op.retire_place(attributes.offset());
        free_metadata(op, attributes.offset());
    }
    return Errc::ok;
}

/// Hangs a directory that a bulk step leaves unfinished on the orphan directory. Within the step.
/// The directory itself is not written: a step may leave many.
template <class Team>
WARREN_HD Errc adopt_orphan(Operation<Team>& op, u64 number, i64 now) {
    op.may_use_reserve = true;
    OrphanEntry orphan;
    WARREN_TRY(find_orphan(op, number, orphan));
    if (orphan.entry.exists) return Errc::ok;
    WARREN_TRY(plan_link(op, orphan.directory, orphan.name(op), orphan.entry));
    WARREN_TRY(op.begin_apply(2));
    apply_orphan(op, orphan, number, format::type_directory, now);
    op.end_apply();
    return Errc::ok;
}

/// Takes a freed directory's name out of the orphan directory. Within the step that freed it.
template <class Team>
WARREN_HD Result<Removed> drop_orphan(Operation<Team>& op, u64 number, i64 now) {
    OrphanEntry orphan;
    WARREN_TRY(find_orphan(op, number, orphan));
    Removed removed;
    if (!orphan.entry.exists) return removed;
    WARREN_TRY(op.will_write(orphan.entry.leaf_seen));
    WARREN_TRY(op.begin_apply(2));
    if (apply_unlink(op, orphan.directory, orphan.entry, now)) {
        removed.prune_inode = orphan.directory.number;
        removed.prune_key = orphan.entry.key;
    }
    op.end_apply();
    return removed;
}

}  // namespace warren::ops

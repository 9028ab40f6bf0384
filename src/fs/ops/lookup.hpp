// SPDX-License-Identifier: Apache-2.0
// Looking up a name in a directory, the attributes of an inode, or the next leaf of a listing.
// These operations write only the inode's references, and lock an inode only for that. Teams of
// many lanes try the fast path first (fs/core/fast_lookup.hpp); the general path handles the cases
// that the fast path does not.
#pragma once

#include "fs/core/directory.hpp"
#include "fs/core/fast_lookup.hpp"
#include "fs/core/permission.hpp"

namespace warren::ops {

using namespace warren::core;

/// The result of a lookup, with the position of the entry for operations that change it.
struct Found {
    InodeRef directory;
    Name name;
    Entry entry;
    InodeRef inode;  // valid if entry.exists
};

/// Finds `name` in `directory`, where the caller needs the permission `wanted`. It is no error if
/// the name does not exist.
template <class Team>
WARREN_HD Result<Found> find(Operation<Team>& op, const Credentials& caller, Handle directory,
                             const char* name, u32 length, u32 wanted) {
    Found found;
    WARREN_LET(where, find_directory(op, directory));
    found.directory = *where;
    WARREN_TRY(check_permission(op, found.directory, caller, wanted));
    WARREN_LET(made, make_name(op, name, length));
    found.name = *made;
    WARREN_LET(entry, find_entry(op, found.directory, found.name));
    found.entry = *entry;
    if (!found.entry.exists) return found;
    const Result<InodeRef> inode = find_inode(op, found.entry.inode);
    // A directory entry always leads to an existing inode. If this one does not, the entry was
    // removed meanwhile, or the volume is damaged.
    if (!inode) {
        if (inode.code() != Errc::stale) return inode.code();
        WARREN_TRY(op.confirm(found.entry.leaf_seen));
        return Errc::corrupt;
    }
    found.inode = *inode;
    WARREN_TRY(op.confirm(found.entry.leaf_seen));
    return found;
}

/// Blocks that add_references() marks dirty: none, because references are not on disk.
inline constexpr u32 reference_blocks_max = 0;

/// Adds `more` to the references that the kernel or open files hold; `held` is the count before.
/// References do not keep the block in memory: when the loader evicts the block, it saves them.
/// Only within apply, with the inode locked.
template <class Team>
WARREN_HD void add_references(Operation<Team>& op, const InodeRef& inode, u64 held, u64 more) {
    WARREN_CHECK(can_count(held, more));
    once(op.team, [&] {
        device_atomic<u64>(inode.at->references).fetch_add(more, hd::memory_order_relaxed);
    });
    op.mark_changed(inode.block_place());
}

/// Ends a lookup that has found `inode`: adds `references`, if not 0, to the count `held`.
/// Errc::overflow if they cannot be added.
template <class Team>
WARREN_HD Result<Attributes> end_lookup(Operation<Team>& op, const InodeRef& inode,
                                        const Attributes& attributes, u64 held, u64 references) {
    if (references == 0) return attributes;
    if (!can_count(held, references)) return Errc::overflow;
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(reference_blocks_max)));
    add_references(op, inode, held, references);
    op.end_apply();
    return attributes;
}

/// As above, for an inode whose attributes have not been read yet.
template <class Team>
WARREN_HD Result<Attributes> end_plain_lookup(Operation<Team>& op, const InodeRef& inode,
                                              u64 references) {
    const Result<Attributes> attributes = attributes_of(op, inode);
    if (!attributes || references == 0) return attributes;
    const u64 held = load(op.team, inode.at->references);
    WARREN_TRY(op.confirm(inode.seen));
    return end_lookup(op, inode, *attributes, held, references);
}

template <class Team>
WARREN_HD WARREN_NOINLINE Result<Attributes> lookup_general(Operation<Team>& op,
                                                            const Credentials& caller,
                                                            Handle directory, const char* name,
                                                            u32 length, u64 references) {
    WARREN_LET(found, find(op, caller, directory, name, length, may_execute));
    if (!found->entry.exists) return Errc::no_entry;
    return end_plain_lookup(op, found->inode, references);
}

/// Looks up one name and adds `references` (one_lookup, one_open or both) to the inode's
/// references.
template <class Team>
WARREN_HD Result<Attributes> lookup(Operation<Team>& op, const Credentials& caller,
                                    Handle directory, const char* name, u32 length,
                                    u64 references) {
    if constexpr (Team::width > 1) {
        FastEntry<Team> seen;
        if (fast_lookup(op.team, op.store, caller, directory, name, length, may_execute, seen)) {
            if (!seen.entry.exists) return Errc::no_entry;
            const Attributes attributes = attributes_in(op.team, seen.inode);
            if (references != 0 || is_unchanged(op.team, op.store, seen.inode.inode.seen)) {
                const u64 held = seen.inode.get(op.team, &Inode::references);
                return end_lookup(op, seen.inode.inode, attributes, held, references);
            }
        }
    }
    return lookup_general(op, caller, directory, name, length, references);
}

template <class Team>
WARREN_HD WARREN_NOINLINE Result<Attributes> get_attributes_general(Operation<Team>& op,
                                                                    Handle handle, u64 references) {
    WARREN_LET(inode, find_inode(op, handle));
    return end_plain_lookup(op, *inode, references);
}

/// The attributes of the inode that `handle` names; `references` are added to the inode's.
template <class Team>
WARREN_HD Result<Attributes> get_attributes(Operation<Team>& op, Handle handle, u64 references) {
    if constexpr (Team::width > 1) {
        InodeImage<Team> image;
        if (op.store.heads == nullptr && peek_handle(op.team, op.store, handle, image)) {
            const Attributes attributes = attributes_in(op.team, image);
            if (references != 0 || is_unchanged(op.team, op.store, image.inode.seen)) {
                const u64 held = image.get(op.team, &Inode::references);
                return end_lookup(op, image.inode, attributes, held, references);
            }
        }
    }
    return get_attributes_general(op, handle, references);
}

/// The handle of the inode with this number.
template <class Team>
WARREN_HD Result<Handle> handle_of(Operation<Team>& op, u64 number) {
    WARREN_LET(inode, find_inode(op, number));
    return inode->handle();
}

/// Errc::access unless the caller may do `wanted` with the inode.
template <class Team>
WARREN_HD Errc check_access(Operation<Team>& op, const Credentials& caller, Handle handle,
                            u32 wanted) {
    WARREN_LET(inode, find_inode(op, handle));
    return check_permission(op, *inode, caller, wanted);
}

/// The number of names in a directory.
template <class Team>
WARREN_HD Result<u64> count_names(Operation<Team>& op, Handle directory) {
    WARREN_LET(inode, find_directory(op, directory));
    const u64 entries = load(op.team, inode->at->entries);
    WARREN_TRY(op.confirm(inode->seen));
    return entries & ~format::entries_dying;
}

/// Copies the leaf of `directory` that covers `key` into `copy`, which only this team uses; returns
/// the lowest key of the next leaf. `copy.count` is 0 if the directory has no leaf.
template <class Team>
WARREN_HD Result<u64> read_leaf(Operation<Team>& op, Handle directory, u64 key,
                                DirectoryLeaf& copy) {
    WARREN_LET(inode, find_directory(op, directory));
    Descent descent;
    WARREN_TRY(descend(op, *inode, directory_tree, key, descent));
    if (descent.empty) {
        once(op.team, [&] {
            copy.count = 0;
            for (DirectorySlot& slot : copy.slots)
                slot = {};
        });
        return key_end;
    }
    copy_words<format::block_size / 8>(op.team, reinterpret_cast<u64*>(&copy), descent.leaf->words);
    WARREN_TRY(op.confirm(descent.leaf_seen));
    return descent.upper;
}

}  // namespace warren::ops

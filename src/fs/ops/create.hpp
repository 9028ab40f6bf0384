// SPDX-License-Identifier: Apache-2.0
// New inodes, with a name (open, mkdir, mknod, symlink) or without (O_TMPFILE), and further names
// for existing inodes (link).
#pragma once

#include "fs/core/acl.hpp"
#include "fs/format/check_structure.hpp"
#include "fs/ops/dispose.hpp"
#include "fs/ops/new_inode.hpp"

namespace warren::ops {

struct CreateArguments {
    u32 mode = 0;
    u32 device = 0;
    const char* target = nullptr;  // of a symbolic link
    u32 target_length = 0;
    u64 references = 0;  // one_lookup, one_open or both
    i64 now = 0;
};

/// The plan for a new inode: where it will be and what it will hold.
struct NewInode {
    InodeRef inode;
    format::InodeBitmap* bitmap = nullptr;
    InheritPlan inherit;
    FreshBlock acl;     // for ACLs; place 0: none
    FreshBlock target;  // for a long target of a link; place 0: none
    u32 user = 0;
    u32 group = 0;
};

/// Blocks that apply_inode() marks dirty: the inode, its bitmap, and a new block for an ACL or for
/// a long target; a symbolic link has no ACL.
inline constexpr u32 new_inode_blocks_max = 2 + start_blocks_max;
/// Blocks that create() and create_unnamed() mark dirty: those of the inode, and its name, which
/// for the latter is in the orphan directory.
inline constexpr u32 create_blocks_max = entry_blocks_max + new_inode_blocks_max;
/// Blocks that link() marks dirty: the inode, its new name, and the name that it had in the orphan
/// directory.
inline constexpr u32 link_blocks_max = 1 + 2 * entry_blocks_max;

/// Reserves the number of a new inode, and a block if the target of a link is long.
template <class Team>
WARREN_HD Errc reserve_new_inode(Operation<Team>& op, const CreateArguments& arguments,
                                 NewInode& fresh) {
    WARREN_LET(reserved, reserve_inode(op));
    fresh.inode = reserved->inode;
    fresh.bitmap = reserved->bitmap;
    WARREN_TRY(op.will_write(fresh.inode.seen));
    if (arguments.target_length > format::area_bytes) {
        WARREN_LET(target, reserve_block(op));
        fresh.target = *target;
    }
    return Errc::ok;
}

/// Plans the owner, group, mode and ACLs of a new inode in `parent`, and reserves what it needs.
template <class Team>
WARREN_HD Errc plan_inode(Operation<Team>& op, const Credentials& caller, const InodeRef& parent,
                          const Inherited& inherited, const CreateArguments& arguments,
                          NewInode& fresh) {
    if (!may_make(caller, arguments.mode, arguments.device)) return Errc::not_permitted;
    fresh.user = caller.user;
    fresh.group = new_group(caller, inherited);
    const u32 mode = new_mode(caller, inherited, fresh.group, arguments.mode);
    if (format::is_symlink(mode)) {
        fresh.inherit.mode = mode;
    } else if (!inherited.may_have_acl) {
        fresh.inherit.mode = masked(caller, mode);
    } else {
        WARREN_LET(inherit,
                   plan_inherit(op, parent, mode, caller.umask, format::is_directory(mode)));
        fresh.inherit = *inherit;
    }
    WARREN_TRY(reserve_new_inode(op, arguments, fresh));
    if (fresh.inherit.needs_block) {
        WARREN_LET(acl, reserve_block(op));
        fresh.acl = *acl;
    }
    return Errc::ok;
}

template <class Team>
WARREN_HD Errc plan_inode(Operation<Team>& op, const Credentials& caller, const InodeRef& parent,
                          const CreateArguments& arguments, NewInode& fresh) {
    Inherited inherited;
    inherited.mode = load(op.team, parent.at->mode);
    inherited.group = load(op.team, parent.at->group);
    WARREN_TRY(op.confirm(parent.seen));
    return plan_inode(op, caller, parent, inherited, arguments, fresh);
}

/// Stores the target of a symbolic link. Only within apply.
template <class Team>
WARREN_HD void apply_target(Operation<Team>& op, const NewInode& fresh,
                            const CreateArguments& arguments) {
    Inode& at = *fresh.inode.at;
    if (fresh.target.place == 0) {
        once(op.team, [&] {
            for (u32 i = 0; i * 8 < arguments.target_length; ++i) {
                relaxed_store(at.area.words[i],
                              name_word(arguments.target, arguments.target_length, i));
            }
        });
        return;
    }
    start_block(op, fresh.target, identity_of(BlockKind::link_target, fresh.inode));
    auto* block = reinterpret_cast<format::LinkTarget*>(fresh.target.at);
    once(op.team, [&] {
        const u32 head = format::target_head_bytes;
        const u32 rest = arguments.target_length - head;
        relaxed_store(at.area_kind, static_cast<u8>(AreaKind::target));
        relaxed_store(at.area.words[0], format::BlockPointer::to(fresh.target.place).raw);
        for (u32 i = 0; i < head / 8; ++i) {
            relaxed_store(at.area.words[i + 1], name_word(arguments.target, head, i));
        }
        for (u32 i = 0; i < rest; ++i) {
            relaxed_store(block->bytes[i], static_cast<u8>(arguments.target[head + i]));
        }
        relaxed_store(block->length, rest);
    });
}

/// The fields that stat(2) returns for the inode that apply_inode() writes.
WARREN_HD inline Attributes made_attributes(const InodeRef& parent,
                                            const CreateArguments& arguments, const NewInode& fresh,
                                            u32 links) {
    Attributes out = new_attributes(fresh.inode.handle(), fresh.inherit.mode, fresh.user,
                                    fresh.group, parent.number, arguments.now);
    out.links = links;
    out.device = arguments.device;
    out.size = arguments.target_length;
    out.blocks = (fresh.acl.place != 0 ? 1u : 0u) + (fresh.target.place != 0 ? 1u : 0u);
    return out;
}

/// Writes the new inode. Only within apply.
template <class Team>
WARREN_HD void apply_inode(Operation<Team>& op, const InodeRef& parent,
                           const CreateArguments& arguments, NewInode& fresh, u32 links) {
    use_inode(op, fresh.inode, *fresh.bitmap);
    Inode& at = *fresh.inode.at;
    const bool is_directory = format::is_directory(fresh.inherit.mode);
    const format::BlockPointer acl =
        fresh.acl.place != 0 ? format::BlockPointer::to(fresh.acl.place) : format::BlockPointer{};
    write_new_inode(op.team, at, made_attributes(parent, arguments, fresh, links), acl);
    if (arguments.target_length > 0) apply_target(op, fresh, arguments);
    if (fresh.acl.place != 0) {
        start_block(op, fresh.acl, identity_of(BlockKind::attributes, fresh.inode));
        apply_inherit(op, fresh.inherit, parent,
                      *reinterpret_cast<format::AttributeBlock*>(fresh.acl.at));
    }
    if (is_directory) {
        once(op.team, [&] {
            if (grants_less(at, *parent.at))
                note_rights_change(op.store, fresh.inode.block_place());
        });
    }
    if (arguments.references != 0) add_references(op, fresh.inode, 0, arguments.references);
}

/// A name that will be added, and what its inode inherits from the directory.
struct NewName : Found {
    Inherited inherited;
};

template <class Team>
WARREN_HD WARREN_NOINLINE Errc plan_name_general(Operation<Team>& op, const Credentials& caller,
                                                 Handle directory, const char* name, u32 length,
                                                 NewName& fresh) {
    WARREN_LET(found, find(op, caller, directory, name, length, may_execute));
    if (found->entry.exists) return Errc::exists;
    static_cast<Found&>(fresh) = *found;
    WARREN_TRY(check_permission(op, fresh.directory, caller, may_write));
    fresh.inherited.mode = load(op.team, fresh.directory.at->mode);
    fresh.inherited.group = load(op.team, fresh.directory.at->group);
    WARREN_TRY(op.confirm(fresh.directory.seen));
    return plan_link(op, fresh.directory, fresh.name, fresh.entry);
}

/// Plans to add a name. Errc::exists if it exists.
template <class Team>
WARREN_HD Errc plan_name(Operation<Team>& op, const Credentials& caller, Handle directory,
                         const char* name, u32 length, NewName& fresh) {
    if constexpr (Team::width > 1) {
        FastEntry<Team> seen;
        constexpr u32 wanted = may_execute | may_write;
        if (fast_lookup(op.team, op.store, caller, directory, name, length, wanted, seen)) {
            if (seen.entry.exists) return Errc::exists;
            fresh = {{seen.directory.inode, seen.name, seen.entry, {}}, {}};
            fresh.inherited.mode = seen.directory.get(op.team, &Inode::mode);
            fresh.inherited.group = seen.directory.get(op.team, &Inode::group);
            fresh.inherited.may_have_acl = seen.directory.attributes(op.team) != 0;
            if (seen.leaf_view.counts.have_room(length)) return op.will_write(seen.leaf_view.seen);
            return op.need_structure(Errc::need_split, fresh.directory.number, fresh.entry.key);
        }
    }
    return plan_name_general(op, caller, directory, name, length, fresh);
}

/// Writes the new inode and its name. Only within apply. If the directory is being deleted, ends
/// the apply and returns Errc::no_entry.
template <class Team>
WARREN_HD Errc apply_new_name(Operation<Team>& op, const NewName& added,
                              const CreateArguments& arguments, NewInode& fresh) {
    const InodeRef& parent = added.directory;
    if (!once(op.team, [&] { return count_entry(parent, 1); })) {
        op.cancel_apply();
        return Errc::no_entry;
    }
    const u32 mode = fresh.inherit.mode;
    const bool is_directory = format::is_directory(mode);
    apply_inode(op, parent, arguments, fresh, is_directory ? 2 : 1);
    apply_link(op, parent, added.name, added.entry, fresh.inode.number, format::entry_type(mode),
               arguments.now);
    if (is_directory) {
        once(op.team,
             [&] { device_atomic<u32>(parent.at->links).fetch_add(1, hd::memory_order_relaxed); });
    }
    return Errc::ok;
}

/// Whether an inode can be created with this mode: a known type and no unknown bits.
WARREN_HD constexpr bool can_be_made(u32 mode) {
    return (mode & ~(format::type_mask | format::mode_bits)) == 0 && format::type_is_known(mode);
}

/// Creates an inode and gives it a name. Errc::exists if the name exists.
template <class Team>
WARREN_HD Result<Attributes> create(Operation<Team>& op, const Credentials& caller,
                                    Handle directory, const char* name, u32 length,
                                    const CreateArguments& arguments) {
    if (arguments.target_length > format::target_length_max) return Errc::name_too_long;
    if (!can_be_made(arguments.mode)) return Errc::invalid;
    const bool is_link = format::is_symlink(arguments.mode);
    if (is_link && arguments.target_length == 0) return Errc::no_entry;
    if (!is_link && arguments.target_length != 0) return Errc::invalid;
    const auto* target = reinterpret_cast<const u8*>(arguments.target);
    if (format::bytes_before_nul(target, arguments.target_length) != arguments.target_length)
        return Errc::invalid;
    NewName added;
    WARREN_TRY(plan_name(op, caller, directory, name, length, added));
    const InodeRef& parent = added.directory;
    NewInode fresh;
    const Errc planned = plan_inode(op, caller, parent, added.inherited, arguments, fresh);
    // The order of the kernel: first ENOENT for a removed directory, then EPERM for a device.
    if (planned == Errc::not_permitted && once(op.team, [&] { return is_dying(parent); }))
        return Errc::no_entry;
    WARREN_TRY(planned);

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(create_blocks_max)));
    WARREN_TRY(apply_new_name(op, added, arguments, fresh));
    op.end_apply();
    return made_attributes(parent, arguments, fresh, format::is_directory(arguments.mode) ? 2 : 1);
}

/// Creates a regular file without a name, as an entry of the orphan directory; or a directory
/// there, for a tree that is built below it and later gets its name by a rename.
template <class Team>
WARREN_HD Result<Attributes> create_unnamed(Operation<Team>& op, const Credentials& caller,
                                            Handle directory, const CreateArguments& arguments) {
    WARREN_LET(parent, find_directory(op, directory));
    WARREN_TRY(check_permission(op, *parent, caller, may_write | may_execute));
    NewInode fresh;
    WARREN_TRY(plan_inode(op, caller, *parent, arguments, fresh));
    OrphanEntry orphan;
    WARREN_TRY(plan_orphan(op, fresh.inode.number, orphan));

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(create_blocks_max)));
    apply_inode(op, *parent, arguments, fresh, 0);
    once(op.team, [&] { relaxed_store(fresh.inode.at->flags, format::flag_unnamed); });
    apply_orphan(op, orphan, fresh.inode.number, fresh.inherit.mode, arguments.now);
    op.end_apply();
    return made_attributes(*parent, arguments, fresh, 0);
}

inline constexpr u32 links_max = 1u << 30;

/// Gives an inode another name. Errc::not_permitted for a directory, Errc::overflow if `references`
/// cannot be added to the inode's.
template <class Team>
WARREN_HD Result<Attributes> link(Operation<Team>& op, const Credentials& caller, Handle file,
                                  Handle directory, const char* name, u32 length, u64 references,
                                  i64 now) {
    WARREN_LET(inode, find_inode(op, file));
    const u32 mode = load(op.team, inode->at->mode);
    const u32 links = load(op.team, inode->at->links);
    const u16 flags = load(op.team, inode->at->flags);
    const u64 held = load(op.team, inode->at->references);
    WARREN_TRY(op.confirm(inode->seen));
    WARREN_LET(found, find(op, caller, directory, name, length, may_execute));
    if (found->entry.exists) return Errc::exists;
    if (format::is_directory(mode)) return Errc::not_permitted;
    const bool is_unnamed = links == 0 && (flags & format::flag_unnamed) != 0;
    if (links == 0 && !is_unnamed) return Errc::no_entry;
    if (links >= links_max) return Errc::too_many_links;
    if (!can_count(held, references)) return Errc::overflow;
    WARREN_TRY(check_permission(op, found->directory, caller, may_write));
    WARREN_TRY(plan_link(op, found->directory, found->name, found->entry));
    WARREN_TRY(op.will_write(inode->seen));
    OrphanEntry orphan;
    if (is_unnamed) {
        WARREN_TRY(find_orphan(op, inode->number, orphan));
        if (!orphan.entry.exists) return Errc::corrupt;
        WARREN_TRY(op.will_write(orphan.entry.leaf_seen));
    }

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(link_blocks_max)));
    if (!once(op.team, [&] { return count_entry(found->directory, 1); })) {
        op.cancel_apply();
        return Errc::no_entry;
    }
    if (is_unnamed) apply_unlink(op, orphan.directory, orphan.entry, now);
    once(op.team, [&] {
        relaxed_store(inode->at->links, links + 1);
        relaxed_store(inode->at->flags, static_cast<u16>(flags & ~format::flag_unnamed));
        relaxed_store(inode->at->changed, now);
    });
    op.mark_dirty(inode->block_place());
    apply_link(op, found->directory, found->name, found->entry, inode->number,
               format::entry_type(mode), now);
    if (references != 0) add_references(op, *inode, held, references);
    const Attributes attributes = once(op.team, [&] { return read_attributes(*inode); });
    op.end_apply();
    return attributes;
}

}  // namespace warren::ops

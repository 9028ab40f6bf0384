// SPDX-License-Identifier: Apache-2.0
// chmod, chown, utimensat: all of setattr except the size, which truncate() changes. Permissions,
// and the bits that are cleared implicitly, are as on Linux.
//
// Invariant: the access ACL agrees with the mode bits (see core/acl.hpp), and a file whose owner
// changes keeps neither set-user-id nor capabilities.
#pragma once

#include "fs/ops/attributes.hpp"

namespace warren::ops {

/// A value of new_accessed or new_modified: the time of the call (UTIME_NOW). Write permission
/// suffices to set both times to it.
inline constexpr i64 time_now = -0x7fffffffffffffff - 1;

/// In nanoseconds. A time of change that is older than the stored one by more than this is stored:
/// the clock was set back. One that is older by less is only late.
inline constexpr u64 lateness_max = u64{300} * 1'000'000'000;

/// The times that a change can set.
inline constexpr u32 change_times =
    AttributeChange::accessed | AttributeChange::modified | AttributeChange::changed;
inline constexpr u32 change_owner = AttributeChange::user | AttributeChange::group;

/// Whether a change sets access and modification time to the time of the call, and no other time.
WARREN_HD inline bool is_touch(const AttributeChange& change) {
    return (change.which & change_times) ==
               (AttributeChange::accessed | AttributeChange::modified) &&
           change.new_accessed == time_now && change.new_modified == time_now;
}

/// Errc::not_permitted unless the caller may set the owner and group that the change names.
WARREN_HD inline Errc check_owner_change(const Attributes& old, const Credentials& caller,
                                         const AttributeChange& change) {
    if (caller.is_privileged()) return Errc::ok;
    const bool is_owner = caller.user == old.user;
    if ((change.which & AttributeChange::user) != 0 && (!is_owner || change.new_user != old.user)) {
        return Errc::not_permitted;
    }
    if ((change.which & AttributeChange::group) != 0) {
        const bool is_known = change.new_group == old.group || caller.is_in(change.new_group);
        if (!is_owner || !is_known) return Errc::not_permitted;
    }
    return Errc::ok;
}

/// Errc::ok if the caller may make this change; else Errc::invalid, not_supported, not_permitted or
/// access.
template <class Team>
WARREN_HD Errc check_change(Operation<Team>& op, const InodeRef& inode, const Attributes& old,
                            const Credentials& caller, const AttributeChange& change) {
    const u32 which = change.which;
    if ((which & AttributeChange::size) != 0) return Errc::invalid;
    if ((which & AttributeChange::user) != 0 && change.new_user == acl_id_none) {
        return Errc::invalid;
    }
    if ((which & AttributeChange::group) != 0 && change.new_group == acl_id_none) {
        return Errc::invalid;
    }
    const bool is_link = format::is_symlink(old.mode);
    if ((which & AttributeChange::mode) != 0 && is_link) return Errc::not_supported;
    WARREN_TRY(check_owner_change(old, caller, change));
    if (caller.owns(old.user)) return Errc::ok;
    if ((which & AttributeChange::mode) != 0) return Errc::not_permitted;
    if ((which & change_times) == 0) return Errc::ok;
    return is_touch(change) ? check_permission(op, inode, caller, may_write) : Errc::not_permitted;
}

/// The mode after the change. A caller without privileges that is not in the file's group cannot
/// set the set-group-id bit, and a change of owner clears set-user-id and set-group-id unless the
/// inode is a directory.
WARREN_HD inline u32 changed_mode(const Attributes& old, const Credentials& caller,
                                  const AttributeChange& change) {
    if ((change.which & AttributeChange::mode) != 0) {
        const bool moves_group = (change.which & AttributeChange::group) != 0;
        const u32 group = moves_group ? change.new_group : old.group;
        u32 bits = change.new_mode & format::mode_bits;
        if (!caller.may_set_setgid(group)) bits &= ~format::mode_setgid;
        return (old.mode & ~format::mode_bits) | bits;
    }
    if ((change.which & change_owner) == 0 || format::is_directory(old.mode)) return old.mode;
    u32 mode = old.mode & ~format::mode_setuid;
    // Without the group's execute bit, set-group-id gives a program no privilege.
    if ((mode & 010) != 0 || !caller.may_set_setgid(old.group)) mode &= ~format::mode_setgid;
    return mode;
}

/// The attributes of an inode after the change; `old` are those before.
WARREN_HD inline Attributes changed_attributes(const Attributes& old, const Credentials& caller,
                                               const AttributeChange& change, i64 now) {
    Attributes out = old;
    const auto time = [&](i64 wanted, i64 had) {
        return wanted == time_now ? now : wanted == time_kept ? had : wanted;
    };
    out.mode = changed_mode(old, caller, change);
    if ((change.which & AttributeChange::user) != 0) out.user = change.new_user;
    if ((change.which & AttributeChange::group) != 0) out.group = change.new_group;
    if ((change.which & AttributeChange::accessed) != 0) {
        out.accessed = time(change.new_accessed, old.accessed);
    }
    if ((change.which & AttributeChange::modified) != 0) {
        out.modified = time(change.new_modified, old.modified);
    }
    const bool says_changed = (change.which & AttributeChange::changed) != 0;
    const i64 changed = says_changed ? time(change.new_changed, old.changed) : now;
    // The caller took its time before other changes were applied; or the kernel sends times that it
    // has cached for some seconds. Such a late time does not replace a newer one.
    const bool is_late = changed < old.changed &&
                         static_cast<u64>(old.changed) - static_cast<u64>(changed) <= lateness_max;
    if (!is_late) out.changed = changed;
    return out;
}

/// What a change of mode or owner changes in the attribute block.
struct BesideChange {
    AttributeBlock* block = nullptr;  // the block of the access ACL
    u64 place = 0;
    AttributeRecord acl;  // the access ACL, which gets the new mode
    AttributeEdit edit;   // removes the file's capabilities
    AttributeName capability;
};

template <class Team>
WARREN_HD Errc plan_beside(Operation<Team>& op, const InodeRef& inode, u32 mode,
                           const AttributeChange& change, BesideChange& beside) {
    if ((change.which & change_owner) != 0 && !format::is_directory(mode)) {
        beside.capability = {"security.capability", 19, AttributeSpace::security};
        WARREN_LET(edit, plan_edit(op, inode, beside.capability, 0, AttributeSet::any));
        beside.edit = *edit;
    }
    if ((change.which & AttributeChange::mode) == 0) return Errc::ok;
    WARREN_LET(block, attribute_block(op, inode));
    if (*block == nullptr) return Errc::ok;
    beside.block = *block;
    beside.place = attribute_place(op, inode);
    beside.acl =
        once(op.team, [&] { return find_record(**block, acl_access_name, acl_access_length); });
    return op.confirm(inode.seen);
}

template <class Team>
WARREN_HD void apply_beside(Operation<Team>& op, const InodeRef& inode, u32 mode,
                            const BesideChange& beside) {
    if (beside.acl.offset != attribute_none) {
        once(op.team, [&] { store_acl_mode(*beside.block, beside.acl, mode); });
        op.mark_dirty(beside.place);
    }
    if (beside.edit.has_old()) {
        apply_edit(op, inode, beside.edit, beside.capability, false, nullptr, 0);
    }
}

/// Writes the attributes of an inode after a change. One lane, within apply.
WARREN_HD inline void store_attributes(const InodeRef& inode, const Attributes& wanted, u32 which) {
    Inode& at = *inode.at;
    relaxed_store(at.mode, wanted.mode);
    relaxed_store(at.user, wanted.user);
    relaxed_store(at.group, wanted.group);
    if ((which & AttributeChange::accessed) != 0) relaxed_store(at.accessed, wanted.accessed);
    if ((which & AttributeChange::modified) != 0) relaxed_store(at.modified, wanted.modified);
    relaxed_store(at.changed, wanted.changed);
}

/// Changes mode, owner, group and times; returns the attributes after that. Requires: `change` does
/// not name the size.
template <class Team>
WARREN_HD Result<Attributes> set_attributes(Operation<Team>& op, const Credentials& caller,
                                            Handle handle, const AttributeChange& change, i64 now) {
    WARREN_LET(inode, find_inode(op, handle));
    const Result<Attributes> old = attributes_of(op, *inode);
    if (!old || change.which == 0) return old;
    WARREN_TRY(check_change(op, *inode, *old, caller, change));
    const Attributes wanted = changed_attributes(*old, caller, change, now);
    BesideChange beside;
    WARREN_TRY(plan_beside(op, *inode, wanted.mode, change, beside));

    WARREN_TRY(op.will_write(inode->seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(edit_blocks_max)));
    apply_beside(op, *inode, wanted.mode, beside);
    once(op.team, [&] {
        store_attributes(*inode, wanted, change.which);
        const bool is_directory = format::is_directory(old->mode);
        const bool moves_rights =
            wanted.mode != old->mode || wanted.user != old->user || wanted.group != old->group;
        if (is_directory && moves_rights) note_rights_change(op.store, inode->block_place());
    });
    op.mark_dirty(inode->block_place());
    const Attributes after = once(op.team, [&] { return read_attributes(*inode); });
    op.end_apply();
    return after;
}

}  // namespace warren::ops

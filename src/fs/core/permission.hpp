// SPDX-License-Identifier: Apache-2.0
// Access rights: mode bits, POSIX access control lists, sticky directories, the privileges of user
// 0. The rules are those of POSIX 1003.1e draft 17 as Linux applies them.
#pragma once

#include "fs/core/attribute_block.hpp"

namespace warren::core {

inline constexpr u32 may_execute = 1;
inline constexpr u32 may_write = 2;
inline constexpr u32 may_read = 4;

inline constexpr u32 groups_max = 65536;  // of a caller, as Linux has it

/// A caller as operations see it; the pointer leads to memory of the engine.
struct Credentials {
    u32 user = 0;
    u32 group = 0;
    const u32* groups = nullptr;
    u32 group_count = 0;
    u32 umask = 0;
    bool check = true;

    WARREN_HD bool is_in(u32 wanted) const {
        if (wanted == group) return true;
        for (u32 i = 0; i < group_count; ++i) {
            if (groups[i] == wanted) return true;
        }
        return false;
    }
    WARREN_HD bool is_root() const { return user == 0; }
    WARREN_HD bool is_privileged() const { return !check || is_root(); }
    /// Whether the caller acts as the owner of a file of `owner`.
    WARREN_HD bool owns(u32 owner) const { return is_privileged() || user == owner; }
    /// Whether a file of `group` may get the set-group-id bit from the caller.
    WARREN_HD bool may_set_setgid(u32 group_of_file) const {
        return is_privileged() || is_in(group_of_file);
    }
};

enum AclTag : u32 {
    acl_user_object = 0x01,
    acl_user = 0x02,
    acl_group_object = 0x04,
    acl_group = 0x08,
    acl_mask = 0x10,
    acl_other = 0x20,
};

struct AclEntry {
    u32 tag;
    u32 permissions;
    u32 id;
};

inline constexpr const char* acl_access_name = "system.posix_acl_access";
inline constexpr const char* acl_default_name = "system.posix_acl_default";
inline constexpr u32 acl_access_length = 23;
inline constexpr u32 acl_default_length = 24;

/// Entry `index` of the ACL in `record` (Linux's xattr form: u32 version, then u16 u16 u32 each).
WARREN_HD inline AclEntry acl_entry(const AttributeBlock& block, const AttributeRecord& record,
                                    u32 index) {
    const u32 at = record.value_offset() + 4 + index * 8;
    const auto byte = [&](u32 i) { return read_byte(block, at + i); };
    return {byte(0) | byte(1) << 8, byte(2) | byte(3) << 8,
            byte(4) | byte(5) << 8 | byte(6) << 16 | byte(7) << 24};
}

WARREN_HD inline u32 acl_count(const AttributeRecord& record) {
    return record.value_length < 4 ? 0 : (record.value_length - 4) / 8;
}

/// The permission bits that an ACL gives to a caller who is not the owner. One lane.
WARREN_HD inline bool acl_allows(const AttributeBlock& block, const AttributeRecord& record,
                                 const Credentials& caller, u32 owning_group, u32 wanted) {
    u32 mask = 7;
    u32 other = 0;
    bool in_some_group = false;
    bool group_allows = false;
    u32 user_bits = 0;
    bool is_named = false;
    for (u32 i = 0; i < acl_count(record); ++i) {
        const AclEntry entry = acl_entry(block, record, i);
        if (entry.tag == acl_mask) mask = entry.permissions;
        if (entry.tag == acl_other) other = entry.permissions;
        if (entry.tag == acl_user && entry.id == caller.user) {
            is_named = true;
            user_bits = entry.permissions;
        }
        const bool mine = (entry.tag == acl_group_object && caller.is_in(owning_group)) ||
                          (entry.tag == acl_group && caller.is_in(entry.id));
        in_some_group = in_some_group || mine;
        group_allows = group_allows || (mine && (entry.permissions & wanted) == wanted);
    }
    if (is_named) return (user_bits & mask & wanted) == wanted;
    if (in_some_group) return group_allows && (mask & wanted) == wanted;
    return (other & wanted) == wanted;
}

/// What the mode bits grant a caller.
struct ModeAnswer {
    bool allows;
    bool yields_to_acl;  // if there is one, it decides
};

/// Whether the mode bits of a file of `user` and `group` let `caller` do `wanted`.
WARREN_HD inline ModeAnswer ask_mode(const Credentials& caller, u32 mode, u32 user, u32 group,
                                     u32 wanted) {
    if (!caller.check) return {true, false};
    if (caller.is_root()) {
        const bool is_directory = (mode & format::type_mask) == format::type_directory;
        const bool refused = (wanted & may_execute) != 0 && !is_directory && (mode & 0111) == 0;
        return {!refused, false};
    }
    if (caller.user == user) return {(mode >> 6 & wanted) == wanted, false};
    const u32 bits = caller.is_in(group) ? mode >> 3 : mode;
    return {(bits & wanted) == wanted, true};
}

/// Errc::access unless `caller` may do `wanted` (read 4, write 2, execute or search 1).
template <class Team>
WARREN_HD Errc check_permission(Operation<Team>& op, const InodeRef& inode,
                                const Credentials& caller, u32 wanted) {
    if (!caller.check) return Errc::ok;
    const u32 mode = load(op.team, inode.at->mode);
    const u32 user = load(op.team, inode.at->user);
    const u32 group = load(op.team, inode.at->group);
    WARREN_TRY(op.confirm(inode.seen));
    const ModeAnswer answer = ask_mode(caller, mode, user, group, wanted);
    if (!answer.yields_to_acl) return answer.allows ? Errc::ok : Errc::access;
    const Result<AttributeBlock*> block = attribute_block(op, inode);
    if (!block) return block.code();
    if (*block != nullptr) {
        const u32 verdict = once(op.team, [&] {
            const AttributeRecord acl = find_record(**block, acl_access_name, acl_access_length);
            if (acl.offset == attribute_none) return 2u;
            return acl_allows(**block, acl, caller, group, wanted) ? 1u : 0u;
        });
        WARREN_TRY(op.confirm(inode.seen));
        if (verdict != 2) return verdict == 1 ? Errc::ok : Errc::access;
    }
    return answer.allows ? Errc::ok : Errc::access;
}

// Whether a caller may remove a whole tree is checked before the tree loses its name, and must
// still hold then. StoreState::rights_changes counts all events that may reduce a user's rights in
// a directory, or put a directory with fewer rights below another one: a change of a directory's
// mode, owner, group or ACL; a rename of a directory, which may move it to a position that a
// listing of its parent has already passed; a new directory that grants_less() than its parent.
// While the count does not change, a caller that may read, write and search all directories of a
// tree, none of them sticky for him, may do so in all directories that are added.

/// Counts such a change. One lane, within apply, which locks what readers of the rights read: so a
/// caller that sees the new count finds the change made or its place locked.
WARREN_HD inline void note_rights_change(const Store& store) {
    device_atomic<u64>(store.state->rights_changes).fetch_add(1, hd::memory_order_relaxed);
}

/// How many changes there were. One lane. Acquire: what is read afterwards is at least as new.
WARREN_HD inline u64 rights_changes(const Store& store) {
    return device_atomic<u64>(store.state->rights_changes).load(hd::memory_order_acquire);
}

/// What the check of a tree before its removal requires.
enum class TreeCheck : u8 {
    as_rm,  // what `rm -r` needs: no rights in empty directories, only the caller's entries in
            // sticky ones
    whole,  // all rights in all directories, none of them sticky for the caller
};

/// Whether a caller may lack a right in the new directory `child` that he has in its parent.
WARREN_HD inline bool grants_less(const format::Inode& child, const format::Inode& parent) {
    const u32 mode = relaxed_load(child.mode);
    const u32 taken = relaxed_load(parent.mode) & ~mode & 0777;
    const bool has_acl =
        relaxed_load(child.attributes.raw) != 0 || relaxed_load(parent.attributes.raw) != 0;
    return taken != 0 || (mode & format::mode_sticky) != 0 || has_acl ||
           relaxed_load(child.user) != relaxed_load(parent.user) ||
           relaxed_load(child.group) != relaxed_load(parent.group);
}

/// Whether a directory of this mode and owner is a sticky one in which `caller` may remove and
/// rename only what he owns.
WARREN_HD inline bool must_own_entries(const Credentials& caller, u32 mode, u32 user) {
    return (mode & format::mode_sticky) != 0 && !caller.owns(user);
}

/// Whether a sticky directory keeps `caller` from removing or renaming an entry of `owner`.
template <class Team>
WARREN_HD Errc check_sticky(Operation<Team>& op, const InodeRef& directory,
                            const Credentials& caller, u32 owner) {
    if (caller.is_privileged()) return Errc::ok;
    const u32 mode = load(op.team, directory.at->mode);
    const u32 user = load(op.team, directory.at->user);
    WARREN_TRY(op.confirm(directory.seen));
    const bool is_bound = must_own_entries(caller, mode, user) && !caller.owns(owner);
    return is_bound ? Errc::not_permitted : Errc::ok;
}

}  // namespace warren::core

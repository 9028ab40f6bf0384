// SPDX-License-Identifier: Apache-2.0
// Access rights: mode bits, POSIX access control lists, sticky directories, the privileges of user
// 0. The rules are those of POSIX 1003.1e draft 17 as Linux applies them.
#pragma once

#include "fs/core/attribute_block.hpp"
#include "fs/core/change_marks.hpp"

namespace warren::core {

inline constexpr u32 may_execute = 1;
inline constexpr u32 may_write = 2;
inline constexpr u32 may_read = 4;

inline constexpr u32 groups_max = 65536;  // groups of one caller, as on Linux

/// A caller's identity; `groups` points to memory of the engine.
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
    /// Whether the caller may act as the owner of a file that `owner` owns.
    WARREN_HD bool owns(u32 owner) const { return is_privileged() || user == owner; }
    /// Whether the caller may set the set-group-id bit of a file of this group.
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

inline constexpr u32 acl_header_bytes = 4;
inline constexpr u32 acl_entry_bytes = 8;

/// An ACL in a record of an attribute block. One lane reads it.
struct AclInBlock {
    const AttributeBlock& block;
    AttributeRecord record;

    WARREN_HD u32 size() const { return record.value_length; }
    WARREN_HD u32 byte(u32 index) const { return read_byte(block, record.value_offset() + index); }
};

// An ACL has the form of Linux's attribute (see core/acl.hpp), wherever its bytes are.

template <class Acl>
WARREN_HD u32 acl_word(const Acl& acl, u32 at) {
    return acl.byte(at) | acl.byte(at + 1) << 8 | acl.byte(at + 2) << 16 | acl.byte(at + 3) << 24;
}
template <class Acl>
WARREN_HD u32 acl_count(const Acl& acl) {
    return acl.size() < acl_header_bytes ? 0 : (acl.size() - acl_header_bytes) / acl_entry_bytes;
}
template <class Acl>
WARREN_HD AclEntry acl_entry(const Acl& acl, u32 index) {
    const u32 at = acl_header_bytes + index * acl_entry_bytes;
    const u32 head = acl_word(acl, at);
    return {head & 0xffff, head >> 16, acl_word(acl, at + 4)};
}

/// Whether an ACL grants `wanted` to a caller that is not the owner. One lane.
WARREN_HD inline bool acl_allows(const AclInBlock& acl, const Credentials& caller, u32 owning_group,
                                 u32 wanted) {
    u32 mask = 7;
    u32 other = 0;
    bool in_some_group = false;
    bool group_allows = false;
    u32 user_bits = 0;
    bool is_named = false;
    for (u32 i = 0; i < acl_count(acl); ++i) {
        const AclEntry entry = acl_entry(acl, i);
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

/// What the mode bits alone grant a caller.
struct ModeAnswer {
    bool allows;
    bool yields_to_acl;  // if the file has an ACL, it decides instead
};

/// Whether the mode bits of a file with this owner and group let `caller` do `wanted`.
WARREN_HD inline ModeAnswer ask_mode(const Credentials& caller, u32 mode, u32 user, u32 group,
                                     u32 wanted) {
    if (!caller.check) return {true, false};
    if (caller.is_root()) {
        const bool refused =
            (wanted & may_execute) != 0 && !format::is_directory(mode) && (mode & 0111) == 0;
        return {!refused, false};
    }
    if (caller.user == user) return {(mode >> 6 & wanted) == wanted, false};
    const u32 bits = caller.is_in(group) ? mode >> 3 : mode;
    return {(bits & wanted) == wanted, true};
}

/// Errc::access unless `caller` may do `wanted` (4: read, 2: write, 1: execute or search).
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
    WARREN_LET(block, attribute_block(op, inode));
    if (*block != nullptr) {
        const u32 verdict = once(op.team, [&] {
            const AttributeRecord acl = find_record(**block, acl_access_name, acl_access_length);
            if (acl.offset == attribute_none) return 2u;
            return acl_allows({**block, acl}, caller, group, wanted) ? 1u : 0u;
        });
        WARREN_TRY(op.confirm(inode.seen));
        if (verdict != 2) return verdict == 1 ? Errc::ok : Errc::access;
    }
    return answer.allows ? Errc::ok : Errc::access;
}

// The right of a caller to remove a whole tree is checked before the tree loses its name, and must
// still hold then. StoreState::rights_changes counts all events that may reduce a user's rights in
// a directory, or put a directory with fewer rights below another one: a change of a directory's
// mode, owner, group or ACL; a rename of a directory, which may move it to a position that a
// listing of its parent has already passed; a new directory that grants_less() than its parent.
// While the count does not change, a caller that may read, write and search all directories of a
// tree, none of them sticky for that caller, may do so in all directories that are added to it.

/// Counts such a change, and marks the block at `place`, which the same apply changes. One lane,
/// within apply. Apply holds the locks of what readers of the rights read, so a reader that sees
/// the new count finds either the change or a lock. A replica has no locks: there the mark, which
/// is set first, makes the reader wait for the end of the apply.
WARREN_HD inline void note_rights_change(const Store& store, u64 place) {
    note_changed(store, place);
    // Release: pairs with the acquire in rights_changes(), for the mark.
    device_atomic<u64>(store.state->rights_changes).fetch_add(1, hd::memory_order_release);
}

/// The number of changes so far. One lane. Acquire: later reads see at least what this count saw.
WARREN_HD inline u64 rights_changes(const Store& store) {
    return device_atomic<u64>(store.state->rights_changes).load(hd::memory_order_acquire);
}

/// What a caller needs for the check before the removal of a tree.
enum class TreeCheck : u8 {
    as_rm,  // what `rm -r` needs: no rights in empty directories; in sticky ones the caller owns
            // all entries
    whole,  // all rights in all directories, none of which is sticky for the caller
};

/// Whether a caller may lack a right in the new directory `child` that it has in the parent.
WARREN_HD inline bool grants_less(const format::Inode& child, const format::Inode& parent) {
    const u32 mode = relaxed_load(child.mode);
    const u32 taken = relaxed_load(parent.mode) & ~mode & 0777;
    const bool has_acl =
        relaxed_load(child.attributes.raw) != 0 || relaxed_load(parent.attributes.raw) != 0;
    return taken != 0 || (mode & format::mode_sticky) != 0 || has_acl ||
           relaxed_load(child.user) != relaxed_load(parent.user) ||
           relaxed_load(child.group) != relaxed_load(parent.group);
}

/// Whether a directory with this mode and owner is sticky for `caller`, which may then remove and
/// rename only its own entries there.
WARREN_HD inline bool must_own_entries(const Credentials& caller, u32 mode, u32 user) {
    return (mode & format::mode_sticky) != 0 && !caller.owns(user);
}

/// Errc::not_permitted if a sticky directory keeps `caller` from removing or renaming an entry that
/// `owner` owns.
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

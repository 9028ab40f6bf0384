// SPDX-License-Identifier: Apache-2.0
// The rules for a new inode, for all operations that create one: its group and mode, which depend
// on its directory and its creator, and its first contents.
#pragma once

#include "fs/core/acl.hpp"
#include "fs/core/inode_table.hpp"
#include "fs/core/permission.hpp"
#include "warren/volume.hpp"

namespace warren::ops {

using namespace warren::core;

/// The properties of a directory that a new inode in it depends on.
struct Inherited {
    u32 mode = 0;
    u32 group = 0;
    bool may_have_acl = true;
};

/// The group of a new inode: the directory's if that has the set-group-id bit, else the caller's.
WARREN_HD inline u32 new_group(const Credentials& caller, const Inherited& from) {
    return (from.mode & format::mode_setgid) != 0 ? from.group : caller.group;
}

/// The mode of a new inode of `group`, before an ACL or the umask clears bits. A directory inherits
/// the set-group-id bit.
WARREN_HD inline u32 new_mode(const Credentials& caller, const Inherited& from, u32 group,
                              u32 wanted) {
    if (format::is_directory(wanted)) return wanted | (from.mode & format::mode_setgid);
    return caller.may_set_setgid(group) ? wanted : wanted & ~format::mode_setgid;
}

/// Whether a caller may make an inode of this type: devices need privileges, but not whiteouts
/// (character devices 0/0), as in the Linux kernel.
WARREN_HD constexpr bool may_make(const Credentials& caller, u32 mode, u32 device) {
    const bool is_whiteout = (mode & format::type_mask) == format::type_character && device == 0;
    return !format::is_device(mode) || is_whiteout || caller.is_privileged();
}

/// The mode without the bits of the umask.
WARREN_HD inline u32 masked(const Credentials& caller, u32 mode) {
    return mode & ~(caller.umask & permission_bits);
}

/// The owner, group and mode of a copy of `original`, as `cp -a` preserves them. A caller without
/// privileges becomes the owner, and keeps the original's group only if it is in that group. If
/// owner or group differ from the original's, the set-user-id, set-group-id and sticky bits are
/// cleared.
WARREN_HD inline void take_owner(const Credentials& caller, const Attributes& original, u32& user,
                                 u32& group, u32& mode) {
    const bool keeps_user = caller.owns(original.user);
    const bool keeps_group = caller.may_set_setgid(original.group);
    user = keeps_user ? original.user : caller.user;
    group = keeps_group ? original.group : caller.group;
    mode = original.mode;
    if (!keeps_user || !keeps_group) {
        mode &= ~(format::mode_setuid | format::mode_setgid | format::mode_sticky);
    }
}

/// The attributes of a new inode without contents.
WARREN_HD inline Attributes new_attributes(Handle handle, u32 mode, u32 user, u32 group, u64 parent,
                                           i64 now) {
    const bool is_directory = format::is_directory(mode);
    Attributes out;
    out.handle = handle;
    out.mode = mode;
    out.links = is_directory ? 2 : 1;
    out.user = user;
    out.group = group;
    out.parent = is_directory ? parent : 0;
    out.accessed = now;
    out.modified = now;
    out.changed = now;
    out.born = now;
    return out;
}

/// Writes a new inode; `acl` points to its attribute block, if it has one. Only within apply.
template <class Team>
WARREN_HD void write_new_inode(const Team& team, format::Inode& at, const Attributes& made,
                               format::BlockPointer acl) {
    u64* words = reinterpret_cast<u64*>(&at);
    for (u32 i = team.lane(); i < format::inode_size / 8; i += Team::width)
        relaxed_store(words[i], 0);
    team.sync();
    once(team, [&] {
        const bool is_directory = format::is_directory(made.mode);
        const format::AreaKind kind =
            is_directory ? format::AreaKind::tree : format::AreaKind::bytes;
        relaxed_store(at.generation, made.handle.generation);
        relaxed_store(at.mode, made.mode);
        relaxed_store(at.links, made.links);
        relaxed_store(at.size, made.size);
        relaxed_store(at.blocks, made.blocks);
        relaxed_store(at.parent, made.parent);
        relaxed_store(at.user, made.user);
        relaxed_store(at.group, made.group);
        relaxed_store(at.device, made.device);
        relaxed_store(at.area_kind, static_cast<u8>(kind));
        relaxed_store(at.attributes.raw, acl.raw);
        relaxed_store(at.accessed, made.accessed);
        relaxed_store(at.modified, made.modified);
        relaxed_store(at.changed, made.changed);
        relaxed_store(at.born, made.born);
    });
}

}  // namespace warren::ops

// SPDX-License-Identifier: Apache-2.0
// Cloning one inode: creates an inode with the attributes of another one and, as far as one
// operation can, its contents, which then share their blocks. A tree is cloned inode by inode
// (volume/tree_cloner.hpp).
//
// While this runs, the host keeps other users away from the data of the source.
#pragma once

#include "fs/ops/create.hpp"
#include "fs/ops/share.hpp"

namespace warren::ops {

/// The new inode, and what the clone still lacks.
struct Cloned {
    Handle handle;
    bool lacks_contents = false;    // the caller shares them by share()
    bool lacks_attributes = false;  // extended attributes
};

/// Blocks that clone() marks dirty: the new inode and its name, the counts of the shared blocks,
/// and the list of the source, whose extent gets the flag extent_shared.
inline constexpr u32 clone_blocks_max =
    create_blocks_max + add_references_blocks_max + mark_shared_blocks;
static_assert(clone_blocks_max <= journal_room_min);
static_assert(shared_frames_max + 1 <= reservations_max);

/// The contents of a regular file that one operation can clone: the bytes in its inode, or its only
/// extent.
struct ContentsPlan {
    Spot from;
    InlineBytes bytes;
    FreshCounts fresh;
    bool is_whole = false;

    WARREN_HD bool has_extent() const { return is_whole && from.kind == MappingKind::data; }
};

template <class Team>
WARREN_HD Errc plan_contents(Operation<Team>& op, const InodeRef& source, ContentsPlan& plan) {
    WARREN_LET(file, file_at(op, source));
    if (file->kind == AreaKind::bytes) {
        WARREN_LET(bytes, inline_bytes(op, *file));
        plan.bytes = *bytes;
        plan.is_whole = true;
        return Errc::ok;
    }
    WARREN_LET(from, locate(op, *file, 0));
    const bool is_only = !from->home.is_tree && from->home.list.count == 1;
    if (!is_only || from->kind != MappingKind::data ||
        from->blocks > blocks_in_one_step(from->place)) {
        return Errc::ok;
    }
    plan.from = *from;
    plan.is_whole = true;
    WARREN_TRY(plan_references(op, from->place, from->blocks, plan.fresh));
    return op.will_write(from->home.seen);
}

/// Gives the new inode the planned contents and the size `size`. Only within apply.
template <class Team>
WARREN_HD void apply_contents(Operation<Team>& op, const InodeRef& inode, const ContentsPlan& plan,
                              u64 size) {
    if (!plan.is_whole) return;
    once(op.team, [&] { relaxed_store(inode.at->size, size); });
    if (!plan.has_extent()) {
        once(op.team, [&] {
            for (u32 i = 0; i < format::area_bytes / 8; ++i)
                relaxed_store(inode.at->area.words[i], plan.bytes.words[i]);
        });
        return;
    }
    const Extent extent{0, BlockPointer::to(plan.from.place), static_cast<u32>(plan.from.blocks),
                        format::extent_shared};
    add_references(op, plan.from.place, extent.length, plan.fresh);
    if (!plan.from.is_shared) mark_shared(op, plan.from);
    once(op.team, [&] {
        clear_area(inode, AreaKind::extents);
        write_extent(inode.at->area.extents[0], extent);
        relaxed_store(inode.at->area_count, 1);
        relaxed_store(inode.at->blocks, extent.length);
    });
}

/// The permission that a caller needs to copy a file of this type, as with `cp -a`: every user that
/// can look up a symbolic link or a device may read its target or number.
WARREN_HD constexpr u32 permission_to_copy(u32 mode) {
    if (format::is_directory(mode)) return may_read | may_execute;
    return format::is_regular(mode) ? may_read : 0;
}

/// Creates (directory, name) as a copy of `source`; the copy of a directory is empty. `caller`
/// needs permission only for the source; it also decides which owner the copy gets. `arguments`
/// supplies the target of a symbolic link, the references and the time. Errc::exists if the name
/// exists.
template <class Team>
WARREN_HD Result<Cloned> clone(Operation<Team>& op, const Credentials& caller, Handle source,
                               Handle directory, const char* name, u32 length,
                               const CreateArguments& arguments) {
    WARREN_LET(from, find_inode(op, source));
    WARREN_LET(old, attributes_of(op, *from));
    const bool is_regular = format::is_regular(old->mode);
    const u64 wanted_target = format::is_symlink(old->mode) ? old->size : 0;
    if (arguments.target_length != wanted_target) return Errc::invalid;
    WARREN_TRY(check_permission(op, *from, caller, permission_to_copy(old->mode)));
    if (!may_make(caller, old->mode, old->device)) return Errc::not_permitted;
    ContentsPlan contents;
    if (is_regular) WARREN_TRY(plan_contents(op, *from, contents));
    Cloned cloned;
    cloned.lacks_contents = is_regular && !contents.is_whole && old->size != 0;
    cloned.lacks_attributes = load(op.team, from->at->attributes.raw) != 0;
    WARREN_TRY(op.confirm(from->seen));

    Credentials maker;
    maker.check = false;
    NewName added;
    WARREN_TRY(plan_name(op, maker, directory, name, length, added));
    NewInode fresh;
    take_owner(caller, *old, fresh.user, fresh.group, fresh.inherit.mode);
    WARREN_TRY(reserve_new_inode(op, arguments, fresh));
    CreateArguments made = arguments;
    made.device = old->device;

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(clone_blocks_max)));
    WARREN_TRY(apply_new_name(op, added, made, fresh));
    apply_contents(op, fresh.inode, contents, old->size);
    once(op.team, [&] {
        relaxed_store(fresh.inode.at->accessed, old->accessed);
        relaxed_store(fresh.inode.at->modified, old->modified);
    });
    op.end_apply();
    cloned.handle = fresh.inode.handle();
    return cloned;
}

}  // namespace warren::ops

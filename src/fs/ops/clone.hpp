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

/// The contents that a copy takes over at once: the bytes in the inode, of a file or a symbolic
/// link, or a file's only extent.
struct ContentsPlan {
    Spot from;
    InlineBytes bytes;
    bool is_whole = false;

    WARREN_HD bool has_extent() const { return is_whole && from.kind == MappingKind::data; }
};

/// What the copy of an inode takes over.
struct CopyPlan {
    Attributes old;
    ContentsPlan contents;
    bool lacks_contents = false;    // some contents have to be shared by share()
    bool lacks_attributes = false;  // extended attributes
    bool lacks_target = false;      // that of a symbolic link, which has a block of its own
};

template <class Team>
WARREN_HD Errc plan_bytes(Operation<Team>& op, const File& file, ContentsPlan& plan) {
    WARREN_LET(bytes, inline_bytes(op, file));
    plan.bytes = *bytes;
    plan.is_whole = true;
    return Errc::ok;
}

template <class Team>
WARREN_HD Errc plan_contents(Operation<Team>& op, const InodeRef& source, ContentsPlan& plan) {
    WARREN_LET(file, file_at(op, source));
    if (file->kind == AreaKind::bytes) return plan_bytes(op, *file, plan);
    if (file->kind == AreaKind::tree) return Errc::ok;
    WARREN_LET(from, locate(op, *file, 0));
    if (from->home.list.count != 1 || from->kind != MappingKind::data ||
        from->blocks > blocks_in_one_step(from->place)) {
        return Errc::ok;
    }
    plan.from = *from;
    plan.is_whole = true;
    return Errc::ok;
}

/// Reads what a copy of `source` takes over.
template <class Team>
WARREN_HD Errc plan_copy(Operation<Team>& op, const InodeRef& source, CopyPlan& plan) {
    WARREN_LET(old, attributes_of(op, source));
    plan.old = *old;
    const bool is_regular = format::is_regular(old->mode);
    if (is_regular) WARREN_TRY(plan_contents(op, source, plan.contents));
    if (format::is_symlink(old->mode) && old->size <= format::area_bytes) {
        WARREN_TRY(plan_bytes(op, {source, old->size}, plan.contents));
    }
    plan.lacks_contents = is_regular && !plan.contents.is_whole && old->size != 0;
    plan.lacks_target = format::is_symlink(old->mode) && !plan.contents.is_whole;
    plan.lacks_attributes = load(op.team, source.at->attributes.raw) != 0;
    return op.confirm(source.seen);
}

/// Gives the new inode what a plan has found. Only within apply; the blocks of an extent get their
/// references with `fresh`.
template <class Team>
WARREN_HD void apply_copy(Operation<Team>& op, const InodeRef& inode, const CopyPlan& plan,
                          const FreshCounts& fresh) {
    const ContentsPlan& contents = plan.contents;
    once(op.team, [&] {
        relaxed_store(inode.at->accessed, plan.old.accessed);
        relaxed_store(inode.at->modified, plan.old.modified);
        if (contents.is_whole) relaxed_store(inode.at->size, plan.old.size);
    });
    if (!contents.is_whole) return;
    if (!contents.has_extent()) {
        once(op.team, [&] {
            for (u32 i = 0; i < format::area_bytes / 8; ++i)
                relaxed_store(inode.at->area.words[i], contents.bytes.words[i]);
        });
        return;
    }
    const Spot& from = contents.from;
    const Extent extent{0, BlockPointer::to(from.place), static_cast<u32>(from.blocks),
                        format::extent_shared};
    add_references(op, from.place, extent.length, fresh);
    if (!from.is_shared) mark_shared(op, from);
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

/// Whether `caller` may copy `source`, whose attributes are `old`.
template <class Team>
WARREN_HD Errc may_copy(Operation<Team>& op, const Credentials& caller, const InodeRef& source,
                        const Attributes& old) {
    WARREN_TRY(check_permission(op, source, caller, permission_to_copy(old.mode)));
    return may_make(caller, old.mode, old.device) ? Errc::ok : Errc::not_permitted;
}

/// Creates (directory, name) as a copy of `source`; the copy of a directory is empty. `caller`
/// needs permission only for the source; it also decides which owner the copy gets. `arguments`
/// supplies the target of a symbolic link that is not in its inode, the references and the time.
/// Errc::exists if the name exists.
template <class Team>
WARREN_HD Result<Cloned> clone(Operation<Team>& op, const Credentials& caller, Handle source,
                               Handle directory, const char* name, u32 length,
                               const CreateArguments& arguments) {
    WARREN_LET(from, find_inode(op, source));
    CopyPlan copy;
    WARREN_TRY(plan_copy(op, *from, copy));
    const u64 wanted_target = copy.lacks_target ? copy.old.size : 0;
    if (arguments.target_length != wanted_target) return Errc::invalid;
    WARREN_TRY(may_copy(op, caller, *from, copy.old));
    FreshCounts counts;
    if (copy.contents.has_extent()) {
        const Spot& spot = copy.contents.from;
        WARREN_TRY(plan_references(op, spot.place, spot.blocks, counts));
        WARREN_TRY(op.will_write(spot.home.seen));
    }
    WARREN_TRY(op.confirm(from->seen));

    Credentials maker;
    maker.check = false;
    NewName added;
    WARREN_TRY(plan_name(op, maker, directory, name, length, added));
    NewInode fresh;
    take_owner(caller, copy.old, fresh.user, fresh.group, fresh.inherit.mode);
    WARREN_TRY(reserve_new_inode(op, arguments, fresh));
    CreateArguments made = arguments;
    made.device = copy.old.device;

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(clone_blocks_max)));
    WARREN_TRY(apply_new_name(op, added, made, fresh));
    apply_copy(op, fresh.inode, copy, counts);
    op.end_apply();
    return Cloned{fresh.inode.handle(), copy.lacks_contents, copy.lacks_attributes};
}

}  // namespace warren::ops

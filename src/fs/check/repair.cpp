// SPDX-License-Identifier: Apache-2.0
// Changed trees are written first, then the other inodes, then the bitmaps and the frame table. If
// a repair ends after any of these steps, another one can continue.
#include "fs/check/repair.hpp"

#include <algorithm>
#include <cstring>

#include "fs/check/check_directories.hpp"
#include "fs/disk/block_io.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::AreaKind;
using format::Block;
using format::block_size;
using format::Inode;

namespace {

constexpr char lost_and_found_name[] = "lost+found";

}  // namespace

Errc Repair::run(format::Superblock& superblock) {
    generation_ = superblock.generation + format::generation_margin;
    place_lost();
    WARREN_TRY(rebuild_directories());
    WARREN_TRY(rebuild_files());
    WARREN_TRY(write_inodes());
    WARREN_TRY(write_bitmaps());
    WARREN_TRY(context_.frames.write(transaction_, true));
    context_.frames.fill(superblock);
    superblock.generation = generation_;
    superblock.inodes_used = 0;
    for (u32 ordinal = 0; ordinal < inodes_.count(); ++ordinal) {
        if (inodes_.exists(ordinal)) ++superblock.inodes_used;
    }
    return Errc::ok;
}

/// Gives every inode in context_.lost a name in lost+found.
void Repair::place_lost() {
    if (context_.lost.empty()) return;
    choose_lost_and_found();
    inodes_.set(lost_and_found_, mark_rebuild);
    for (const u32 ordinal : context_.lost) {
        new_names_[lost_and_found_].push_back(
            {"#" + std::to_string(inodes_.number_of(ordinal)), ordinal});
        inodes_.parents[ordinal] = lost_and_found_;
        inodes_.set(ordinal, mark_write);
        if (inodes_.is_directory(ordinal))
            ++inodes_.names[lost_and_found_];
        else
            inodes_.names[ordinal] = 1;
    }
}

/// Sets lost_and_found_: the directory lost+found in the root, a new one if there is none, or the
/// root itself if no inode is free.
void Repair::choose_lost_and_found() {
    std::string arena;
    lost_and_found_ = nobody;
    for (const PackedEntry& entry : collect_names(context_, context_.root, {}, arena)) {
        const u32 target = inodes_.ordinal_of(entry.inode);
        if (entry.name == lost_and_found_name && inodes_.is_directory(target)) {
            lost_and_found_ = target;
        }
    }
    if (lost_and_found_ != nobody) return;
    lost_and_found_ = make_directory();
    if (lost_and_found_ == nobody) {
        lost_and_found_ = context_.root;
        return;
    }
    new_names_[context_.root].push_back({lost_and_found_name, lost_and_found_});
    inodes_.set(context_.root, mark_rebuild);
    ++inodes_.names[context_.root];
}

/// Makes a directory whose parent is the root, without a name yet; `nobody` if no inode is free.
u32 Repair::make_directory() {
    for (u32 ordinal = 0; ordinal < inodes_.count(); ++ordinal) {
        const bool is_slot = ordinal % format::inodes_per_frame >= format::inodes_per_block;
        if (!is_slot || inodes_.statuses[ordinal] != Status::absent) continue;
        inodes_.statuses[ordinal] = Status::sound;
        inodes_.types[ordinal] = InodeMap::directory_type;
        inodes_.parents[ordinal] = context_.root;
        inodes_.marks[ordinal] = mark_placed | mark_anchored | mark_rebuild;
        inodes_.names[ordinal] = 0;
        inodes_.writes_bitmap[ordinal / format::inodes_per_frame] = 1;
        context_.fresh = ordinal;
        return ordinal;
    }
    return nobody;
}

Errc Repair::rebuild_directories() {
    for (u32 ordinal = 0; ordinal < inodes_.count(); ++ordinal) {
        if (!inodes_.exists(ordinal) || !inodes_.has(ordinal, mark_rebuild)) continue;
        const Errc code = rebuild_directory(ordinal);
        // If there is no space, the directory stays as it is, and the next check reports it.
        if (code != Errc::ok && code != Errc::no_space) return code;
    }
    return Errc::ok;
}

Errc Repair::rebuild_directory(u32 ordinal) {
    std::string arena;
    const std::vector<PackedEntry> entries =
        collect_names(context_, ordinal, new_names_[ordinal], arena);
    Inode inode = fixed_inode(ordinal);
    const std::vector<u64> old_blocks = tree_blocks_of(context_, ordinal, inode);
    TreeWriter writer(context_, transaction_);
    PackedTree tree;
    const Handle owner{inodes_.number_of(ordinal), inode.generation};
    WARREN_TRY(pack_directory(entries, owner, writer, tree));
    WARREN_TRY(writer.finish());
    set_root(inode, tree);
    inode.size = tree.blocks * block_size;
    inode.blocks = tree.blocks + (inode.attributes.raw != 0 ? 1 : 0);
    inode.entries = entries.size() | (inode.entries & format::entries_dying);
    return replace_tree(ordinal, inode, old_blocks);
}

/// Writes an inode with a new tree, and then releases the blocks of the old one.
Errc Repair::replace_tree(u32 ordinal, const Inode& inode, const std::vector<u64>& old_blocks) {
    WARREN_TRY(context_.write_inode(ordinal, inode, transaction_));
    WARREN_TRY(context_.disk.flush());
    for (const u64 place : old_blocks)
        context_.frames.release(place, 1);
    inodes_.clear(ordinal, mark_write);
    return Errc::ok;
}

Errc Repair::rebuild_files() {
    for (const auto& [ordinal, plan] : context_.plans) {
        if (!plan.drops_contents || !inodes_.exists(ordinal)) continue;
        const Errc code = rebuild_file(ordinal, plan);
        if (code != Errc::ok && code != Errc::no_space) return code;
    }
    return Errc::ok;
}

Errc Repair::rebuild_file(u32 ordinal, const InodePlan& plan) {
    Inode inode = fixed_inode(ordinal);
    const std::vector<u64> old_blocks = tree_blocks_of(context_, ordinal, inode);
    inode.blocks = inode.attributes.raw != 0 ? 1 : 0;
    for (const format::Extent& extent : plan.extents)
        inode.blocks += extent.length;
    TreeWriter writer(context_, transaction_);
    if (plan.extents.size() <= format::inline_extents_max) {
        start_area(inode, AreaKind::extents, plan.extents.size());
        std::ranges::copy(plan.extents, inode.area.extents);
    } else {
        PackedTree tree;
        const Handle owner{inodes_.number_of(ordinal), inode.generation};
        WARREN_TRY(pack_extents(plan.extents, owner, writer, tree));
        set_root(inode, tree);
        inode.blocks += tree.blocks;
    }
    WARREN_TRY(writer.finish());
    return replace_tree(ordinal, inode, old_blocks);
}

Errc Repair::write_inodes() {
    for (u32 ordinal = 0; ordinal < inodes_.count(); ++ordinal) {
        if (!inodes_.exists(ordinal) || !inodes_.has(ordinal, mark_write)) continue;
        WARREN_TRY(context_.write_inode(ordinal, fixed_inode(ordinal), transaction_));
    }
    return context_.disk.flush();
}

/// The repaired inode, except for its tree or extents.
Inode Repair::fixed_inode(u32 ordinal) {
    Inode inode = context_.usable_inode(ordinal);
    if (ordinal == context_.fresh) {
        inode.generation = next_generation();
        const i64 now = context_.superblock.created;
        inode.accessed = inode.modified = inode.changed = inode.born = now;
    }
    if (inodes_.statuses[ordinal] == Status::damaged) fix_damaged(ordinal, inode);
    if (inodes_.has(ordinal, mark_no_attributes)) inode.attributes = {};
    if (inodes_.is_directory(ordinal)) {
        fix_directory(ordinal, inode);
        return inode;
    }
    inode.links = inodes_.names[ordinal];
    const auto plan = context_.plans.find(ordinal);
    if (plan != context_.plans.end()) inode.blocks = plan->second.blocks;
    if (format::is_regular(inode.mode)) {
        const bool has_bytes = inode.area_kind == static_cast<u8>(AreaKind::bytes);
        inode.size = std::min(inode.size, has_bytes ? format::area_bytes : format::file_size_max);
    } else if (!format::is_symlink(inode.mode)) {
        start_area(inode, AreaKind::bytes);
        inode.size = 0;
    } else if (plan != context_.plans.end() && plan->second.target_bytes != 0) {
        const format::TargetHead head = format::target_head(inode);
        u8 kept[format::area_bytes];
        std::memcpy(kept, head.bytes, plan->second.target_bytes);
        start_area(inode, AreaKind::bytes);
        inode.size = plan->second.target_bytes;
        std::memcpy(inode.area.words, kept, inode.size);
    }
    return inode;
}

u32 Repair::next_generation() {
    do {
        ++generation_;
    } while (static_cast<u32>(generation_) == 0);
    return static_cast<u32>(generation_);
}

/// Makes fields of a damaged inode valid that cannot be derived from other metadata.
void Repair::fix_damaged(u32 ordinal, Inode& inode) {
    const auto plan = context_.plans.find(ordinal);
    if (plan != context_.plans.end() && plan->second.generation != 0) {
        inode.generation = plan->second.generation;
    }
    if (inode.generation == 0) inode.generation = next_generation();
    inode.mode &= format::type_mask | format::mode_bits;
    inode.flags &= format::flag_unnamed;
    inode.zero1 = 0;
    inode.zero2 = 0;
    inode.references = 0;
    inode.size = std::min(inode.size, format::file_size_max);
}

void Repair::fix_directory(u32 ordinal, Inode& inode) {
    const bool is_orphan = inodes_.has(ordinal, mark_orphan);
    if (!is_orphan) inode.links = 2 + (ordinal == context_.orphans ? 0 : inodes_.names[ordinal]);
    if (!is_orphan) inode.entries &= ~format::entries_dying;
    // The parent of an orphan has no meaning. Of directories below an orphan it is set as well,
    // because a check compares it.
    const u32 parent = inodes_.parents[ordinal];
    if (!is_orphan || parent != context_.orphans) inode.parent = inodes_.number_of(parent);
    const auto plan = context_.plans.find(ordinal);
    if (plan == context_.plans.end() || inodes_.has(ordinal, mark_rebuild)) return;
    inode.blocks = plan->second.blocks;
    inode.size = (inode.blocks - (inode.attributes.raw != 0 ? 1 : 0)) * block_size;
    inode.entries = plan->second.entries | (inode.entries & format::entries_dying);
}

Errc Repair::write_bitmaps() {
    for (u32 index = 0; index < inodes_.frames.size(); ++index) {
        const u32 first = index * format::inodes_per_frame;
        Block block{};
        auto& bitmap = reinterpret_cast<format::InodeBitmap&>(block);
        bitmap.used[0] = (u64{1} << format::inodes_per_block) - 1;
        bool is_changed = inodes_.writes_bitmap[index] != 0;
        for (u32 slot = format::inodes_per_block; slot < format::inodes_per_frame; ++slot) {
            const Status status = inodes_.statuses[first + slot];
            if (inodes_.exists(first + slot)) bitmap.used[slot / 64] |= u64{1} << slot % 64;
            is_changed = is_changed || status == Status::unusable;
        }
        if (!is_changed) continue;
        const u64 place = inodes_.frames[index] * format::frame_size;
        WARREN_TRY(write_sealed(context_.disk, place, format::BlockKind::inode_bitmap,
                                context_.volume(), transaction_, block));
    }
    return context_.disk.flush();
}

}  // namespace warren::check

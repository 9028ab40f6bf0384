// SPDX-License-Identifier: Apache-2.0
// Sound files claim their blocks first. Damaged inodes and files with wrong extents come second and
// get the blocks that are left.
#include "fs/check/check_files.hpp"

#include <algorithm>

#include "fs/check/check_extents.hpp"
#include "fs/check/check_trees.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::AreaKind;
using format::Block;
using format::Inode;

namespace {

class FileScan {
 public:
    explicit FileScan(Context& context) : context_(context), inodes_(context.inodes) {}

    void run() {
        for (u32 ordinal = 0; ordinal < inodes_.count(); ++ordinal) {
            if (!inodes_.exists(ordinal) || inodes_.is_directory(ordinal)) continue;
            if (context_.trust(ordinal) == Trust::full)
                scan(ordinal);
            else
                second_.push_back(ordinal);
        }
        for (const u32 ordinal : second_)
            scan(ordinal);
        std::vector<u32> broken;
        for (const u32 ordinal : flawed_) {
            if (inodes_.has(ordinal, mark_broken)) broken.push_back(ordinal);
        }
        std::ranges::sort(broken);
        find_leaves(context_, broken);
        for (const u32 ordinal : flawed_)
            save(ordinal);
    }

 private:
    void scan(u32 ordinal) {
        const Inode inode = context_.usable_inode(ordinal);
        compare_links(ordinal, inode);
        u64 blocks = check_attributes(context_, ordinal, inode);
        const auto kind = static_cast<AreaKind>(inode.area_kind);
        if (format::is_regular(inode.mode)) check_size(ordinal, inode);
        if (format::is_symlink(inode.mode)) {
            blocks += check_target(ordinal, inode);
        } else if (!format::is_regular(inode.mode)) {
            check_special(ordinal, inode);
        } else if (kind == AreaKind::bytes) {
            check_bytes(ordinal, inode);
        } else {
            const ExtentCount count = claim_extents(context_, ordinal, inode);
            if (!count.is_good) {
                release_extents(context_, ordinal, inode, count.extents);
                flawed_.push_back(ordinal);
                return;
            }
            blocks += count.blocks + count.tree_blocks;
        }
        compare_blocks(ordinal, inode, blocks);
    }

    void compare_links(u32 ordinal, const Inode& inode) {
        const u32 names = inodes_.names[ordinal];
        if (inode.links == names || inodes_.has(ordinal, mark_lost)) return;
        context_.wrong(ordinal, "counts " + std::to_string(inode.links) + " links, it has " +
                                    std::to_string(names));
    }

    void compare_blocks(u32 ordinal, const Inode& inode, u64 blocks) {
        if (inode.blocks != blocks) {
            context_.wrong(ordinal, "counts " + std::to_string(inode.blocks) + " blocks, it has " +
                                        std::to_string(blocks));
        }
        if (inodes_.has(ordinal, mark_write)) context_.plans[ordinal].blocks = blocks;
    }

    void check_bytes(u32 ordinal, const Inode& inode) {
        if (inode.size <= format::area_bytes) return;
        context_.wrong(ordinal, "has a size of " + std::to_string(inode.size) +
                                    " but only 128 bytes of contents");
    }

    void check_size(u32 ordinal, const Inode& inode) {
        if (inode.size <= format::file_size_max) return;
        context_.wrong(ordinal, "has a size of " + std::to_string(inode.size) +
                                    ", no file is longer than " +
                                    std::to_string(format::file_size_max));
    }

    void check_special(u32 ordinal, const Inode& inode) {
        if (format::special_is_sound(inode)) return;
        context_.wrong(ordinal, "is no file but says that it has contents");
    }

    /// Checks a link's target. Returns the number of sound blocks that it owns: 0 or 1.
    u64 check_target(u32 ordinal, const Inode& inode) {
        const format::TargetHead head = format::target_head(inode);
        const u32 good = format::bytes_before_nul(head.bytes, head.length);
        const bool is_long = inode.area_kind == static_cast<u8>(AreaKind::target);
        if (good == head.length && (!is_long || claim_rest(ordinal, inode))) return is_long;
        context_.wrong(ordinal, "the end of its target is lost");
        context_.plans[ordinal].target_bytes = good;
        return 0;
    }

    /// Claims the block with the rest of a link's target. False if it is not sound.
    bool claim_rest(u32 ordinal, const Inode& inode) {
        const format::BlockPointer pointer{inode.area.words[0]};
        const auto is_right = [&](const Block& block) {
            const auto& rest = reinterpret_cast<const format::LinkTarget&>(block);
            return rest.length == inode.size - format::target_head_bytes &&
                   format::target_is_sound(rest);
        };
        return claim_own_block(context_, ordinal, inode, pointer, format::BlockKind::link_target,
                               is_right);
    }

    void save(u32 ordinal) {
        InodePlan& plan = context_.plans[ordinal];
        plan.extents = save_extents(context_, ordinal, context_.usable_inode(ordinal));
        plan.drops_contents = true;
        inodes_.set(ordinal, mark_write);
    }

    Context& context_;
    InodeMap& inodes_;
    std::vector<u32> second_;  // damaged inodes
    std::vector<u32> flawed_;  // files with wrong extents
};

}  // namespace

void scan_files(Context& context) {
    FileScan(context).run();
}

}  // namespace warren::check

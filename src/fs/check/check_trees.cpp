// SPDX-License-Identifier: Apache-2.0
// The path from the root is kept in a list of levels instead of on the stack.
#include "fs/check/check_trees.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "fs/core/acl.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::Block;
using format::BlockPointer;
using format::Inode;
using format::TreeNode;
using format::TreePair;

namespace {

/// The owner of the tree, and the identity that its blocks must have.
struct TreeOwner {
    u64 number = 0;
    u32 generation = 0;
    bool takes_any_generation = false;  // the inode is damaged
    bool is_dying = false;              // a directory that is being deleted
    format::BlockKind leaf = format::BlockKind::directory_leaf;
    format::BlockKind node = format::BlockKind::directory_node;
};

TreeOwner tree_owner(const Context& context, u32 ordinal, const Inode& inode) {
    TreeOwner owner;
    owner.number = context.inodes.number_of(ordinal);
    owner.generation = inode.generation;
    owner.takes_any_generation = context.inodes.statuses[ordinal] == Status::damaged;
    if (context.inodes.is_directory(ordinal)) {
        owner.is_dying = (inode.entries & format::entries_dying) != 0;
    } else {
        owner.leaf = format::BlockKind::extent_leaf;
        owner.node = format::BlockKind::extent_node;
    }
    return owner;
}

/// Whether the block has this kind, owner and place and a right CRC.
bool is_sound_block(const Context& context, const Block& block, format::BlockKind kind,
                    const TreeOwner& owner, u64 place) {
    const auto& header = reinterpret_cast<const format::BlockHeader&>(block);
    const u32 generation = owner.takes_any_generation ? header.owner_generation : owner.generation;
    const format::BlockIdentity expected{kind, generation, owner.number};
    return expected.agrees(header) &&
           format::check_block(block, kind, context.volume(), place) == Errc::ok;
}

struct Level {
    u32 count = 0;
    u32 next = 0;
    u32 height = 0;
    u64 high = 0;
    TreePair pairs[format::node_pairs_max];
};

class Walk {
 public:
    Walk(Context& context, const TreeOwner& owner, TreeVisitor& visitor)
        : context_(context), owner_(owner), visitor_(visitor) {}

    void run(const Inode& inode) {
        const bool is_good = format::can_be_root(inode.area_kind, inode.area_count, inode.height) &&
                             (inode.height == 0 || inode.area_count > 0);
        if (!is_good) return visitor_.flaw("the root of its tree makes no sense", true);
        enter(inode.area.pairs, inode.area_count, inode.height, 0, key_end);
        while (!levels_.empty() && !visitor_.is_done()) {
            Level& level = *levels_.back();
            if (level.next == level.count) {
                levels_.pop_back();
                continue;
            }
            const u32 index = level.next++;
            const u64 high = index + 1 < level.count ? level.pairs[index + 1].key : level.high;
            go_down(level.pairs[index], high, level.height);
        }
    }

 private:
    void enter(const TreePair* pairs, u32 count, u32 height, u64 low, u64 high) {
        auto level = std::make_unique<Level>();
        level->count = count;
        level->height = height;
        level->high = high;
        std::memcpy(level->pairs, pairs, count * sizeof *pairs);
        // While a directory is being deleted, a node may have lost its first children, so its first
        // key may be above `low`.
        const bool may_be_late = owner_.is_dying && !levels_.empty();
        bool rises = count == 0 || (pairs[count - 1].key < high &&
                                    (pairs[0].key == low || (may_be_late && pairs[0].key > low)));
        for (u32 i = 1; i < count; ++i)
            rises = rises && pairs[i - 1].key < pairs[i].key;
        if (!rises) visitor_.flaw("keys in its tree are out of order", false);
        levels_.push_back(std::move(level));
    }

    void go_down(TreePair pair, u64 high, u32 height) {
        const u64 place = pair.child.offset();
        if (!format::pointer_is_sound(pair.child, height > 1, context_.superblock.size_bytes)) {
            return visitor_.flaw("a pointer in its tree leads nowhere", true);
        }
        Block block;
        const bool is_read = context_.read(place, block);
        if (height == 1) return go_to_leaf(pair.key, high, place, is_read ? &block : nullptr);
        const auto& node = reinterpret_cast<const TreeNode&>(block);
        const bool is_good =
            is_read && is_sound_block(context_, block, owner_.node, owner_, place) &&
            node.count >= 1 && node.count <= format::node_pairs_max && node.height == height - 1;
        if (!is_good) {
            visitor_.flaw("the tree node at " + std::to_string(place) + " is damaged", true);
        } else if (!visitor_.take(place)) {
            visitor_.flaw("the tree node at " + std::to_string(place) + " is not its own", true);
        } else {
            enter(node.pairs, node.count, node.height, pair.key, high);
        }
    }

    void go_to_leaf(u64 low, u64 high, u64 place, const Block* block) {
        TreeLeaf leaf{place, low, high, false, block};
        leaf.is_sound =
            block != nullptr && is_sound_block(context_, *block, owner_.leaf, owner_, place);
        if (leaf.is_sound && !visitor_.take(place)) {
            visitor_.flaw("the leaf at " + std::to_string(place) + " is not its own", true);
        } else {
            visitor_.leaf(leaf);
        }
    }

    Context& context_;
    const TreeOwner owner_;
    TreeVisitor& visitor_;
    std::vector<std::unique_ptr<Level>> levels_;
};

}  // namespace

void walk_tree(Context& context, u32 ordinal, const Inode& inode, TreeVisitor& visitor) {
    Walk(context, tree_owner(context, ordinal, inode), visitor).run(inode);
}

bool claim_own_block(Context& context, u32 ordinal, const Inode& inode, BlockPointer pointer,
                     format::BlockKind kind, const std::function<bool(const Block&)>& is_right) {
    const u64 place = pointer.offset();
    Block block;
    return format::pointer_is_sound(pointer, false, context.superblock.size_bytes) &&
           context.read(place, block) &&
           is_sound_block(context, block, kind, tree_owner(context, ordinal, inode), place) &&
           is_right(block) &&
           context.frames.claim(place, 1, FrameKind::metadata, context.trust(ordinal)) == 1;
}

u64 check_attributes(Context& context, u32 ordinal, const Inode& inode) {
    if (inode.attributes.raw == 0) return 0;
    const auto is_right = [](const Block& block) {
        return core::attributes_are_sound(reinterpret_cast<const format::AttributeBlock&>(block));
    };
    const auto kind = format::BlockKind::attributes;
    if (claim_own_block(context, ordinal, inode, inode.attributes, kind, is_right)) return 1;
    context.wrong(ordinal, "its extended attributes are damaged");
    context.inodes.set(ordinal, mark_no_attributes);
    return 0;
}

void find_leaves(Context& context, const std::vector<u32>& owners) {
    if (owners.empty()) return;
    std::vector<OwnedLeaf> found;
    context.frames.for_each_unowned_metadata([&](u64 place) {
        Block block;
        if (!context.read(place, block)) return;
        const auto& header = reinterpret_cast<const format::BlockHeader&>(block);
        const u32 ordinal = context.inodes.ordinal_of(header.owner);
        if (ordinal == nobody || !std::ranges::binary_search(owners, ordinal)) return;
        const TreeOwner owner = tree_owner(context, ordinal, context.usable_inode(ordinal));
        if (is_sound_block(context, block, owner.leaf, owner, place)) {
            found.push_back({ordinal, place});
        }
    });
    for (const OwnedLeaf& leaf : found) {
        if (context.frames.claim(leaf.place, 1, FrameKind::metadata, Trust::full) == 1) {
            context.found_leaves.push_back(leaf);
        }
    }
    std::ranges::sort(context.found_leaves);
}

std::span<const OwnedLeaf> found_leaves_of(const Context& context, u32 ordinal) {
    const auto range =
        std::ranges::equal_range(context.found_leaves, ordinal, {}, &OwnedLeaf::owner);
    return {range.begin(), range.end()};
}

}  // namespace warren::check

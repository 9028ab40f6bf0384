// SPDX-License-Identifier: Apache-2.0
// The tree is built level by level. A level is the list of pairs that lead to its blocks.
#include "fs/check/pack_tree.hpp"

#include <algorithm>

#include "fs/core/directory_leaf.hpp"
#include "team/team.hpp"

namespace warren::check {

using format::Block;
using format::BlockKind;
using format::BlockPointer;
using format::DirectoryLeaf;
using format::Extent;
using format::ExtentLeaf;
using format::TreeNode;
using format::TreePair;

namespace {

class Packing {
 public:
    Packing(Handle owner, BlockSink& sink, PackedTree& tree)
        : owner_(owner), sink_(sink), tree_(tree) {}

    /// Finishes a leaf or node: allocates its place and adds its pair to `level`.
    Errc put(Block& block, BlockKind kind, u64 key, std::vector<TreePair>& level) {
        WARREN_LET(place, sink_.allocate());
        core::start_header(reinterpret_cast<format::BlockHeader&>(block),
                           {kind, owner_.generation, owner_.inode});
        const bool is_node = kind == BlockKind::directory_node || kind == BlockKind::extent_node;
        // The first pair of a level has key 0, so keys below the first entry lead to it as well.
        level.push_back({level.empty() ? 0 : key, BlockPointer::to(*place, is_node)});
        ++tree_.blocks;
        return sink_.put(*place, block);
    }

    /// Builds nodes over `level` until its pairs fit into the root.
    Errc build(std::vector<TreePair> level, BlockKind kind, const PackLimits& limits) {
        tree_.height = level.empty() ? 0 : 1;
        while (level.size() > limits.root_pairs) {
            std::vector<TreePair> above;
            for (std::size_t first = 0; first < level.size(); first += limits.node_pairs) {
                Block block{};
                auto& node = reinterpret_cast<TreeNode&>(block);
                const std::size_t count =
                    std::min<std::size_t>(level.size() - first, limits.node_pairs);
                node.count = static_cast<u32>(count);
                node.height = tree_.height;
                std::copy_n(level.begin() + static_cast<std::ptrdiff_t>(first), count, node.pairs);
                WARREN_TRY(put(block, kind, level[first].key, above));
            }
            level = std::move(above);
            ++tree_.height;
        }
        tree_.count = static_cast<u32>(level.size());
        std::ranges::copy(level, tree_.pairs);
        return Errc::ok;
    }

 private:
    const Handle owner_;
    BlockSink& sink_;
    PackedTree& tree_;
};

}  // namespace

Errc pack_directory(std::span<const PackedEntry> entries, Handle owner, BlockSink& sink,
                    PackedTree& tree, const PackLimits& limits) {
    Packing packing(owner, sink, tree);
    std::vector<TreePair> level;
    for (std::size_t next = 0; next < entries.size();) {
        Block block{};
        auto& leaf = reinterpret_cast<DirectoryLeaf&>(block);
        const u64 first_key = entries[next].key;
        for (; next < entries.size() && leaf.count < limits.leaf_entries; ++next) {
            const PackedEntry& entry = entries[next];
            const core::Name name{entry.name.data(), static_cast<u32>(entry.name.size())};
            if (!core::read_counts(leaf).have_room(name.length)) break;
            core::insert_in_leaf(ThreadTeam{}, leaf, name, entry.key, entry.inode, entry.type);
        }
        WARREN_TRY(packing.put(block, BlockKind::directory_leaf, first_key, level));
    }
    return packing.build(std::move(level), BlockKind::directory_node, limits);
}

Errc pack_extents(std::span<const Extent> extents, Handle owner, BlockSink& sink, PackedTree& tree,
                  const PackLimits& limits) {
    Packing packing(owner, sink, tree);
    std::vector<TreePair> level;
    for (std::size_t first = 0; first < extents.size(); first += limits.leaf_extents) {
        Block block{};
        auto& leaf = reinterpret_cast<ExtentLeaf&>(block);
        const std::size_t count =
            std::min<std::size_t>(extents.size() - first, limits.leaf_extents);
        leaf.count = static_cast<u32>(count);
        std::ranges::copy(extents.subspan(first, count), leaf.extents);
        WARREN_TRY(packing.put(block, BlockKind::extent_leaf, extents[first].file_block, level));
    }
    return packing.build(std::move(level), BlockKind::extent_node, limits);
}

void start_area(format::Inode& inode, format::AreaKind kind, u64 count, u32 height) {
    std::ranges::fill(inode.area.words, 0);
    inode.area_kind = static_cast<u8>(kind);
    inode.area_count = static_cast<u16>(count);
    inode.height = static_cast<u8>(height);
}

void set_root(format::Inode& inode, const PackedTree& tree) {
    start_area(inode, format::AreaKind::tree, tree.count, tree.height);
    std::ranges::copy(tree.pairs, inode.area.pairs);
}

}  // namespace warren::check

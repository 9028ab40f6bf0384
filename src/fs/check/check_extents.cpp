// SPDX-License-Identifier: Apache-2.0
// Of a sound file only one leaf at a time is in memory, however many extents it has. Extents are
// collected in memory only of a damaged file, after all sound files have claimed their blocks.
#include "fs/check/check_extents.hpp"

#include <algorithm>

#include "fs/check/check_trees.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::Block;
using format::block_size;
using format::Extent;
using format::ExtentLeaf;
using format::Inode;

namespace {

/// Claims the blocks of an extent; returns for how many of them, from the first, it succeeded.
u64 claim_blocks(Context& context, const Extent& extent, Trust trust) {
    const u64 place = extent.start.offset();
    if (format::is_shared(extent)) return context.frames.claim_shared(place, extent.length, trust);
    return context.frames.claim(place, extent.length, FrameKind::data, trust);
}

/// Calls extent() with each extent of a file and the range of keys in which it must lie.
class ExtentReader : public TreeVisitor {
 public:
    ExtentReader(Context& context, u32 ordinal) : context_(context), ordinal_(ordinal) {}

    void run(const Inode& inode) {
        const u64 size = std::min(inode.size, format::file_size_max);
        end_of_file_ = (size + block_size - 1) / block_size;
        const auto kind = static_cast<format::AreaKind>(inode.area_kind);
        if (kind == format::AreaKind::tree) {
            walk_tree(context_, ordinal_, inode, *this);
        } else if (kind == format::AreaKind::extents &&
                   inode.area_count <= format::inline_extents_max) {
            hand_out(inode.area.extents, inode.area_count, 0, key_end);
        } else {
            flaw("its extents make no sense", true);
        }
    }

    void leaf(const TreeLeaf& leaf) final {
        if (!leaf.is_sound) {
            flaw("the extent leaf at " + std::to_string(leaf.place) + " is damaged", true);
            return;
        }
        const auto& content = reinterpret_cast<const ExtentLeaf&>(*leaf.block);
        if (context_.trust(ordinal_) == Trust::little) {
            context_.plans[ordinal_].generation = content.header.owner_generation;
        }
        if (content.count > format::leaf_extents_max) {
            flaw("the extent leaf at " + std::to_string(leaf.place) + " contradicts itself", false);
            return;
        }
        hand_out(content.extents, content.count, leaf.low, leaf.high);
    }

 protected:
    virtual void extent(const Extent& extent, u64 low, u64 high) = 0;

    /// Whether the extent lies behind the end of the file and is not marked unwritten. It must be,
    /// because a file that grows over it must read as zeros there.
    bool is_behind_end(const Extent& extent) const {
        return extent.file_block >= end_of_file_ && !format::is_unwritten(extent);
    }

    Context& context_;
    const u32 ordinal_;

 private:
    void hand_out(const Extent* extents, u32 count, u64 low, u64 high) {
        for (u32 i = 0; i < count && !is_done(); ++i)
            extent(extents[i], low, high);
    }

    u64 end_of_file_ = 0;
};

class Claiming final : public ExtentReader {
 public:
    using ExtentReader::ExtentReader;
    ExtentCount count;

    bool take(u64 place) override {
        ++count.tree_blocks;
        return context_.frames.claim(place, 1, FrameKind::metadata, context_.trust(ordinal_)) == 1;
    }
    void flaw(const std::string& text, bool loses) override {
        context_.problem(ordinal_, text);
        if (loses) context_.inodes.set(ordinal_, mark_broken);
        count.is_good = false;
    }
    bool is_done() const override { return !count.is_good; }

 protected:
    void extent(const Extent& extent, u64 low, u64 high) override {
        const std::string what = "the extent at its block " + std::to_string(extent.file_block);
        if (!format::extent_is_sound(extent, context_.superblock.size_bytes)) {
            flaw(what + " makes no sense", false);
        } else if (extent.file_block < std::max(low, end_) ||
                   extent.file_block + extent.length > high) {
            flaw(what + " is out of order", false);
        } else if (is_behind_end(extent)) {
            flaw(what + " lies behind its end but is not marked unwritten", false);
        } else {
            claim(extent, what);
        }
    }

 private:
    void claim(const Extent& extent, const std::string& what) {
        const u64 place = extent.start.offset();
        const u64 won = claim_blocks(context_, extent, context_.trust(ordinal_));
        if (won < extent.length) {
            context_.frames.release(place, won);
            flaw(what + " holds blocks that are not its own", false);
            return;
        }
        end_ = extent.file_block + extent.length;
        ++count.extents;
        count.blocks += extent.length;
    }

    u64 end_ = 0;
};

class Releasing final : public ExtentReader {
 public:
    Releasing(Context& context, u32 ordinal, u64 count)
        : ExtentReader(context, ordinal), left_(count) {}
    bool is_done() const override { return left_ == 0; }

 protected:
    void extent(const Extent& extent, u64, u64) override {
        context_.frames.release(extent.start.offset(), extent.length);
        --left_;
    }

 private:
    u64 left_;
};

class Saving final : public ExtentReader {
 public:
    using ExtentReader::ExtentReader;
    using ExtentReader::is_behind_end;
    std::vector<Extent> extents;
    u64 refused = 0;

 protected:
    void extent(const Extent& extent, u64, u64) override {
        if (format::extent_is_sound(extent, context_.superblock.size_bytes)) {
            extents.push_back(extent);
        } else {
            ++refused;
        }
    }
};

/// Removes the first `blocks` blocks from an extent.
void drop_front(Extent& extent, u32 blocks) {
    extent.file_block += blocks;
    extent.start = format::BlockPointer::to(extent.start.offset() + u64{blocks} * block_size);
    extent.length -= blocks;
}

/// Claims all blocks of `extent` that can be claimed, and adds an extent for each run of them.
void claim_pieces(Context& context, Extent extent, Trust trust, std::vector<Extent>& kept) {
    while (extent.length > 0) {
        const u32 won = static_cast<u32>(claim_blocks(context, extent, trust));
        if (won > 0) {
            kept.push_back({extent.file_block, extent.start, won, extent.flags});
        }
        drop_front(extent, won < extent.length ? won + 1 : won);
    }
}

u64 blocks_of(const std::vector<Extent>& extents) {
    u64 blocks = 0;
    for (const Extent& extent : extents)
        blocks += extent.length;
    return blocks;
}

}  // namespace

ExtentCount claim_extents(Context& context, u32 ordinal, const Inode& inode) {
    Claiming claiming(context, ordinal);
    claiming.run(inode);
    return claiming.count;
}

void release_extents(Context& context, u32 ordinal, const Inode& inode, u64 count) {
    if (count > 0) Releasing(context, ordinal, count).run(inode);
}

std::vector<Extent> save_extents(Context& context, u32 ordinal, const Inode& inode) {
    Saving saving(context, ordinal);
    saving.run(inode);
    for (const OwnedLeaf& found : found_leaves_of(context, ordinal)) {
        Block block;
        if (!context.read(found.place, block)) continue;
        saving.leaf({found.place, 0, key_end, true, &block});
    }
    std::vector<Extent>& extents = saving.extents;
    std::ranges::stable_sort(extents, {}, &Extent::file_block);
    const u64 wanted = blocks_of(extents);
    std::vector<Extent> kept;
    // Corrupt extents could name far more blocks than the volume has; this bounds the work.
    u64 budget = context.superblock.size_bytes / block_size;
    u64 overlapping = 0;
    u64 first_overlapping = 0;
    for (Extent extent : extents) {
        const u64 end = kept.empty() ? 0 : kept.back().file_block + kept.back().length;
        if (extent.file_block < end) {
            const u64 within = std::min<u64>(end - extent.file_block, extent.length);
            if (overlapping == 0) first_overlapping = extent.file_block;
            overlapping += within;
            drop_front(extent, static_cast<u32>(within));
        }
        if (extent.length > budget) continue;
        budget -= extent.length;
        claim_pieces(context, extent, context.trust(ordinal), kept);
    }
    for (Extent& extent : kept) {
        if (saving.is_behind_end(extent)) extent.flags |= format::extent_unwritten;
    }
    if (overlapping > 0) {
        context.problem(ordinal, "its extents overlap, those that begin first win: blocks lost " +
                                     std::to_string(overlapping) + ", the first of them is " +
                                     std::to_string(first_overlapping));
    }
    const u64 lost = wanted - overlapping - blocks_of(kept);
    if (lost > 0 || saving.refused > 0) {
        context.problem(ordinal, "lost of its contents: blocks " + std::to_string(lost) +
                                     ", extents that make no sense " +
                                     std::to_string(saving.refused));
    }
    return kept;
}

}  // namespace warren::check

// SPDX-License-Identifier: Apache-2.0
// A block is a metadata block if its header says so and its checksum is valid: file contents in
// these tests never look like that.
#include "tests/support/block_history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "fs/format/check_block.hpp"
#include "tests/support/image_builder.hpp"

namespace warren {

using format::Block;
using format::block_size;
using format::BlockHeader;
using format::BlockKind;
using format::FrameKind;
using format::Inode;

namespace {

class MetadataOf {
 public:
    explicit MetadataOf(MemoryDisk& disk) : editor_(disk) {}

    /// The kind of a metadata block at `place`; nullopt if it is something else.
    std::optional<BlockKind> kind_of(const Block& block, u64 place) const {
        const auto& header = reinterpret_cast<const BlockHeader&>(block);
        const format::Superblock& superblock = editor_.superblock();
        const u64 volume = superblock.header.volume;
        const auto kind = static_cast<BlockKind>(header.kind);
        if (format::check_block(block, kind, volume, place) == Errc::ok) return kind;
        const auto* inodes = reinterpret_cast<const Inode*>(&block);
        for (u32 i = 0; i < format::inodes_per_block; ++i) {
            const u64 number = place / format::inode_size + i;
            const bool is_inode =
                inodes[i].generation != 0 && format::inode_is_sound(inodes[i], volume, number);
            if (is_inode) return BlockKind::none;
        }
        return {};
    }

    bool is_in_journal(u64 place) const {
        const format::Superblock& superblock = editor_.superblock();
        return place >= superblock.journal_offset &&
               place < superblock.journal_offset + superblock.journal_blocks * block_size;
    }

    bool is_in_use(u64 place) {
        const format::FrameEntry entry = entry_of(place);
        const u64 bit = place / block_size % format::blocks_per_frame;
        return entry.kind != static_cast<u64>(FrameKind::data) &&
               (entry.used[bit / 64] >> bit % 64 & 1) != 0;
    }

    /// Whether it is a block of inodes that are all removed.
    bool has_no_inode(const Block& block, u64 place) {
        const auto* inodes = reinterpret_cast<const Inode*>(&block);
        return entry_of(place).kind == static_cast<u64>(FrameKind::inodes) &&
               std::all_of(inodes, inodes + format::inodes_per_block,
                           [](const Inode& inode) { return inode.generation == 0; });
    }

    Block now(u64 place) { return editor_.read(place); }

 private:
    format::FrameEntry entry_of(u64 place) {
        const u64 frame = place / format::frame_size;
        const Block block = editor_.read(editor_.superblock().frame_table_offset +
                                         frame / format::frames_per_table_block * block_size);
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
        return table.entries[frame % format::frames_per_table_block];
    }

    test::ImageEditor editor_;
};

bool are_equal(const Block& a, const Block& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

bool is_owned(BlockKind kind) {
    return (kind >= BlockKind::directory_leaf && kind <= BlockKind::attributes) ||
           kind == BlockKind::link_target;
}

std::vector<EarlierContent> earlier_contents(MemoryDisk& disk) {
    MetadataOf volume(disk);
    std::map<u64, std::vector<EarlierContent>> by_place;
    for (u64 i = 0; i < disk.event_count(); ++i) {
        const DiskEvent event = disk.event(i);
        if (event.kind != DiskEventKind::write || event.offset % block_size != 0) continue;
        for (u64 at = 0; at + block_size <= event.bytes.size(); at += block_size) {
            EarlierContent content;
            content.place = event.offset + at;
            if (volume.is_in_journal(content.place)) continue;
            std::memcpy(&content.block, event.bytes.data() + at, block_size);
            const std::optional<BlockKind> kind = volume.kind_of(content.block, content.place);
            if (!kind || !volume.is_in_use(content.place)) continue;
            content.kind = *kind;
            by_place[content.place].push_back(content);
        }
    }
    std::vector<EarlierContent> all;
    for (auto& [place, contents] : by_place) {
        const Block now = volume.now(place);
        const std::optional<BlockKind> kind_now = volume.kind_of(now, place);
        EXPECT_TRUE(kind_now || volume.has_no_inode(now, place))
            << "the last content of the block at " << place << " is none";
        for (u64 i = 0; i < contents.size(); ++i) {
            const bool is_new =
                !are_equal(contents[i].block, now) &&
                std::none_of(contents.begin(), contents.begin() + static_cast<i64>(i),
                             [&](const EarlierContent& other) {
                                 return are_equal(other.block, contents[i].block);
                             });
            if (!is_new) continue;
            contents[i].kind_now = kind_now.value_or(BlockKind::none);
            all.push_back(contents[i]);
        }
    }
    return all;
}

std::optional<EarlierContent> foreign_content(MemoryDisk& disk, u64 place) {
    const Block now = MetadataOf(disk).now(place);
    const auto& header = reinterpret_cast<const BlockHeader&>(now);
    std::optional<EarlierContent> found;
    for (const EarlierContent& content : earlier_contents(disk)) {
        const bool is_foreign = content.place == place && is_owned(content.kind) &&
                                (content.header().owner != header.owner ||
                                 content.header().owner_generation != header.owner_generation);
        if (is_foreign) found = content;
    }
    return found;
}

void put_back(MemoryDisk& disk, const EarlierContent& content) {
    EXPECT_EQ(disk.write(content.place, std::as_bytes(std::span(&content.block, 1))), Errc::ok);
}

}  // namespace warren

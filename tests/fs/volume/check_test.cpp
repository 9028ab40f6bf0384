// SPDX-License-Identifier: Apache-2.0
// A sound volume is clean. Each kind of damage is found without a write, is repaired, and is gone
// afterwards. And no byte of the metadata, changed, makes a check crash, hang or read outside.
#include "fs/volume/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/frame.hpp"
#include "fs/journal/journal.hpp"
#include "fs/volume/check_report.hpp"
#include "fs/volume/make_volume.hpp"
#include "fs/volume/superblock_io.hpp"
#include "support/image_builder.hpp"

namespace warren {
namespace {

using format::Block;
using format::block_size;
using format::BlockPointer;
using format::DirectoryLeaf;
using format::DirectorySlot;
using format::Inode;
using test::ImageBuilder;
using test::ImageEditor;

struct Outcome {
    Failure failure;
    CheckResult result;
    std::vector<std::string> lines;

    bool says(const std::string& text) const {
        return std::ranges::any_of(lines,
                                   [&](const auto& line) { return line.find(text) != line.npos; });
    }
    std::string all() const {
        std::string text = failure.message + "\n";
        for (const std::string& line : lines)
            text += line + "\n";
        return text;
    }
};

Outcome check(Disk& disk, bool repair = false) {
    Outcome outcome;
    CheckOptions options;
    options.repair = repair;
    options.report = [&](const std::string& line) { outcome.lines.push_back(line); };
    outcome.failure = check_disk(disk, "image", options, outcome.result);
    return outcome;
}

void expect_clean(Disk& disk) {
    const Outcome outcome = check(disk);
    EXPECT_EQ(outcome.failure.code, Errc::ok) << outcome.all();
    EXPECT_EQ(outcome.result.problems, 0u) << outcome.all();
}

/// A volume with one of everything, in trees with several levels.
class CheckTest : public testing::Test {
 protected:
    CheckTest() : image(16 * mib) {
        image.limits = {4, 3, 3, 2};
        const u64 root = image.root();
        directory = image.add_directory(root, "directory");
        for (int i = 0; i < 40; ++i) {
            const std::string name = "file-" + std::to_string(i);
            small.push_back(image.add_file(directory, name, "contents of " + name));
        }
        parent = image.add_directory(root, "parent");
        child = image.add_directory(parent, "child");
        grandchild = image.add_directory(child, "grandchild");
        text = image.add_file(root, "text", std::string(1000, 't'));
        image.add_name(directory, "text-again", text);
        sparse = image.add_runs(root, "sparse", 60 * block_size - 5, runs());
        few = image.add_runs(grandchild, "few", 3 * block_size, {{0, 1}, {2, 1}, {9, 2, true}});
        image.add_link(root, "link", "text");
        long_link = image.add_link(root, "long-link", std::string(300, 'l'));
        image.add_node(root, "device", format::type_character | 0600, 1u << 20 | 3);
        image.add_node(parent, "fifo", format::type_fifo | 0600, 0);
        image.set_attribute(text, "user.note", "some value");
        image.set_attribute(text, "user.other", "");
        image.set_attribute(directory, "user.note", std::string(500, 'v'));
        image.add_orphan("unlinked but open");
        image.finish();
    }

    static std::vector<test::Run> runs() {
        std::vector<test::Run> all;
        for (u32 i = 0; i < 20; ++i)
            all.push_back({i * 3, 1 + i % 2, i % 5 == 0});
        return all;
    }
    MemoryDisk& disk() { return image.disk(); }
    ImageEditor editor() { return ImageEditor(disk()); }

    /// The place of the leftmost leaf or, at a height above 0, node of an inode's tree.
    u64 tree_block(u64 number, u32 height) {
        ImageEditor edit = editor();
        const Inode inode = edit.inode(number);
        u64 place = inode.area.pairs[0].child.offset();
        for (u32 at = inode.height - 1u; at > height; --at) {
            const Block block = edit.read(place);
            place = reinterpret_cast<const format::TreeNode&>(block).pairs[0].child.offset();
        }
        return place;
    }

    template <class T>
    void change_block(u64 place, const std::function<void(T&)>& change) {
        ImageEditor edit = editor();
        Block block = edit.read(place);
        change(reinterpret_cast<T&>(block));
        edit.write(place, block);
    }
    void change_inode(u64 number, const std::function<void(Inode&)>& change) {
        ImageEditor edit = editor();
        Inode inode = edit.inode(number);
        change(inode);
        edit.set_inode(number, inode);
    }

    /// Whatever was done to the volume: it is found, nothing is written, it is repaired.
    void expect_found_and_repaired(const std::string& line) {
        disk().start_recording();
        const Outcome found = check(disk());
        EXPECT_EQ(disk().event_count(), 0u) << "a check without repair has written";
        EXPECT_EQ(found.failure.code, Errc::ok) << found.all();
        EXPECT_GT(found.result.problems, 0u);
        EXPECT_TRUE(found.says(line)) << "instead of '" << line << "':\n" << found.all();
        EXPECT_EQ(found.result.repaired, 0u);
        const Outcome repaired = check(disk(), true);
        EXPECT_EQ(repaired.failure.code, Errc::ok) << repaired.all();
        EXPECT_EQ(repaired.result.problems, found.result.problems) << repaired.all();
        EXPECT_EQ(repaired.result.repaired, repaired.result.problems) << repaired.all();
        expect_clean(disk());
    }

    /// Finds `name` in a directory by looking at each of its leaves.
    bool has_name(u64 number, const std::string& name) {
        bool found = false;
        for_each_leaf(number, [&](const DirectoryLeaf& leaf) {
            for (const DirectorySlot slot : leaf.slots) {
                const char* heap = reinterpret_cast<const char*>(leaf.heap);
                found =
                    found || (slot.inode() != 0 &&
                              name == std::string(heap + slot.name_offset(), slot.name_length()));
            }
        });
        return found;
    }
    u64 count_names(u64 number) {
        u64 count = 0;
        for_each_leaf(number, [&](const DirectoryLeaf& leaf) { count += leaf.count; });
        return count;
    }
    void for_each_leaf(u64 number, const std::function<void(const DirectoryLeaf&)>& visit) {
        ImageEditor edit = editor();
        for (u64 place = 0; place < image.superblock().size_bytes; place += block_size) {
            const Block block = edit.read(place);
            const auto& leaf = reinterpret_cast<const DirectoryLeaf&>(block);
            const bool is_leaf =
                leaf.header.kind == static_cast<u16>(format::BlockKind::directory_leaf) &&
                leaf.header.owner == number && leaf.header.place == place;
            if (is_leaf && is_used(edit, place)) visit(leaf);
        }
    }
    bool is_used(ImageEditor& edit, u64 place) {
        const Block block = edit.read(image.superblock().frame_table_offset);
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
        const u64 bit = place / block_size % format::blocks_per_frame;
        return (table.entries[place / format::frame_size].used[bit / 64] >> bit % 64 & 1) != 0;
    }

    ImageBuilder image;
    u64 directory = 0, parent = 0, child = 0, grandchild = 0;
    u64 text = 0, sparse = 0, few = 0, long_link = 0;
    std::vector<u64> small;
};

TEST(Check, FreshVolumesAreClean) {
    for (const u64 size : {16 * mib, 64 * mib, 5 * gib, 200 * gib, 16 * tib}) {
        MemoryDisk disk(size);
        const auto zero = [&](u64 offset, u64 length) { return disk.discard(offset, length); };
        ASSERT_EQ(make_volume_on(disk, "image", size, "label", zero).code, Errc::ok);
        const Outcome outcome = check(disk);
        EXPECT_EQ(outcome.failure.code, Errc::ok) << outcome.all();
        EXPECT_EQ(outcome.result.problems, 0u) << size << outcome.all();
        EXPECT_EQ(outcome.result.inodes, 2u);
        EXPECT_EQ(outcome.result.directories, 2u);
    }
}

TEST(Check, GrownVolumesAreClean) {
    MemoryDisk disk(100 * gib);
    ASSERT_EQ(make_volume_on(disk, "image", 16 * mib, "").code, Errc::ok);
    for (const u64 size : {100 * mib, 15 * gib, 100 * gib}) {
        ASSERT_EQ(grow_volume_on(disk, "image", size).code, Errc::ok);
        expect_clean(disk);
    }
}

TEST(Check, WhatIsNoVolumeIsAFailure) {
    MemoryDisk disk(16 * mib);
    const Outcome outcome = check(disk);
    EXPECT_EQ(outcome.failure.code, Errc::invalid);
    EXPECT_NE(outcome.failure.message.find("image"), std::string::npos);
}

TEST(Check, TextForTerminals) {
    EXPECT_EQ(check::printable("plain n\xc3\xa4me"), "plain n\xc3\xa4me");
    EXPECT_EQ(check::printable("a\nb\\c\x7f"), "a\\012b\\134c\\177");
}

TEST_F(CheckTest, SampleIsClean) {
    const Outcome outcome = check(disk());
    EXPECT_EQ(outcome.result.problems, 0u) << outcome.all();
    EXPECT_EQ(outcome.result.directories, 6u);
    EXPECT_EQ(outcome.result.inodes, 6u + 40 + 3 + 2 + 2 + 1);
    EXPECT_GE(editor().inode(directory).height, 3);
    EXPECT_GE(editor().inode(sparse).height, 2);
}

TEST_F(CheckTest, RepairOfACleanVolumeWritesNothing) {
    disk().start_recording();
    const Outcome outcome = check(disk(), true);
    EXPECT_EQ(outcome.result.problems, 0u) << outcome.all();
    EXPECT_EQ(disk().event_count(), 0u);
}

TEST_F(CheckTest, FirstSuperblock) {
    editor().flip(100);
    expect_found_and_repaired("superblock: the first copy is damaged");
}

TEST_F(CheckTest, SecondSuperblock) {
    editor().flip(format::superblock_copy_offset + 100);
    expect_found_and_repaired("superblock: the second copy is damaged");
}

TEST_F(CheckTest, Counters) {
    Block block;
    auto& superblock = reinterpret_cast<format::Superblock&>(block);
    ASSERT_EQ(read_superblock(disk(), "image", superblock).code, Errc::ok);
    superblock.blocks_used += 1;
    superblock.inodes_used -= 1;
    superblock.metadata_frames_end = 1;
    superblock.data_frames_begin = superblock.frame_count;
    ASSERT_EQ(write_superblock(disk(), superblock, 8, Copies::both), Errc::ok);
    const Outcome outcome = check(disk());
    EXPECT_EQ(outcome.result.problems, 4u) << outcome.all();
    expect_found_and_repaired("superblock: counts");
}

TEST_F(CheckTest, DamagedFrameTable) {
    const u64 names = count_names(directory);
    editor().flip(image.superblock().frame_table_offset + 1000);
    expect_found_and_repaired("frame table: block 0 is damaged");
    EXPECT_EQ(count_names(directory), names);
}

TEST_F(CheckTest, LeakedBlocks) {
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
            const u64 frame = image.superblock().metadata_frames_end - 1;
            table.entries[frame].used[7] |= u64{7} << 61;
        });
    expect_found_and_repaired("3 blocks are in use but belong to nothing");
}

TEST_F(CheckTest, BlocksMarkedFree) {
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
            table.entries[image.superblock().frame_count - 1].used[7] &= ~(u64{1} << 63);
        });
    expect_found_and_repaired("1 blocks are marked free but are in use");
}

TEST_F(CheckTest, FramesOfAWrongKind) {
    for (const u64 kind : {u64{0}, u64{1}, u64{77}}) {
        change_block<format::FrameTableBlock>(
            image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
                table.entries[image.superblock().frame_count - 1].kind = kind;
            });
        expect_found_and_repaired("frame ");
        EXPECT_TRUE(has_name(grandchild, "few"));
    }
}

TEST_F(CheckTest, LostInodeFrame) {
    const u64 frame = image.root() / format::inodes_per_frame;
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset,
        [&](format::FrameTableBlock& table) { table.entries[frame] = {}; });
    expect_found_and_repaired("holds inodes but is marked otherwise");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, DamagedBitmap) {
    const u64 names = count_names(directory);
    editor().flip(image.root() / format::inodes_per_frame * format::frame_size + 100);
    expect_found_and_repaired("inode bitmap is damaged");
    EXPECT_EQ(count_names(directory), names);
    EXPECT_TRUE(has_name(grandchild, "few"));
}

TEST_F(CheckTest, DamagedInodes) {
    for (const u64 number : {small[3], directory, sparse, text, image.root(), image.orphans()}) {
        editor().flip(number * format::inode_size + offsetof(Inode, modified));
        expect_found_and_repaired("its CRC is wrong");
    }
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, DamagedGenerationIsTakenFromTheBlocks) {
    const u32 before = editor().inode(directory).generation;
    editor().flip(directory * format::inode_size + offsetof(Inode, generation), 0x40);
    expect_found_and_repaired("its CRC is wrong");
    EXPECT_EQ(editor().inode(directory).generation, before);
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, HopelessInode) {
    change_inode(small[5], [](Inode& inode) { inode.mode = 0; });
    expect_found_and_repaired("/directory/file-5: has no valid type");
    EXPECT_FALSE(has_name(directory, "file-5"));
}

TEST_F(CheckTest, LostRoot) {
    const u64 names = count_names(image.root());
    change_inode(image.root(), [](Inode& inode) {
        inode = {};
        inode.generation = 9;
    });
    const Inode before = editor().inode(directory);
    expect_found_and_repaired("the root directory is lost");
    // Its leaves say another generation than the inode that is left, so all of it is in lost+found.
    EXPECT_EQ(count_names(image.root()), names);
    EXPECT_EQ(editor().inode(directory).entries, before.entries);
}

TEST_F(CheckTest, Links) {
    change_inode(text, [](Inode& inode) { inode.links = 7; });
    expect_found_and_repaired("/text: counts 7 links, it has 2");
    change_inode(parent, [](Inode& inode) { inode.links = 9; });
    expect_found_and_repaired("/parent: counts 9 links, it has 3");
}

TEST_F(CheckTest, EntriesAndBlocks) {
    change_inode(directory, [](Inode& inode) { inode.entries = 3; });
    expect_found_and_repaired("/directory: counts 3 names, it has 41");
    change_inode(directory, [](Inode& inode) { inode.blocks += 1; });
    expect_found_and_repaired("/directory: counts");
    change_inode(sparse, [](Inode& inode) { inode.blocks += 1; });
    expect_found_and_repaired("/sparse: counts");
    change_inode(small[0], [](Inode& inode) { inode.blocks = 1; });
    expect_found_and_repaired("/directory/file-0: counts 1 blocks, it has 0");
}

TEST_F(CheckTest, ParentPointer) {
    change_inode(child, [&](Inode& inode) { inode.parent = directory; });
    expect_found_and_repaired("/parent/child: says that it lies in another directory");
    EXPECT_EQ(editor().inode(child).parent, parent);
}

TEST_F(CheckTest, DyingDirectory) {
    change_inode(child, [&](Inode& inode) { inode.entries |= format::entries_dying; });
    expect_found_and_repaired("/parent/child: is marked as being removed");
}

TEST_F(CheckTest, EntryForNothing) {
    change_block<DirectoryLeaf>(tree_block(parent, 0),
                                [&](DirectoryLeaf& leaf) { leaf.slots[0].target += 4000; });
    expect_found_and_repaired("names an inode that does not exist");
}

TEST_F(CheckTest, EntryOfAWrongType) {
    change_block<DirectoryLeaf>(
        tree_block(child, 0), [&](DirectoryLeaf& leaf) { leaf.slots[0].target ^= u64{15} << 48; });
    expect_found_and_repaired("'grandchild' is marked as another type than it has");
    EXPECT_TRUE(has_name(child, "grandchild"));
}

TEST_F(CheckTest, EntryUnderAWrongHash) {
    change_block<DirectoryLeaf>(tree_block(child, 0),
                                [&](DirectoryLeaf& leaf) { leaf.hashes[0] ^= 1; });
    expect_found_and_repaired("'grandchild' is filed under a wrong hash");
    EXPECT_TRUE(has_name(child, "grandchild"));
}

TEST_F(CheckTest, RepeatedName) {
    change_block<DirectoryLeaf>(tree_block(parent, 0), [&](DirectoryLeaf& leaf) {
        const u32 to = leaf.count++;
        leaf.slots[to] = leaf.slots[0];
        leaf.hashes[to] = leaf.hashes[0];
        leaf.slots[to].position += u64{1} << 16;
        leaf.heap_live += 8;
    });
    change_inode(parent, [](Inode& inode) { ++inode.entries; });
    expect_found_and_repaired("is there twice");
    EXPECT_EQ(count_names(parent), 2u);
}

TEST_F(CheckTest, DirectoryWithTwoNames) {
    change_block<DirectoryLeaf>(tree_block(directory, 0), [&](DirectoryLeaf& leaf) {
        leaf.slots[0].target = (leaf.slots[0].target & 0xff00000000000000u) | child | u64{4} << 48;
    });
    expect_found_and_repaired("has a second name for the directory");
    EXPECT_EQ(editor().inode(child).parent, parent);
    EXPECT_TRUE(has_name(parent, "child"));
    EXPECT_TRUE(has_name(image.root(), "lost+found")) << "for the file that lost its name";
}

TEST_F(CheckTest, CycleOfDirectories) {
    // grandchild now contains parent, and the root does not any more.
    change_block<DirectoryLeaf>(tree_block(grandchild, 0), [&](DirectoryLeaf& leaf) {
        leaf.slots[0].target = (leaf.slots[0].target & 0xff00000000000000u) | parent | u64{4} << 48;
    });
    for_each_leaf(image.root(), [&](const DirectoryLeaf& leaf) {
        change_block<DirectoryLeaf>(leaf.header.place, [&](DirectoryLeaf& changed) {
            for (DirectorySlot& slot : changed.slots) {
                if (slot.inode() == parent) slot = {};
            }
        });
    });
    change_inode(parent, [&](Inode& inode) { inode.parent = grandchild; });
    expect_found_and_repaired("lies in itself");
    EXPECT_TRUE(has_name(image.root(), "lost+found"));
}

TEST_F(CheckTest, LostFilesAndDirectories) {
    change_block<DirectoryLeaf>(tree_block(parent, 0), [](DirectoryLeaf& leaf) {
        const format::BlockHeader header = leaf.header;
        leaf = {};
        leaf.header = header;
    });
    const Outcome outcome = check(disk());
    EXPECT_TRUE(outcome.says("inode " + std::to_string(child) + ": is in no directory"))
        << outcome.all();
    expect_found_and_repaired("is in no directory");
    EXPECT_TRUE(has_name(image.root(), "lost+found"));
    u64 lost_and_found = 0;
    for_each_leaf(image.root(), [&](const DirectoryLeaf& leaf) {
        for (const DirectorySlot slot : leaf.slots) {
            const char* heap = reinterpret_cast<const char*>(leaf.heap);
            if (std::string(heap + slot.name_offset(), slot.name_length()) == "lost+found") {
                lost_and_found = slot.inode();
            }
        }
    });
    ASSERT_NE(lost_and_found, 0u);
    EXPECT_TRUE(has_name(lost_and_found, "#" + std::to_string(child)));
    EXPECT_EQ(editor().inode(child).parent, lost_and_found);
    EXPECT_EQ(editor().inode(lost_and_found).mode, format::type_directory | 0700u);
}

TEST_F(CheckTest, LeafThatContradictsItself) {
    change_block<DirectoryLeaf>(tree_block(directory, 0),
                                [](DirectoryLeaf& leaf) { leaf.count = 1; });
    expect_found_and_repaired("contradicts itself");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, DamagedLeafKeepsWhatCanBeRead) {
    editor().flip(tree_block(directory, 0) + offsetof(DirectoryLeaf, heap) + 2);
    expect_found_and_repaired("is damaged");
    EXPECT_EQ(count_names(directory), 40u);
    EXPECT_TRUE(has_name(image.root(), "lost+found"));
}

TEST_F(CheckTest, DamagedNodeLosesNothing) {
    for (const u32 height : {1u, 2u}) {
        editor().flip(tree_block(directory, height) + 70);
        expect_found_and_repaired("tree node at");
        EXPECT_EQ(count_names(directory), 41u);
        EXPECT_FALSE(has_name(image.root(), "lost+found"));
        // Rebuilt trees are flat: the next round has no such node.
        if (editor().inode(directory).height < 3) break;
    }
}

TEST_F(CheckTest, DirectoryWithoutARoot) {
    change_inode(directory, [](Inode& inode) { inode.height = 0; });
    expect_found_and_repaired("/directory: the root of its tree makes no sense");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, TreeThatPointsIntoItself) {
    const u64 node = tree_block(directory, 1);
    change_block<format::TreeNode>(
        node, [&](format::TreeNode& at) { at.pairs[at.count - 1].child = at.pairs[0].child; });
    expect_found_and_repaired("is not its own");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, KeysOutOfOrder) {
    const u64 node = tree_block(directory, 1);
    change_block<format::TreeNode>(
        node, [&](format::TreeNode& at) { std::swap(at.pairs[0].child, at.pairs[1].child); });
    expect_found_and_repaired("out of order");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, ExtentsThatOverlap) {
    change_inode(few, [](Inode& inode) { inode.area.extents[1].file_block = 0; });
    expect_found_and_repaired("/parent/child/grandchild/few: the extent at its block 0 is out of");
    EXPECT_EQ(editor().inode(few).area_count, 2);
}

TEST_F(CheckTest, ExtentsOfTwoFiles) {
    const BlockPointer other = editor().inode(text).area.extents[0].start;
    change_inode(few, [&](Inode& inode) { inode.area.extents[0].start = other; });
    expect_found_and_repaired("holds blocks that are not its own");
    EXPECT_EQ(editor().inode(text).area_count + editor().inode(few).area_count, 3);
}

TEST_F(CheckTest, ExtentsOutsideOfDataFrames) {
    for (const u64 place : {u64{0}, image.root() * 256, image.superblock().size_bytes - 4096}) {
        change_inode(few, [&](Inode& inode) {
            inode.area_kind = static_cast<u8>(format::AreaKind::extents);
            inode.area_count = 1;
            inode.area.extents[0] = {0, BlockPointer::to(place), 5, 0};
        });
        expect_found_and_repaired("/parent/child/grandchild/few: ");
    }
}

TEST_F(CheckTest, ExtentBehindTheEnd) {
    change_inode(few, [&](Inode& inode) { inode.area.extents[2].flags = 0; });
    expect_found_and_repaired("lies behind its end but is not marked unwritten");
    EXPECT_EQ(editor().inode(few).area_count, 3);
}

TEST_F(CheckTest, DamagedExtentLeaf) {
    const u64 before = editor().inode(sparse).blocks;
    editor().flip(tree_block(sparse, 0) + 70);
    expect_found_and_repaired("/sparse: the extent leaf at");
    EXPECT_LT(editor().inode(sparse).blocks, before);
    EXPECT_GT(editor().inode(sparse).blocks, before / 2);
}

TEST_F(CheckTest, DamagedExtentNodeLosesNothing) {
    const Outcome before = check(disk());
    editor().flip(tree_block(sparse, 1) + 70);
    expect_found_and_repaired("/sparse: the tree node at");
    u64 data = 0;
    for (const test::Run& run : runs())
        data += run.blocks;
    EXPECT_GE(editor().inode(sparse).blocks, data);
    EXPECT_LE(editor().inode(sparse).blocks, data + 10);
}

TEST_F(CheckTest, DamagedAttributes) {
    editor().flip(editor().inode(text).attributes.offset() + 100);
    expect_found_and_repaired("/text: its extended attributes are damaged");
    EXPECT_EQ(editor().inode(text).attributes.raw, 0u);
    change_block<format::AttributeBlock>(editor().inode(directory).attributes.offset(),
                                         [](format::AttributeBlock& at) { at.bytes_used = 9; });
    expect_found_and_repaired("/directory: its extended attributes are damaged");
}

TEST_F(CheckTest, DamagedTarget) {
    editor().flip(BlockPointer{editor().inode(long_link).area.words[0]}.offset() + 100);
    expect_found_and_repaired("/long-link: the end of its target is lost");
    EXPECT_EQ(editor().inode(long_link).size, format::target_head_bytes);
}

TEST_F(CheckTest, ContentsBeyondTheInode) {
    change_inode(small[1], [](Inode& inode) { inode.size = 5000; });
    expect_found_and_repaired("/directory/file-1: has a size of 5000");
}

/// Puts a transaction with one changed inode into the journal.
void log_change(ImageEditor edit, MemoryDisk& disk, u64 number) {
    Block superblock = edit.read(0);
    auto& changed = reinterpret_cast<format::Superblock&>(superblock);
    changed.clean = 0;
    const u64 next = changed.header.transaction + 1;
    format::seal_block(superblock, changed.header.volume, 0, next);
    const u64 place = number * format::inode_size / block_size * block_size;
    Block inodes = edit.read(place);
    reinterpret_cast<Inode*>(&inodes)[number % format::inodes_per_block].links = 9;
    format::seal_inodes(inodes, changed.header.volume, place, next);
    const auto journal = std::make_unique<Journal>(disk, edit.superblock());
    const SealedBlock blocks[] = {{0, &superblock}, {place, &inodes}};
    ASSERT_EQ(journal->write(next, blocks), Errc::ok);
}

TEST_F(CheckTest, JournalIsReplayedInMemory) {
    log_change(editor(), disk(), text);
    EXPECT_EQ(editor().inode(text).links, 2u);
    disk().start_recording();
    const Outcome found = check(disk());
    EXPECT_TRUE(found.says("/text: counts 9 links, it has 2")) << found.all();
    EXPECT_EQ(found.result.problems, 1u) << found.all();
    EXPECT_EQ(disk().event_count(), 0u);
    expect_found_and_repaired("/text: counts 9 links");
    EXPECT_EQ(editor().inode(text).links, 2u);
    EXPECT_EQ(editor().superblock().clean, 0u) << "there is an orphan";
}

TEST_F(CheckTest, RepairSurvivesACutAfterEveryWrite) {
    editor().flip(tree_block(directory, 1) + 70);
    change_block<DirectoryLeaf>(tree_block(child, 0),
                                [&](DirectoryLeaf& leaf) { leaf.slots[0].target += 4000; });
    change_inode(few, [](Inode& inode) { inode.area.extents[1].file_block = 0; });
    disk().start_recording();
    EXPECT_EQ(check(disk(), true).failure.code, Errc::ok);
    disk().stop_recording();
    for (u64 events = 0; events <= disk().event_count(); ++events) {
        const auto cut = disk().image_after(events, {true, true, true, events});
        const Outcome again = check(*cut, true);
        ASSERT_EQ(again.failure.code, Errc::ok) << again.all();
        ASSERT_EQ(again.result.repaired, again.result.problems) << events << again.all();
        expect_clean(*cut);
        ASSERT_FALSE(HasFailure()) << "after " << events << " events";
    }
}

}  // namespace
}  // namespace warren

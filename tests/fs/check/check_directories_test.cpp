// SPDX-License-Identifier: Apache-2.0
// Damage of directories: of their inodes, of their trees, of their entries.
#include "tests/support/check_sample.hpp"

namespace warren::test::check_directories_test {
namespace {

TEST_F(CheckTest, LostRoot) {
    const u64 names = count_names(image.root());
    change_inode(image.root(), [](Inode& inode) {
        inode = {};
        inode.generation = 9;
    });
    const Inode before = editor().inode(directory);
    expect_found_and_repaired("the root directory is lost");
    // Finds its leaves by examining every block.
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

/// A later leaf gets names that sort before the first key of a node above it, and is split.
TEST_F(CheckTest, NodeThatBeginsBehindItsPair) {
    const u64 node = tree_block(directory, 1);
    change_block<format::TreeNode>(node, [](format::TreeNode& at) { ++at.pairs[0].key; });
    expect_found_and_repaired("/directory: keys in its tree are out of order");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, NodeWhoseFirstKeyIsAboveTheNext) {
    const u64 node = tree_block(directory, 1);
    change_block<format::TreeNode>(
        node, [](format::TreeNode& at) { at.pairs[0].key = at.pairs[1].key + 1; });
    expect_found_and_repaired("/directory: keys in its tree are out of order");
    EXPECT_EQ(count_names(directory), 41u);
}

/// Since the node is no longer removed, its keys must be in order again.
TEST_F(CheckTest, NodeThatBeginsBehindItsPairInALostDyingDirectory) {
    const u64 node = tree_block(directory, 1);
    change_inode(directory, [](Inode& inode) { inode.entries |= format::entries_dying; });
    change_block<format::TreeNode>(node, [](format::TreeNode& at) { ++at.pairs[0].key; });
    const Outcome repaired = check(disk(), true);
    EXPECT_TRUE(repaired.says("/directory: is marked as being removed")) << repaired.all();
    EXPECT_FALSE(repaired.says("keys in its tree are out of order")) << repaired.all();
    expect_clean(disk());
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, RootThatBeginsLateInADyingDirectory) {
    change_inode(directory, [](Inode& inode) {
        inode.entries |= format::entries_dying;
        ++inode.area.pairs[0].key;
    });
    expect_found_and_repaired("/directory: keys in its tree are out of order");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, KeysOutOfOrderInADyingDirectory) {
    const u64 node = tree_block(directory, 1);
    change_inode(directory, [](Inode& inode) { inode.entries |= format::entries_dying; });
    change_block<format::TreeNode>(node,
                                   [](format::TreeNode& at) { at.pairs[0].key = at.pairs[1].key; });
    expect_found_and_repaired("/directory: keys in its tree are out of order");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, KeysOutOfOrder) {
    const u64 node = tree_block(directory, 1);
    change_block<format::TreeNode>(
        node, [&](format::TreeNode& at) { std::swap(at.pairs[0].child, at.pairs[1].child); });
    expect_found_and_repaired("out of order");
    EXPECT_EQ(count_names(directory), 41u);
}

}  // namespace
}  // namespace warren::test::check_directories_test

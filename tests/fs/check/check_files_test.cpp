// SPDX-License-Identifier: Apache-2.0
// Damage of a file's own metadata: extents, link targets, extended attributes.
#include "tests/support/check_sample.hpp"

namespace warren::test::check_files_test {
namespace {

using format::TreeNode;

TEST_F(CheckTest, ExtentsThatOverlap) {
    change_inode(few, [](Inode& inode) { inode.area.extents[1].file_block = 0; });
    expect_found_and_repaired("/parent/child/grandchild/few: the extent at its block 0 is out of");
    EXPECT_EQ(editor().inode(few).area_count, 2);
}

/// If two extents claim one block, the extent that begins first gets it. The rest of the other
/// extent is kept, and the loss is reported.
TEST_F(CheckTest, ExtentThatBeginsWithinAnother) {
    const u64 place = editor().inode(few).area.extents[2].start.offset();
    for (const u64 size_blocks : {4, 3}) {
        SCOPED_TRACE(size_blocks);
        change_inode(few, [&](Inode& inode) {
            inode.size = size_blocks * block_size;
            inode.area.extents[2] = {2, BlockPointer::to(place), 2, 0};
            inode.area_count = 3;
            inode.blocks = 4;
        });
        const Outcome found = check(disk());
        EXPECT_TRUE(
            found.says("few: its extents overlap, those that begin first win: blocks lost "
                       "1, the first of them is 2"))
            << found.all();
        EXPECT_FALSE(found.says("lost of its contents")) << found.all();
        expect_found_and_repaired("few: the extent at its block 2 is out of order");
        const Inode inode = editor().inode(few);
        ASSERT_EQ(inode.area_count, 3);
        EXPECT_EQ(inode.blocks, 3u);
        const format::Extent& rest = inode.area.extents[2];
        EXPECT_EQ(rest.file_block, 3u);
        EXPECT_EQ(rest.length, 1u);
        EXPECT_EQ(rest.start.offset(), place + block_size);
        // Blocks behind the end of the file must read as zeros when the file grows.
        EXPECT_EQ(rest.flags, size_blocks == 3 ? format::extent_unwritten : 0);
    }
}

/// An extent whose blocks belong to another file does not displace this file's own extents.
TEST_F(CheckTest, ExtentThatBeginsWithinOneOfAnotherFile) {
    const BlockPointer other = editor().inode(text).area.extents[0].start;
    const BlockPointer own = editor().inode(few).area.extents[1].start;
    change_inode(few, [&](Inode& inode) {
        inode.area.extents[0].start = other;
        inode.area.extents[1].file_block = 0;
    });
    expect_found_and_repaired("few: the extent at its block 0 holds blocks that are not its own");
    const Inode inode = editor().inode(few);
    ASSERT_EQ(inode.area_count, 2);
    EXPECT_EQ(inode.area.extents[0].file_block, 0u);
    EXPECT_EQ(inode.area.extents[0].start.raw, own.raw);
    EXPECT_EQ(editor().inode(text).area_count, 1);
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
    for (const FileRun& run : runs())
        data += run.blocks;
    EXPECT_GE(editor().inode(sparse).blocks, data);
    EXPECT_LE(editor().inode(sparse).blocks, data + 10);
}

/// Gives the first pair of a node of extents another key: nothing is lost by that.
void expect_nothing_lost(CheckTest& test, const std::function<u64(const TreeNode&)>& key) {
    const u64 place = test.tree_block(test.sparse, 1);
    test.change_block<TreeNode>(place, [&](TreeNode& node) {
        ASSERT_GE(node.count, 2u);
        node.pairs[0].key = key(node);
    });
    EXPECT_FALSE(check(test.disk()).says("lost"));
    test.expect_found_and_repaired("/sparse: keys in its tree are out of order");
    u64 data = 0;
    for (const FileRun& run : CheckTest::runs())
        data += run.blocks;
    const Inode inode = test.editor().inode(test.sparse);
    EXPECT_EQ(inode.blocks, data + 1) << "they fit into one leaf";
}

TEST_F(CheckTest, ExtentNodeThatBeginsBehindItsPair) {
    expect_nothing_lost(*this, [](const TreeNode& node) { return node.pairs[1].key - 1; });
}

/// As after a split of a leaf in front of the first key of the node above it.
TEST_F(CheckTest, ExtentNodeWhoseFirstKeyIsAboveTheNext) {
    expect_nothing_lost(*this, [](const TreeNode& node) { return node.pairs[1].key + 1; });
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

}  // namespace
}  // namespace warren::test::check_files_test

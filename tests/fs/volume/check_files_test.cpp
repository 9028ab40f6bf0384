// SPDX-License-Identifier: Apache-2.0
// Damage of what files own: extents, link targets, extended attributes.
#include "tests/support/check_sample.hpp"

namespace warren::test {
namespace {

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
    for (const FileRun& run : runs())
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

}  // namespace
}  // namespace warren::test

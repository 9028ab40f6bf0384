// SPDX-License-Identifier: Apache-2.0
// The quick check run by a GPU: it calls sound what the CPU calls sound, with the same counts, and
// finds a flaw where one bit of a block or one field of an inode is wrong. Skipped where there is
// no GPU.
#include <gtest/gtest.h>

#include "tests/support/check_sample.hpp"

namespace warren::test::device_examination_test {
namespace {

class DeviceExaminationTest : public CheckTest {
 protected:
    void SetUp() override {
        CheckOptions options;
        options.engine = EngineChoice::cuda;
        CheckResult result;
        const Failure failure = check_disk(disk(), "image", options, result);
        if (failure.code == Errc::no_device) GTEST_SKIP() << failure.message;
    }

    CheckResult look(EngineChoice engine) {
        CheckOptions options;
        options.engine = engine;
        CheckResult result;
        const Failure failure = check_disk(disk(), "image", options, result);
        EXPECT_EQ(failure.code, Errc::ok) << failure.message;
        EXPECT_EQ(result.engine, engine) << result.note;
        return result;
    }
    void expect_doubt(const std::string& what) {
        EXPECT_TRUE(look(EngineChoice::cuda).was_full) << what;
        EXPECT_TRUE(look(EngineChoice::cpu).was_full) << what;
    }
};

TEST_F(DeviceExaminationTest, FindsASoundVolumeSound) {
    const CheckResult cores = look(EngineChoice::cpu);
    const CheckResult device = look(EngineChoice::cuda);
    EXPECT_FALSE(cores.was_full);
    EXPECT_FALSE(device.was_full);
    EXPECT_EQ(device.inodes, cores.inodes);
    EXPECT_EQ(device.directories, cores.directories);
    EXPECT_EQ(device.blocks_used, cores.blocks_used);
}

TEST_F(DeviceExaminationTest, FindsAFlippedBitInEachLanesPart) {
    const u64 leaf = tree_block(directory, 0);
    const u64 inode = small[5] * format::inode_size;
    // A lane checks 128 bytes of a block, and half an inode.
    for (u64 at = 60; at < block_size; at += 128) {
        editor().flip(leaf + at);
        expect_doubt("byte " + std::to_string(at) + " of a leaf");
        editor().flip(leaf + at);
    }
    for (const u64 at : {u64{5}, u64{12}, u64{40}, u64{130}, u64{250}}) {
        editor().flip(inode + at);
        expect_doubt("byte " + std::to_string(at) + " of an inode");
        editor().flip(inode + at);
    }
    EXPECT_FALSE(look(EngineChoice::cuda).was_full);
}

TEST_F(DeviceExaminationTest, FindsWrongFieldsUnderARightCrc) {
    const auto expect_flaw = [&](const char* what, u64 number, const auto& change) {
        const Inode before = editor().inode(number);
        change_inode(number, change);
        expect_doubt(what);
        editor().set_inode(number, before);
    };
    expect_flaw("links", text, [](Inode& inode) { ++inode.links; });
    expect_flaw("parent", child, [&](Inode& inode) { inode.parent = directory; });
    expect_flaw("a cycle", parent, [&](Inode& inode) { inode.parent = grandchild; });
    expect_flaw("blocks", sparse, [](Inode& inode) { --inode.blocks; });
    expect_flaw("names", directory, [](Inode& inode) { ++inode.entries; });
    EXPECT_FALSE(look(EngineChoice::cuda).was_full);
}

}  // namespace
}  // namespace warren::test::device_examination_test

// SPDX-License-Identifier: Apache-2.0
// The phases of an examination, run by lanes in lockstep as a warp runs them and by single threads:
// both find the same flaws, and on a sound volume their counts are those of the full check. That
// the quick check as a whole agrees with the full check is verified wherever a test checks a volume
// (tests/support/two_looks.hpp).
#include <gtest/gtest.h>

#include "base/crc32c.hpp"
#include "base/crc32c_parts.hpp"
#include "fs/bulk/quick_check/examine_run.hpp"
#include "fs/check/examine_volume.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/engine/cpu/exam_memory.hpp"
#include "fs/engine/cpu/host_sums.hpp"
#include "fs/engine/cpu/thread_pool.hpp"
#include "tests/support/check_sample.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren::test::examine_test {
namespace {

using ops::examine::Exam;
using ops::examine::ExamState;

/// Lanes that work on one part after the other, together.
class LockstepExecutor {
 public:
    template <class Phase>
    void each(u64 count, const Phase& phase) {
        Lockstep<4> lanes(0);
        lanes.run([&](const LockstepTeam<4>& team) {
            for (u64 i = 0; i < count; ++i)
                phase(team, HostSums{}, i);
        });
    }
    ExamState look(const ExamState& state) { return state; }
    void reset(u32& word) { word = 0; }
};

/// Threads that use the tables concurrently, on volumes of any size.
class ThreadsExecutor {
 public:
    template <class Phase>
    void each(u64 count, const Phase& phase) {
        thread_pool_.for_each(count,
                              [&](const ThreadTeam& team, u64 i) { phase(team, HostSums{}, i); });
    }
    ExamState look(const ExamState& state) { return state; }
    void reset(u32& word) { word = 0; }

 private:
    ThreadPool thread_pool_{3};
};

template <class Executor>
ExamState examine_by(Disk& disk) {
    format::Block block;
    auto& superblock = reinterpret_cast<format::Superblock&>(block);
    EXPECT_EQ(read_superblock(disk, "image", superblock).code, Errc::ok);
    ExamTables tables;
    ExamState doubt{};
    doubt.flaws = 1;
    if (!check::fill_tables(disk, superblock, ~u64{0}, tables)) return doubt;
    ExamMemory memory;
    EXPECT_EQ(memory.open(tables), Errc::ok);
    for (u64 i = 0; i < tables.frame_numbers.size(); ++i) {
        EXPECT_EQ(memory.load(i,
                              [&](u64 place, std::span<std::byte> target) {
                                  return check::read_frame(disk, tables, place, target);
                              }),
                  Errc::ok);
    }
    Executor executor;
    return ops::examine::run(executor, memory.exam());
}

TEST_F(CheckTest, LanesFindASoundVolumeSound) {
    const Outcome closer = check_once(disk(), false, true);
    ASSERT_EQ(closer.result.problems, 0u) << closer.all();
    const ExamState state = examine_by<LockstepExecutor>(disk());
    EXPECT_EQ(state.flaws, 0u);
    EXPECT_EQ(state.inodes, closer.result.inodes);
    EXPECT_EQ(state.directories, closer.result.directories);
    EXPECT_EQ(state.blocks_used, closer.result.blocks_used);
    EXPECT_EQ(state.orphans, 1u);
}

TEST_F(CheckTest, ThreadsFindASoundVolumeSound) {
    for (int round = 0; round < 5; ++round) {
        const ExamState state = examine_by<ThreadsExecutor>(disk());
        EXPECT_EQ(state.flaws, 0u);
        EXPECT_EQ(state.orphans, 1u);
        EXPECT_EQ(state.inodes, check_once(disk(), false, true).result.inodes);
    }
}

TEST_F(CheckTest, LanesFindEachFlaw) {
    const auto expect_flaw = [&](const char* what, u64 number, const auto& change) {
        ImageEditor edit = editor();
        const Inode before = edit.inode(number);
        Inode after = before;
        change(after);
        edit.set_inode(number, after);
        EXPECT_NE(examine_by<LockstepExecutor>(disk()).flaws, 0u) << what;
        EXPECT_GT(check_once(disk(), false, true).result.problems, 0u) << what;
        edit.set_inode(number, before);
    };
    expect_flaw("links", text, [](Inode& inode) { ++inode.links; });
    expect_flaw("links of a directory", parent, [](Inode& inode) { ++inode.links; });
    expect_flaw("blocks", sparse, [](Inode& inode) { ++inode.blocks; });
    expect_flaw("names", directory, [](Inode& inode) { --inode.entries; });
    expect_flaw("parent", child, [&](Inode& inode) { inode.parent = directory; });
    expect_flaw("type", small[3], [](Inode& inode) { inode.mode ^= format::type_mask; });
    expect_flaw("generation", directory, [](Inode& inode) { ++inode.generation; });
    expect_flaw("dying", parent, [](Inode& inode) { inode.entries |= format::entries_dying; });
    expect_flaw("target", long_link, [](Inode& inode) { ++inode.size; });
    expect_flaw("pointer", directory, [](Inode& inode) { inode.area.pairs[0].child = {}; });
    EXPECT_EQ(examine_by<LockstepExecutor>(disk()).flaws, 0u);
}

TEST(Examine, AsksForTheRootOfAnEmptyVolume) {
    ImageBuilder image(16 * mib);
    image.finish();
    expect_equal_looks(image.disk());
    const u64 frame = image.root() / format::inodes_per_frame;
    const u64 bit = image.root() % format::inodes_per_frame;
    ImageEditor edit(image.disk());
    Block bitmap = edit.read(frame * format::frame_size);
    reinterpret_cast<format::InodeBitmap&>(bitmap).used[bit / 64] &= ~(u64{1} << bit % 64);
    edit.write(frame * format::frame_size, bitmap);
    Block block;
    auto& superblock = reinterpret_cast<format::Superblock&>(block);
    ASSERT_EQ(read_superblock(image.disk(), "image", superblock).code, Errc::ok);
    superblock.inodes_used -= 1;
    ASSERT_EQ(write_superblock(image.disk(), superblock, 8), Errc::ok);
    EXPECT_NE(examine_by<LockstepExecutor>(image.disk()).flaws, 0u);
    EXPECT_TRUE(expect_equal_looks(image.disk()).says("the root directory is lost"));
}

TEST(CrcParts, AddUpToTheCrcOfTheWhole) {
    constexpr std::array<u32, 256> table = crc_parts::make_table();
    u64 words[64];
    for (u64 i = 0; i < 64; ++i)
        words[i] = i * 0x9e3779b97f4a7c15u;
    const u32 whole = crc32c(std::as_bytes(std::span(words)));
    for (const u32 parts : {1u, 2u, 4u, 32u}) {
        const u32 each = 64 / parts;
        u32 sum = 0;
        for (u32 part = 0; part < parts; ++part) {
            u32 state = part == 0 ? ~0u : 0;
            for (u32 i = 0; i < each; ++i)
                state = crc_parts::take_word(table.data(), state, words[part * each + i]);
            sum ^= crc_parts::multiply(state, crc_parts::shift_of((parts - 1 - part) * each * 8));
        }
        EXPECT_EQ(~sum, whole) << parts;
    }
}

}  // namespace
}  // namespace warren::test::examine_test

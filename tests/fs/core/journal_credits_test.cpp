// SPDX-License-Identifier: Apache-2.0
// Journal credits: passing the freeze barrier, reserving journal room and leaving; and operations
// that reserve too few credits on purpose. All operations of the CPU engine in this program are
// audited; the tightest margins are printed after the last test.
#include "fs/core/journal_credits.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/notice.hpp"
#include "fs/core/operation.hpp"
#include "fs/engine/cpu/store_memory.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/journal_audit.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::journal_credits_test {
namespace {

using core::JournalCredits;

/// Audits the whole run.
class AuditOfRun : public testing::Environment {
 public:
    void SetUp() override { core::journal_audit = &margins_; }
    void TearDown() override {
        core::journal_audit = nullptr;
        margins_.print(std::cout);
    }

 private:
    CreditMargins margins_;
};
[[maybe_unused]] const auto* const audit_of_run =
    testing::AddGlobalTestEnvironment(new AuditOfRun);  // GoogleTest deletes it

/// Records the messages that would fail a test.
class NotedOverruns : public CreditMargins {
 public:
    std::vector<std::string> messages;

 protected:
    void overrun(const std::string& message) override { messages.push_back(message); }
};

constexpr u64 journal_room = 20;
constexpr u32 worker = 3;
constexpr u32 broken_blocks_max = 2;
constexpr u32 right_blocks_max = 3;

class JournalCreditsTest : public testing::Test {
 protected:
    void SetUp() override {
        constexpr u64 frames = 4;
        const StoreShape shape{frames * format::frame_size, 4 * format::block_size, 1, 64};
        ASSERT_EQ(memory_.open(shape), Errc::ok);
        state().journal_room = journal_room;
    }
    void TearDown() override {
        EXPECT_EQ(inside(), 0u);
        EXPECT_EQ(state().reserved_credits, 0u);
    }
    const core::Store& store() { return memory_.store(); }
    core::StoreState& state() { return *memory_.store().state; }
    u64 inside() {
        u64 sum = 0;
        for (const core::BarrierSlot& slot : state().freeze_barrier)
            sum += slot.inside;
        return sum;
    }
    /// Marks the blocks [first, first + count) in one transaction handle.
    Errc mark(const core::Credits& credits, u64 first, u64 count) {
        CpuOperation op(ThreadTeam{worker}, store());
        WARREN_TRY(op.begin_apply(credits));
        for (u64 block = first; block < first + count; ++block)
            op.mark_dirty(block * format::block_size);
        op.end_apply();
        return Errc::ok;
    }

    const AuditInstead unseen_{nullptr};  // what breaks credits here is no fault of the run
    StoreMemory memory_;
};

TEST_F(JournalCreditsTest, holdWhatWasReservedUntilTheyEnd) {
    {
        JournalCredits credits;
        ASSERT_EQ(credits.pass_barrier(state(), worker), Errc::ok);
        EXPECT_EQ(state().freeze_barrier[worker].inside, 1u);
        EXPECT_EQ(credits.reserve(state(), 5).verdict(5), Errc::ok);
        EXPECT_EQ(credits.reserve(state(), 4).ahead, 5u);
        EXPECT_EQ(state().reserved_credits, 9u);
        credits.give_back(4);
        EXPECT_EQ(state().reserved_credits, 5u);
    }
    EXPECT_EQ(inside(), 0u);
    EXPECT_EQ(state().reserved_credits, 0u);
}

TEST_F(JournalCreditsTest, areKeptAndResumed) {
    u64 kept = 0;
    {
        JournalCredits credits;
        ASSERT_EQ(credits.pass_barrier(state(), worker), Errc::ok);
        static_cast<void>(credits.reserve(state(), 5));
        kept = credits.keep();
    }
    EXPECT_EQ(kept, 5u);
    EXPECT_EQ(state().reserved_credits, 5u);
    EXPECT_EQ(inside(), 1u);
    JournalCredits::resume(state(), worker, kept).leave();
    EXPECT_EQ(inside(), 0u);
    EXPECT_EQ(state().reserved_credits, 0u);
}

TEST_F(JournalCreditsTest, closedBarrierSaysRetry) {
    state().barrier_closed = 1;
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::retry);
    EXPECT_EQ(inside(), 0u);
    EXPECT_EQ(state().reserved_credits, 0u);
    EXPECT_EQ(state().dirty_blocks, 0u);
    state().barrier_closed = 0;
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::ok);
}

TEST_F(JournalCreditsTest, fullJournalSaysCommit) {
    state().dirty_blocks = journal_room - right_blocks_max + 1;
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::need_commit);
    EXPECT_EQ(inside(), 0u);
    EXPECT_EQ(state().reserved_credits, 0u);
    state().dirty_blocks = journal_room - right_blocks_max;
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::ok);
}

TEST_F(JournalCreditsTest, roomThatOthersHaveReservedSaysRetry) {
    JournalCredits others;
    static_cast<void>(others.reserve(state(), journal_room - right_blocks_max + 1));
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::retry);
    others.give_back(1);
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::ok);
}

TEST_F(JournalCreditsTest, dirtyBlocksAreCountedAgainIfTheJournalIsNearlyFull) {
    JournalCredits credits;
    state().dirty_blocks = journal_room / 2;
    const core::JournalRoom room = credits.reserve(state(), journal_room / 2 - 1);
    ASSERT_EQ(room.verdict(journal_room / 2 - 1), Errc::ok);
    // By an operation that ended before these credits were reserved, but after the count was read.
    state().dirty_blocks += 2;
    EXPECT_EQ(credits.verdict(room, journal_room / 2 - 1), Errc::need_commit);
    state().dirty_blocks -= 1;
    EXPECT_EQ(credits.verdict(room, journal_room / 2 - 1), Errc::ok);
}

TEST_F(JournalCreditsTest, readOnlyVolumeRefusesAllThatMarksBlocks) {
    state().read_only = 1;
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 1), Errc::read_only);
    EXPECT_EQ(mark({0, "no_blocks"}, 0, 0), Errc::ok);
}

TEST_F(JournalCreditsTest, brokenOnPurposeFailsTheAuditByName) {
    NotedOverruns audit;
    const AuditInstead instead(&audit);
    ASSERT_EQ(mark(WARREN_CREDITS(right_blocks_max), 0, 3), Errc::ok);
    EXPECT_TRUE(audit.messages.empty());
    // Dirty already: only the audit detects the overrun.
    ASSERT_EQ(mark(WARREN_CREDITS(broken_blocks_max), 0, 3), Errc::ok);
    EXPECT_EQ(state().read_only, 0u);
    ASSERT_EQ(audit.messages.size(), 1u);
    EXPECT_EQ(audit.messages.front(),
              "broken_blocks_max is 2 journal credits, and an operation marked 3 blocks dirty");
    const auto margins = audit.margins();
    EXPECT_EQ(margins.at("right_blocks_max").left(), 0);
    EXPECT_EQ(margins.at("broken_blocks_max").left(), -1);
}

TEST_F(JournalCreditsTest, blockMarkedTwiceCountsOnce) {
    CpuOperation op(ThreadTeam{worker}, store());
    ASSERT_EQ(op.begin_apply(WARREN_CREDITS(broken_blocks_max)), Errc::ok);
    for (u32 i = 0; i < 5; ++i)
        op.mark_dirty_all(2, [](u32 at) { return at * format::block_size; });
    op.end_apply();
    EXPECT_EQ(state().read_only, 0u);
}

TEST_F(JournalCreditsTest, brokenOnPurposeMakesTheVolumeReadOnly) {
    ASSERT_EQ(mark(WARREN_CREDITS(broken_blocks_max), 0, 3), Errc::ok);
    EXPECT_EQ(state().read_only, 1u);
    EXPECT_EQ(state().overrun_blocks, 3u);
    EXPECT_EQ(state().overrun_credits, 2u);
    EXPECT_EQ(mark(WARREN_CREDITS(right_blocks_max), 8, 1), Errc::read_only);
}

TEST_F(JournalCreditsTest, lanesCountTogether) {
    for (const u32 count : {3u, 4u}) {
        const Errc code = run_lockstep<4>([&](const LockstepTeam<4>& team) {
            core::Operation<LockstepTeam<4>> op(team, store());
            const Errc began = op.begin_apply(WARREN_CREDITS(right_blocks_max));
            if (began != Errc::ok) return began;
            op.mark_dirty_all(count, [&](u32 i) { return (8 * count + i) * format::block_size; });
            op.end_apply();
            return Errc::ok;
        });
        ASSERT_EQ(code, Errc::ok);
        EXPECT_EQ(state().read_only, count == 3 ? 0u : 1u) << count;
    }
    EXPECT_EQ(state().overrun_blocks, 4u);
}

TEST_F(JournalCreditsTest, partsOfAStepHaveCreditsOfTheirOwn) {
    CpuOperation op(ThreadTeam{worker}, store());
    op.barrier_is_held = true;
    ASSERT_EQ(op.begin_apply(WARREN_CREDITS(broken_blocks_max)), Errc::ok);
    EXPECT_EQ(inside(), 0u);
    EXPECT_EQ(state().reserved_credits, 0u);
    op.mark_dirty_all(3, [](u32 at) { return at * format::block_size; });
    op.end_apply();
    EXPECT_EQ(state().read_only, 1u);
}

TEST_F(JournalCreditsTest, stepThatDirtiesMoreThanACommitHoldsMakesTheVolumeReadOnly) {
    state().dirty_blocks = journal_room;
    core::check_step_credits(state());
    EXPECT_EQ(state().read_only, 0u);
    ++state().dirty_blocks;
    core::check_step_credits(state());
    EXPECT_EQ(state().read_only, 1u);
}

/// Collects lines for the log during its lifetime.
class Notices {
 public:
    Notices() {
        set_notice_sink([this](const std::string& line) { lines.push_back(line); });
    }
    ~Notices() { set_notice_sink({}); }
    Notices(const Notices&) = delete;
    Notices& operator=(const Notices&) = delete;

    std::vector<std::string> lines;
};

TEST(JournalOverrun, isNeverCommittedAndIsInTheLog) {
    const AuditInstead unseen(nullptr);
    Notices notices;
    const auto disk = make_memory_disk(16 * mib);
    VolumeImplementation* implementation = nullptr;
    Failure failure;
    auto volume = open_on_engine(std::make_unique<FaultDisk>(*disk), "cpu", {.workers = 1}, failure,
                                 ~u64{0}, [&](VolumeImplementation& of) { implementation = &of; });
    ASSERT_NE(volume, nullptr) << failure.message;
    make_file(*volume, volume->root(), "kept");
    ASSERT_EQ(volume->sync(), Errc::ok);
    make_file(*volume, volume->root(), "lost");
    const core::Store& store = implementation->store();
    {
        CpuOperation op(ThreadTeam{}, store);
        constexpr u32 no_blocks_max = 0;
        ASSERT_EQ(op.begin_apply(WARREN_CREDITS(no_blocks_max)), Errc::ok);
        // Clean since the file was created: blocks of inodes that are not in use.
        op.mark_dirty((store.root_inode / format::inodes_per_block + 1) * format::block_size);
        op.end_apply();
    }
    EXPECT_EQ(volume->create({}, volume->root(), "late", {}).code(), Errc::read_only);
    EXPECT_EQ(volume->sync(), Errc::io);
    ASSERT_EQ(notices.lines.size(), 1u);
    EXPECT_EQ(notices.lines.front(),
              "an operation dirtied more metadata blocks (1) than it had reserved in the journal "
              "(0); the volume is read-only and keeps what was last committed; this is a bug in "
              "Warren, please report it");
    EXPECT_EQ(volume->close(), Errc::io);
    volume.reset();

    volume = open_on(*disk);
    ASSERT_NE(volume, nullptr);
    EXPECT_TRUE(list_names(*volume, volume->root()).contains("kept"));
    EXPECT_FALSE(list_names(*volume, volume->root()).contains("lost"));
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

}  // namespace
}  // namespace warren::journal_credits_test

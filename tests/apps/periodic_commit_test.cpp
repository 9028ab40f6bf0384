// SPDX-License-Identifier: Apache-2.0
// The commit that a mount makes every few seconds: it saves all changes, whichever interface made
// them and however long they took, tries again after one that failed for lack of memory, and does
// not access the disk of an idle mount.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "apps/fuse/housekeeping.hpp"
#include "tests/apps/starved_mount.hpp"
#include "tests/support/thread_executor.hpp"

namespace warren::fuse::test::periodic_commit_test {
namespace {

using namespace std::chrono_literals;

constexpr u32 interval_seconds = 1;
constexpr auto patience = 60s;

class PeriodicCommit : public testing::TestWithParam<const char*> {
 protected:
    PeriodicCommit() {
        disk_ = make_memory_disk(volume_bytes);
        {
            const auto volume = Mount::open(*disk_, GetParam());
            make_base(*volume);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        mount_.emplace(*disk_, GetParam());
    }
    ~PeriodicCommit() override {
        mount_->kernel.give_back();
        EXPECT_EQ(mount_->state.volume.close(), Errc::ok);
    }

    Volume& volume() { return mount_->volume(); }
    /// Whether the name would survive a power cut now.
    bool is_durable(std::string_view name) {
        const auto image = disk_->copy();
        const auto after = open_on(*image, {.workers = 1});
        return after && after->lookup(anybody, after->root(), name);
    }
    template <class Is>
    bool comes_true(const Is& is) {
        const Deadline deadline(patience);
        while (!is()) {
            if (deadline.is_over()) return false;
            std::this_thread::sleep_for(50ms);
        }
        return true;
    }
    /// Waits until everything is saved and no commit is running.
    void wait_until_saved() {
        EXPECT_TRUE(comes_true([&] {
            return !volume().has_unsaved() && volume().sync() == Errc::ok &&
                   !volume().has_unsaved();
        }));
    }
    static constexpr auto three_rounds = 3s * interval_seconds + 500ms;

    std::unique_ptr<MemoryDisk> disk_;
    std::optional<Mount> mount_;
};
INSTANTIATE_TEST_SUITE_P(Engines, PeriodicCommit, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

/// The mount is not notified of changes: the committer queries the volume.
TEST_P(PeriodicCommit, savesWhatHasChangedWhoeverChangedIt) {
    const std::jthread committer = start_committer(mount_->state, interval_seconds);
    make_file(volume(), volume().root(), "new");
    EXPECT_TRUE(comes_true([&] { return is_durable("new"); }));
    EXPECT_EQ(volume().rename(anybody, volume().root(), "new", volume().root(), "moved"), Errc::ok);
    EXPECT_TRUE(comes_true([&] { return is_durable("moved"); }));
}

TEST_P(PeriodicCommit, flushesBytesInPlaceOfOthers) {
    const Handle file = volume().lookup(anybody, volume().root(), "file")->handle;
    ASSERT_EQ(volume().sync(), Errc::ok);
    wait_until_saved();
    disk_->start_recording();
    ASSERT_TRUE(volume().write(file, 4096, std::vector(4096, std::byte{'n'}), Stamp::no));
    EXPECT_TRUE(volume().has_unsaved());
    EXPECT_EQ(disk_->count_unflushed(disk_->event_count()), 1u);
    const std::jthread committer = start_committer(mount_->state, interval_seconds);
    EXPECT_TRUE(comes_true([&] { return disk_->count_unflushed(disk_->event_count()) == 0; }));
    disk_->stop_recording();
}

TEST_P(PeriodicCommit, triesAgainWhenMemoryIsThere) {
    const UncountedAllocations uncounted;
    make_file(volume(), volume().root(), "new");
    const std::jthread committer = start_committer(mount_->state, interval_seconds);
    {
        const FailingAllocation failing(1);
        EXPECT_TRUE(comes_true([&] { return failing.has_failed(); }));
    }
    EXPECT_TRUE(comes_true([&] { return is_durable("new"); }));
}

TEST_P(PeriodicCommit, leavesAnIdleDiskAlone) {
    const std::jthread committer = start_committer(mount_->state, interval_seconds);
    make_file(volume(), volume().root(), "new");
    ASSERT_EQ(volume().unlink(anybody, volume().root(), "other"), Errc::ok);
    wait_until_saved();
    disk_->start_recording();
    std::this_thread::sleep_for(three_rounds);
    EXPECT_EQ(disk_->event_count(), 0u);
    disk_->stop_recording();
}

}  // namespace
}  // namespace warren::fuse::test::periodic_commit_test

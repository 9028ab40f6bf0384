// SPDX-License-Identifier: Apache-2.0
// Operations that find no room in the journal: they go on when a commit has taken its snapshot,
// although the disk is still writing, and hold no lock of a file while they wait.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/passing_disk.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::commit_room_test {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds patience{20};

/// A disk whose flushes wait while they are held.
class HeldFlushes final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    Errc flush() override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !is_held_; });
        return PassingDisk::flush();
    }
    void hold(bool holds) {
        const std::lock_guard lock(mutex_);
        is_held_ = holds;
        changed_.notify_all();
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_held_ = false;
};

/// Waits until a thread that was started just now has come to its commit. If it has not, the test
/// only shows less.
void let_it_begin() {
    std::this_thread::sleep_for(milliseconds(300));
}

class CommitRoom : public testing::Test {
 protected:
    void SetUp() override {
        Failure failure;
        volume_ = open_on_engine(std::make_unique<PassingDisk>(static_cast<Disk&>(disk_)), "cpu",
                                 {.workers = 1}, failure, ~u64{0},
                                 [&](VolumeImplementation& opened) { implementation_ = &opened; });
        ASSERT_NE(volume_, nullptr) << failure.message;
        file_ = make_file(*volume_, volume_->root(), "file");
        ASSERT_TRUE(volume_->write(file_, 0, std::vector<std::byte>(4 * kib)));
        while (relaxed_load(state().dirty_blocks) < ops::clone_blocks_max) {
            const auto number = std::to_string(directories_++);
            make_directory(*volume_, make_directory(*volume_, volume_->root(), number), "d");
        }
    }
    void TearDown() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_ = nullptr;
        EXPECT_TRUE(expect_clean(*memory_));
    }

    core::StoreState& state() { return *implementation_->store().state; }
    /// Leaves the journal room for `blocks` more blocks.
    void leave_room(u64 blocks) {
        relaxed_store(state().journal_room, relaxed_load(state().dirty_blocks) + blocks);
    }
    FairLock& steps() { return implementation_->committer().steps(); }

    const std::unique_ptr<MemoryDisk> memory_ = make_memory_disk(64 * mib);
    HeldFlushes disk_{*memory_};
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
    Handle file_;
    u64 directories_ = 0;
};

TEST_F(CommitRoom, isThereWhenACommitHasTakenItsSnapshot) {
    leave_room(0);
    // A commit waits for bulk steps before it takes its snapshot.
    std::shared_lock step(steps());
    std::promise<void> begun;
    std::thread commit([&] {
        begun.set_value();
        EXPECT_EQ(volume_->sync(), Errc::ok);
    });
    begun.get_future().wait();
    let_it_begin();
    auto made = std::async(std::launch::async,
                           [&] { return make_file(*volume_, volume_->root(), "late").inode; });
    EXPECT_EQ(made.wait_for(milliseconds(300)), std::future_status::timeout);
    disk_.hold(true);
    step.unlock();
    EXPECT_EQ(made.wait_for(patience), std::future_status::ready);
    disk_.hold(false);
    commit.join();
    EXPECT_NE(made.get(), 0u);
}

TEST_F(CommitRoom, isAwaitedByACloneWithoutTheLockOfItsSource) {
    // Enough for the directory in which the clone grows, but not for the file in it.
    leave_room(2 * ops::create_blocks_max);
    static_assert(2 * ops::create_blocks_max < ops::clone_blocks_max);
    std::shared_lock step(steps());
    ClonedTree cloned;
    std::thread clone([&] {
        EXPECT_EQ(volume_->clone(anybody, file_, volume_->root(), "copy", cloned), Errc::ok);
    });
    let_it_begin();
    auto read = std::async(std::launch::async, [&] {
        std::vector<std::byte> bytes(4 * kib);
        return volume_->read(file_, 0, bytes).code();
    });
    EXPECT_EQ(read.wait_for(patience), std::future_status::ready);
    EXPECT_EQ(volume_->lookup(anybody, volume_->root(), "copy").code(), Errc::no_entry);
    step.unlock();
    clone.join();
    EXPECT_EQ(read.get(), Errc::ok);
    EXPECT_EQ(cloned.files, 1u);
}

}  // namespace
}  // namespace warren::commit_room_test

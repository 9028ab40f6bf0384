// SPDX-License-Identifier: Apache-2.0
// A directory that is removed while another thread removes it too, and whose number a new directory
// gets. The new one must keep its names.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/reused_number.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::removal_turns_test {
namespace {

using ops::Verb;

class RemovalTurnsTest : public testing::Test {
 protected:
    RemovalTurnsTest() {
        Failure failure;
        volume_ =
            open_on_engine(std::make_unique<FaultDisk>(*disk_), "cpu", {.workers = 2}, failure,
                           ~u64{0}, [&](VolumeImplementation& inside) { inside_ = &inside; });
        EXPECT_TRUE(volume_) << failure.message;
    }
    ~RemovalTurnsTest() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        EXPECT_TRUE(expect_clean(*disk_));
    }

    Handle find(Handle directory, const std::string& name) {
        const auto found = volume_->lookup(anybody, directory, name);
        EXPECT_TRUE(found) << name;
        return found->handle;
    }
    /// Gives a file more extents than one operation frees.
    void scatter(Handle file) {
        const std::vector<std::byte> bytes(format::block_size, std::byte{'s'});
        for (u64 i = 0; i < 8; ++i)
            EXPECT_TRUE(volume_->write(file, 2 * i * format::block_size, bytes));
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(64 * mib);
    std::unique_ptr<Volume> volume_;
    VolumeImplementation* inside_ = nullptr;
};

TEST_F(RemovalTurnsTest, aDirectoryIsNotFreedByNamesWhileAStepHasItsNumber) {
    const Handle top = make_directory(*volume_, volume_->root(), "top");
    const Handle inner = make_directory(*volume_, top, "inner");
    for (int i = 0; i < 300; ++i)
        make_file(*volume_, inner, "file" + std::to_string(i));
    std::string first;  // in the order of the leaves
    std::string last;
    ASSERT_EQ(volume_->read_directory(inner, 0,
                                      [&](const DirectoryEntry& entry) {
                                          if (first.empty()) first = entry.name;
                                          last = entry.name;
                                          return true;
                                      }),
              Errc::ok);
    const Handle slow = find(inner, first);
    scatter(slow);
    scatter(find(inner, last));  // a step leaves it to an operation of its own
    ops::Command detach = command_on(volume_->root());
    set_name(detach, "top");
    detach.now = 1;
    ASSERT_TRUE(inside_->ask<Verb::detach_tree>(detach));

    // One thread removes the tree name by name, and waits while it frees the first file of `inner`.
    std::unique_lock waits(inside_->data_lock(slow.inode));
    Removal by_names;
    std::thread thread([&] { EXPECT_EQ(inside_->remove_by_names(top.inode, by_names), Errc::ok); });
    const Deadline patience(std::chrono::minutes(1));
    while (volume_->lookup(anybody, inner, first) && !patience.is_over())
        std::this_thread::yield();

    // Another removes `inner` in steps, as the one that closes it last. Between two steps the first
    // thread ends its work.
    Handle reused;
    const ProgressCallback between_steps = [&](u64) {
        if (!waits.owns_lock()) return true;
        EXPECT_TRUE(volume_->attributes(inner)) << "no step is left";
        waits.unlock();
        thread.join();
        reused = make_directory_of_number(*volume_, *inside_, inner.inode);
        return true;
    };
    Removal in_turn;
    EXPECT_EQ(inside_->remove_detached(inner, in_turn, between_steps), Errc::ok);
    ASSERT_FALSE(waits.owns_lock());
    EXPECT_EQ(reused, Handle{}) << "the number belongs to another directory while a step uses it";
    EXPECT_TRUE(reused == Handle{} || volume_->lookup(anybody, reused, "kept"));
    EXPECT_EQ(volume_->attributes(inner).code(), Errc::stale);
    EXPECT_EQ(by_names.files + in_turn.files, 300u);
}

TEST_F(RemovalTurnsTest, aDirectoryIsMarkedByItsHandle) {
    const Handle old = make_directory(*volume_, volume_->root(), "old");
    ASSERT_EQ(volume_->remove_directory(anybody, volume_->root(), "old"), Errc::ok);
    const Handle reused = make_directory_of_number(*volume_, *inside_, old.inode);
    ASSERT_EQ(reused.inode, old.inode);
    EXPECT_EQ(inside_->ask<Verb::start_dying>(command_on(old)), Errc::stale);
    const Handle file = make_file(*volume_, reused, "more");
    EXPECT_EQ(inside_->ask<Verb::start_dying>(command_on(file)), Errc::not_directory);
}

TEST(RemovalTurnsKeys, aDirectoryDoesNotWaitForAnEarlierOneOfItsNumber) {
    RemovalTurns turns;
    const RemovalTurns::Turn old(turns, Handle{7, 1});
    EXPECT_FALSE(RemovalTurns::Turn(turns, Handle{7, 1}, std::try_to_lock).is_taken());
    const RemovalTurns::Turn reused(turns, Handle{7, 2});
    EXPECT_FALSE(RemovalTurns::Turn(turns, Handle{7, 2}, std::try_to_lock).is_taken());
    EXPECT_TRUE(RemovalTurns::Turn(turns, Handle{8, 1}, std::try_to_lock).is_taken());
}

}  // namespace
}  // namespace warren::removal_turns_test

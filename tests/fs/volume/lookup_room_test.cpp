// SPDX-License-Identifier: Apache-2.0
// An engine allocates the memory of a stream of look-ups: it takes very long while all other work
// goes on, or it fails and the look-ups are answered in another way.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/passing_engine.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::lookup_room_test {
namespace {

/// What a test tells an engine about memory for look-ups, and hears.
class Room {
 public:
    /// From here on it is refused.
    void refuse() {
        const std::lock_guard lock(mutex_);
        code_ = Errc::no_memory;
    }
    /// Makes requests for memory wait from here on, or releases them.
    void hold(bool is_held) {
        const std::lock_guard lock(mutex_);
        is_held_ = is_held;
        changed_.notify_all();
    }
    /// Waits until a thread has requested memory. False if none has for very long.
    bool wait_until_asked() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] { return asked_ > 0; });
    }
    /// For the engine.
    Errc ask() {
        std::unique_lock lock(mutex_);
        ++asked_;
        changed_.notify_all();
        EXPECT_TRUE(changed_.wait_for(lock, patience, [&] { return !is_held_; }));
        return code_;
    }
    void note_stream() {
        const std::lock_guard lock(mutex_);
        ++streams_;
    }
    u64 asked() {
        const std::lock_guard lock(mutex_);
        return asked_;
    }
    u64 streams() {
        const std::lock_guard lock(mutex_);
        return streams_;
    }

 private:
    static constexpr std::chrono::minutes patience{5};

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_held_ = false;
    Errc code_ = Errc::ok;
    u64 asked_ = 0;
    u64 streams_ = 0;
};

class AskingEngine final : public PassingEngine, LookupStreams {
 public:
    AskingEngine(std::unique_ptr<Engine> below, Room& room)
        : PassingEngine(std::move(below)), room_(room) {}

    LookupStreams* lookups() override { return this; }

 private:
    Errc prepare_lookups() override {
        const Errc code = room_.ask();
        return code == Errc::ok ? PassingEngine::lookups()->prepare_lookups() : code;
    }
    Errc look_up(const core::Credentials& caller, const UseStream& use) override {
        room_.note_stream();
        return PassingEngine::lookups()->look_up(caller, use);
    }

    Room& room_;
};

class RoomForLookups : public testing::Test {
 protected:
    void SetUp() override {
        Failure failure;
        volume_ =
            open_on_commands(std::make_unique<FaultDisk>(*disk_), {.workers = 2}, failure,
                             [this](std::unique_ptr<Engine> below) {
                                 return std::make_unique<AskingEngine>(std::move(below), room_);
                             });
        ASSERT_TRUE(volume_) << failure.message;
        for (u64 i = 0; i < names_max; ++i)
            names_.push_back("name" + std::to_string(i));
        create(volume_->root(), names_max / 2);
    }
    void TearDown() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        expect_clean(*disk_);
    }

    /// Creates the first of the names, many in a call.
    void create(Handle in, u64 count) {
        std::vector<Creation> creations;
        for (u64 i = 0; i < count; ++i)
            creations.push_back({in, names_[i], {}});
        std::vector<Result<Attributes>> made(creations.size(), Errc::io);
        volume_->create_many(anybody, creations, made);
        for (const Result<Attributes>& one : made)
            ASSERT_TRUE(one);
    }
    /// Looks up the first of the names: half of all are there.
    void look_up(u64 count) {
        std::vector<Lookup> lookups;
        for (u64 i = 0; i < count; ++i)
            lookups.push_back({volume_->root(), names_[i]});
        std::vector<Result<Attributes>> found(lookups.size(), Errc::io);
        volume_->lookup_many(anybody, lookups, found);
        for (u64 i = 0; i < count; ++i)
            ASSERT_EQ(found[i].code(), i < names_max / 2 ? Errc::ok : Errc::no_entry) << i;
    }

    static constexpr u64 names_max = 3000;

    Room room_;
    const std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(64 * mib);
    std::unique_ptr<Volume> volume_;
    std::vector<std::string> names_;
};

TEST_F(RoomForLookups, KeepsNobodyWaitingWhileItIsTaken) {
    room_.hold(true);
    std::jthread asking([&] { look_up(names_max); });
    ASSERT_TRUE(room_.wait_until_asked());
    // A command, batches, workers, and a commit.
    const Handle other = make_directory(*volume_, volume_->root(), "other");
    create(other, 500);
    look_up(500);
    std::atomic<u64> seen{0};
    const auto visit = [&](const Scanned&) {
        seen.fetch_add(1, std::memory_order_relaxed);
        return true;
    };
    EXPECT_EQ(volume_->scan(anybody, volume_->root(), visit), Errc::ok);
    EXPECT_GE(seen.load(std::memory_order_relaxed), 500u);
    EXPECT_EQ(volume_->sync(), Errc::ok);
    EXPECT_EQ(room_.streams(), 0u);
    room_.hold(false);
    asking.join();
    EXPECT_EQ(room_.streams(), 1u);
}

TEST_F(RoomForLookups, IsNotNeededForAnswers) {
    room_.refuse();
    look_up(names_max);
    look_up(names_max);
    EXPECT_EQ(room_.asked(), 2u);
    EXPECT_EQ(room_.streams(), 0u);
}

}  // namespace
}  // namespace warren::lookup_room_test

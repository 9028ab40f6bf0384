// SPDX-License-Identifier: Apache-2.0
// Lookups of many names while another call uses all workers: they do not wait for it, because it
// may wait for something that their caller has, such as the GIL of Python.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::lookups_beside_run_test {
namespace {

constexpr u64 names_count = 9000;  // several chunks of a batch

class LookupsBesideRun : public testing::TestWithParam<std::string> {
 protected:
    void SetUp() override {
        Failure failure;
        // One worker: the call that has the workers runs on its caller's thread.
        volume_ = open_on_engine(std::make_unique<FaultDisk>(*disk_), GetParam(), {.workers = 1},
                                 failure);
        ASSERT_TRUE(volume_) << failure.message;
        std::vector<Creation> creations;
        for (u64 i = 0; i < names_count; ++i)
            names_.push_back("name" + std::to_string(i));
        for (const std::string& name : names_)
            creations.push_back({volume_->root(), name, {}});
        std::vector<Result<Attributes>> made(creations.size(), Errc::io);
        volume_->create_many(anybody, creations, made);
        for (const Result<Attributes>& one : made)
            ASSERT_TRUE(one);
    }
    void TearDown() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        expect_clean(*disk_);
    }

    /// How many names are found.
    u64 look_up() {
        std::vector<Lookup> lookups;
        for (const std::string& name : names_)
            lookups.push_back({volume_->root(), name});
        std::vector<Result<Attributes>> found(lookups.size(), Errc::io);
        volume_->lookup_many(anybody, lookups, found);
        return static_cast<u64>(
            std::ranges::count_if(found, [](const auto& one) { return !!one; }));
    }

    const std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(64 * mib);
    std::unique_ptr<Volume> volume_;
    std::vector<std::string> names_;
};

TEST_P(LookupsBesideRun, AreAnswered) {
    constexpr std::chrono::seconds patience{30};
    std::future<u64> found;
    bool were_answered = false;
    const auto look_up_meanwhile = [&](u64) {
        if (found.valid()) return true;
        found = std::async(std::launch::async, [&] { return look_up(); });
        were_answered = found.wait_for(patience) == std::future_status::ready;
        return true;
    };
    Rebuilt rebuilt;
    EXPECT_EQ(volume_->rebuild(anybody, volume_->root(), rebuilt, look_up_meanwhile), Errc::ok);
    ASSERT_TRUE(found.valid());
    EXPECT_TRUE(were_answered);
    EXPECT_EQ(found.get(), names_count);
}

INSTANTIATE_TEST_SUITE_P(Engines, LookupsBesideRun, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return engine.param; });

}  // namespace
}  // namespace warren::lookups_beside_run_test

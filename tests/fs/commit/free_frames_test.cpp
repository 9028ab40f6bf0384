// SPDX-License-Identifier: Apache-2.0
// The memory of empty frames is returned to the system, and the frames can be reused, also while
// other threads create and remove names.
#include "fs/commit/free_frames.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/core/frame_bits.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::free_frames_test {
namespace {

class FreeFrames : public testing::Test {
 protected:
    FreeFrames() {
        Failure failure;
        volume_ =
            open_on_engine(std::make_unique<FaultDisk>(*disk_), "cpu", {.workers = 2}, failure,
                           ~u64{0}, [&](VolumeImplementation& volume) { inside_ = &volume; });
        EXPECT_TRUE(volume_) << failure.message;
    }
    ~FreeFrames() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        expect_clean(*disk_);
    }

    void make_tree(const std::string& name, u64 files) {
        const Handle top = make_directory(*volume_, volume_->root(), name);
        for (u64 i = 0; i < files; ++i)
            ASSERT_EQ(volume_->create(anybody, top, "file" + std::to_string(i), {}).code(),
                      Errc::ok);
    }
    void remove(const std::string& name) {
        Removal removal;
        ASSERT_EQ(volume_->remove_tree(anybody, volume_->root(), name, removal), Errc::ok);
    }
    /// Counts blocks that are in memory, of all frames or of free ones.
    u64 resident_blocks(bool of_free_ones) const {
        const core::Store& store = inside_->store();
        constexpr u64 words = format::blocks_per_frame / 64;
        u64 count = 0;
        for (u64 w = 0; w < store.frame_count * words; ++w) {
            const bool is_free = core::kind_of(store, w / words) == format::FrameKind::free;
            if (is_free || !of_free_ones) {
                count += static_cast<u64>(std::popcount(relaxed_load(store.resident[w])));
            }
        }
        return count;
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(128 * mib);
    VolumeImplementation* inside_ = nullptr;
    std::unique_ptr<Volume> volume_;
};

TEST_F(FreeFrames, GiveTheirMemoryBackAndAreUsedAgain) {
    const u64 before = resident_blocks(false);
    for (int round = 0; round < 3; ++round) {
        make_tree("tree", 30'000);
        ASSERT_EQ(volume_->sync(), Errc::ok);
        EXPECT_GT(resident_blocks(false), before + 2000);
        remove("tree");
        ASSERT_EQ(inside_->commit_and_free(false), Errc::ok);
        EXPECT_GT(resident_blocks(true), 1000u);
        give_back_free_frames(inside_->store());
        EXPECT_EQ(resident_blocks(true), 0u);
        EXPECT_LT(resident_blocks(false), before + 1024) << "of two frames";
        expect_counts_agree(*volume_);
    }
}

TEST_F(FreeFrames, OfAVolumeAtRestGoByItself) {
    make_tree("tree", 30'000);
    remove("tree");
    ASSERT_EQ(volume_->sync(), Errc::ok);
    EXPECT_EQ(volume_->sync(), Errc::ok);
    EXPECT_GT(resident_blocks(false), 1500u) << "it was at work a moment ago";
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    EXPECT_EQ(volume_->sync(), Errc::ok);
    EXPECT_EQ(resident_blocks(true), 0u);
    EXPECT_LT(resident_blocks(false), 1500u);
}

TEST_F(FreeFrames, BesideOthersWhoTakeAndFreeThem) {
    std::atomic<bool> is_over{false};
    std::thread keeper([&] {
        while (!is_over.load()) {
            EXPECT_EQ(inside_->commit_and_free(false), Errc::ok);
            give_back_free_frames(inside_->store());
        }
    });
    std::vector<std::thread> makers;
    for (int maker = 0; maker < 2; ++maker) {
        makers.emplace_back([&, maker] {
            const std::string name = "tree" + std::to_string(maker);
            for (int round = 0; round < 6 && !HasFailure(); ++round) {
                make_tree(name, 12'000);
                remove(name);
            }
        });
    }
    for (std::thread& maker : makers)
        maker.join();
    is_over = true;
    keeper.join();
    expect_counts_agree(*volume_);
}

}  // namespace
}  // namespace warren::free_frames_test

// SPDX-License-Identifier: Apache-2.0
// A block of metadata that is freed and reused for another object while a read of it is under way:
// the old bytes must not replace the new contents in memory. The disk completes reads when the test
// tells it to; each way in which blocks come into memory is tested.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

#include "fs/core/allocator.hpp"
#include "fs/ops/show_block.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/holding_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::late_read_test {
namespace {

/// The frames of metadata blocks.
struct Way {
    const char* name;
    bool is_engines;   // the memory of an engine that has its own
    u64 buffer_bytes;  // 0: as many as there are
};

class LateRead : public testing::TestWithParam<Way> {
 protected:
    void SetUp() override {
        open();
        make_file(*volume_, volume_->root(), "kept");  // so that its leaf keeps the frame
        const u64 link = make_link("old", old_target);
        close();
        place_ = target_place(link);
        open();
        ASSERT_TRUE(volume_->attributes(volume_->root()));
        if (GetParam().buffer_bytes == 0 &&
            core::test_bit(implementation_->store().resident, place_ / format::block_size)) {
            GTEST_SKIP() << "a GPU's engine reads all there is when it is opened";
        }
    }
    void TearDown() override {
        close();
        EXPECT_TRUE(expect_clean(*memory_));
    }

    void open() {
        Failure failure;
        volume_ = open_on_engine(
            std::make_unique<FaultDisk>(disk_), GetParam().is_engines ? engine_of_its_own() : "cpu",
            {.workers = 2, .meta_buffer_bytes = GetParam().buffer_bytes}, failure, ~u64{0},
            [this](VolumeImplementation& volume) { implementation_ = &volume; });
        ASSERT_NE(volume_, nullptr) << failure.message;
    }
    void close() {
        ASSERT_EQ(volume_->close(), Errc::ok);
        volume_ = nullptr;
    }
    /// A symbolic link whose target takes a block; returns the number of its inode.
    u64 make_link(const std::string& name, const std::string& target) {
        const auto made =
            volume_->create(anybody, volume_->root(), name, {.mode = 0120777, .target = target});
        EXPECT_TRUE(made);
        return made ? made->handle.inode : 0;
    }
    Result<std::string> target_of(const std::string& name) {
        const auto found = volume_->lookup(anybody, volume_->root(), name);
        if (!found) return found.code();
        return volume_->read_link(found->handle);
    }
    /// The block address of a link's target, according to the disk.
    u64 target_place(u64 link) {
        format::Block block;
        const u64 place = link * format::inode_size;
        const u64 in_block = place % format::block_size;
        EXPECT_EQ(memory_->read(place - in_block, std::as_writable_bytes(std::span(&block, 1))),
                  Errc::ok);
        const auto& inode =
            reinterpret_cast<const format::Inode*>(&block)[in_block / format::inode_size];
        EXPECT_EQ(inode.area_kind, static_cast<u8>(format::AreaKind::target));
        return format::BlockPointer{inode.area.words[0]}.offset();
    }
    /// Lets a thread ask for the target of `old` and removes the link before the answer has come.
    std::future<Result<std::string>> read_while_it_goes() {
        disk_.hold(place_);
        auto late = std::async(std::launch::async, [this] { return target_of("old"); });
        EXPECT_TRUE(disk_.wait_until_held(place_));
        EXPECT_EQ(volume_->unlink(anybody, volume_->root(), "old"), Errc::ok);
        EXPECT_EQ(volume_->sync(), Errc::ok);
        EXPECT_EQ(volume_->sync(), Errc::ok);
        return late;
    }
    void expect_late(std::future<Result<std::string>>& late) {
        const Result<std::string> answer = late.get();
        EXPECT_TRUE(answer ? *answer == old_target : answer.code() == Errc::stale)
            << static_cast<int>(answer.code());
    }

    const std::string old_target = std::string(300, 'a');
    const std::string new_target = std::string(400, 'b');
    std::unique_ptr<MemoryDisk> memory_ = make_memory_disk(16 * mib);
    HoldingDisk disk_{*memory_};
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
    u64 place_ = 0;
};

TEST_P(LateRead, ofABlockThatIsAnothersByNowBringsNothingOld) {
    auto late = read_while_it_goes();
    auto making = std::async(std::launch::async, [this] { return make_link("new", new_target); });
    // Where a block enters a buffer only by a read, the creator waits for that read.
    using std::chrono::seconds;
    while (implementation_->loader().waiters() == 0 &&
           making.wait_for(seconds(0)) != std::future_status::ready) {
        std::this_thread::yield();
    }
    disk_.let_go(place_);
    const u64 link = making.get();
    expect_late(late);
    for (const bool is_open_again : {false, true}) {
        if (is_open_again) {
            close();
            EXPECT_EQ(target_place(link), place_) << "the place was not used again";
            open();
        }
        const Result<std::string> target = target_of("new");
        ASSERT_TRUE(target);
        EXPECT_EQ(*target, new_target);
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, LateRead,
                         testing::Values(Way{"AllThatIsRead", false, 0},
                                         Way{"Buffer", false, small_meta_buffer},
                                         Way{"AnEngine", true, 0},
                                         Way{"BufferOfAnEngine", true, small_meta_buffer}),
                         [](const auto& way) { return std::string(way.param.name); });

using LateReadInPlace = LateRead;

TEST_P(LateReadInPlace, ofABlockThatIsBeingGivenToAnotherIsDropped) {
    constexpr u64 pattern = 0x5a5a5a5a5a5a5a5a;
    auto late = read_while_it_goes();
    // Acts like an operation that has reserved the block and is about to make it resident: the
    // bytes that it then writes must not be replaced by those that were read.
    const core::Store& store = implementation_->store();
    const auto run = core::reserve_run(store, 0, format::FrameKind::metadata, place_, 1);
    ASSERT_TRUE(run);
    ASSERT_EQ(run->place, place_);
    auto& block = *reinterpret_cast<format::Block*>(store.base + place_);
    for (u64& word : block.words)
        relaxed_store(word, pattern);
    disk_.let_go(place_);
    expect_late(late);
    u64 changed = 0;
    for (u64& word : block.words)
        changed += relaxed_load(word) != pattern;
    EXPECT_EQ(changed, 0u);
    for (u64& word : block.words)
        relaxed_store(word, 0);
    core::unreserve(store, place_, 1);
}

TEST_P(LateReadInPlace, isNotShownInAFrameThatHasAnotherKindByNow) {
    auto late = read_while_it_goes();
    const core::Store& store = implementation_->store();
    const format::Block old{};
    ops::show_block(store, place_, format::FrameKind::inodes, old);
    EXPECT_FALSE(core::is_resident(store, place_));
    ops::show_block(store, place_, format::FrameKind::metadata, old);
    EXPECT_TRUE(core::is_resident(store, place_));
    disk_.let_go(place_);
    expect_late(late);
}

TEST_P(LateReadInPlace, ofABlockThatIsFreeChangesNothingForItsNextOwner) {
    auto late = read_while_it_goes();
    disk_.let_go(place_);
    expect_late(late);
    make_link("new", new_target);
    const Result<std::string> target = target_of("new");
    ASSERT_TRUE(target);
    EXPECT_EQ(*target, new_target);
}

INSTANTIATE_TEST_SUITE_P(Ways, LateReadInPlace, testing::Values(Way{"AllThatIsRead", false, 0}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace warren::late_read_test

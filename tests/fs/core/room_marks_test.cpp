// SPDX-License-Identifier: Apache-2.0
// The free-space hints of block groups, when one thread frees an inode or block at the moment at
// which another finds that there is none: free space must be found without opening the volume
// again.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fs/ops/inode_frame.hpp"
#include "fs/ops/unlink.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::room_marks_test {
namespace {

using format::FrameKind;
using ops::bitmap_words;

/// A team of one lane that calls `meanwhile` once it has scanned every word of a bitmap and found
/// nothing.
struct LookingTeam {
    static constexpr u32 width = 1;

    struct Look {
        u32 words = 0;  // since one had a free number
        u32 all = 0;
        std::function<void()> meanwhile;
    };

    Look* look = nullptr;
    u32 worker = 0;

    u32 lane() const { return 0; }
    bool is_leader() const { return true; }
    u32 ballot(bool vote) const {
        look->words = vote ? 0 : look->words + 1;
        ++look->all;
        if (look->words == bitmap_words && look->meanwhile) std::exchange(look->meanwhile, {})();
        return vote ? 1 : 0;
    }
    void sync() const {}
    template <class T>
    T broadcast(T value, u32 /*from*/) const {
        return value;
    }
};

class RoomMarks : public testing::Test {
 protected:
    void SetUp() override {
        Failure failure;
        volume_ = open_on_engine(
            std::make_unique<FaultDisk>(*disk_), "cpu", {.workers = 2}, failure, ~u64{0},
            [this](VolumeImplementation& volume) { implementation_ = &volume; });
        ASSERT_NE(volume_, nullptr) << failure.message;
    }
    void TearDown() override {
        ASSERT_EQ(volume_->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*disk_));
    }
    const core::Store& store() { return implementation_->store(); }
    static std::string name_of(u64 number) { return "file" + std::to_string(number); }
    Result<Attributes> create(u64 number) {
        return volume_->create(anybody, volume_->root(), name_of(number), {});
    }
    Errc unlink(u64 number) { return volume_->unlink(anybody, volume_->root(), name_of(number)); }
    /// Creates files until the first inode group, that of the root, is full; returns how many.
    u64 fill_frame() {
        constexpr u64 slots = format::inodes_per_frame - format::inodes_per_block;
        const u64 count = slots - volume_->statistics().inodes_used;
        for (u64 i = 0; i < count; ++i)
            EXPECT_TRUE(create(i)) << i;
        return count;
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(16 * mib);
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
};

TEST_F(RoomMarks, anInodeThatIsFreedWhileItsFrameIsFoundFullIsFound) {
    const u64 count = fill_frame();
    const auto victim = volume_->lookup(anybody, volume_->root(), name_of(count / 2));
    ASSERT_TRUE(victim);
    LookingTeam::Look look;
    look.meanwhile = [&] {
        const std::string name = name_of(count / 2);
        core::Operation<ThreadTeam> removal(ThreadTeam{}, store());
        removal.barrier_is_held = true;  // by the search, for which a commit would wait
        EXPECT_TRUE(ops::unlink(removal, credentials_of(anybody), volume_->root(), name.data(),
                                static_cast<u32>(name.size()), false, 0));
        core::finish(removal);
    };
    core::Operation<LookingTeam> op(LookingTeam{&look}, store());
    const Result<core::ReservedInode> reserved = core::reserve_inode(op);
    EXPECT_FALSE(look.meanwhile) << "nobody has looked at the whole frame";
    ASSERT_EQ(reserved.code(), Errc::ok);
    EXPECT_EQ(reserved->inode.number, victim->handle.inode);
    core::finish(op);
}

TEST_F(RoomMarks, aFullFrameIsNotLookedAtAgain) {
    fill_frame();
    LookingTeam::Look look;
    core::Operation<LookingTeam> op(LookingTeam{&look}, store());
    EXPECT_EQ(core::reserve_inode(op).code(), Errc::need_inodes);
    const u32 looked = look.words;
    EXPECT_GE(looked, bitmap_words);
    EXPECT_EQ(core::reserve_inode(op).code(), Errc::need_inodes);
    EXPECT_EQ(look.words, looked);
    core::finish(op);
}

/// Else it could free the frame, and an operation after it use the bitmap's block for something
/// else, in which the search would then set a bit.
TEST_F(RoomMarks, noCommitTakesItsSnapshotWhileAFrameIsSearched) {
    fill_frame();
    std::future<Errc> commit;
    LookingTeam::Look look;
    look.meanwhile = [&] {
        commit = std::async(std::launch::async, [&] { return volume_->sync(); });
        EXPECT_EQ(commit.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    };
    core::Operation<LookingTeam> op(LookingTeam{&look}, store());
    EXPECT_EQ(core::reserve_inode(op).code(), Errc::need_inodes);
    EXPECT_EQ(commit.get(), Errc::ok);
    core::finish(op);
}

TEST_F(RoomMarks, aSearchForANumberGoesOnAtTheWordOfTheLastOne) {
    const u64 count = fill_frame();
    const auto free_word = [&](u32 word, u64 most) {
        std::set<u64> freed;
        for (u64 i = 0; i < count && freed.size() < most; ++i) {
            const auto file = volume_->lookup(anybody, volume_->root(), name_of(i));
            if (!file || core::inode_bit(file->handle.inode).word != word) continue;
            EXPECT_EQ(unlink(i), Errc::ok);
            freed.insert(file->handle.inode);
        }
        return freed;
    };
    constexpr u32 worker = 16;
    ASSERT_EQ(core::start_word(worker), 0u);
    LookingTeam::Look look;
    std::vector<std::unique_ptr<core::Operation<LookingTeam>>> holders;
    const auto expect_number = [&](u64 number, u32 words) {
        look.all = 0;
        holders.push_back(
            std::make_unique<core::Operation<LookingTeam>>(LookingTeam{&look, worker}, store()));
        const Result<core::ReservedInode> reserved = core::reserve_inode(*holders.back());
        ASSERT_EQ(reserved.code(), Errc::ok);
        EXPECT_EQ(reserved->inode.number, number);
        EXPECT_EQ(look.all, words);
    };
    const std::set<u64> last_word = free_word(bitmap_words - 1, 64);
    ASSERT_EQ(last_word.size(), 64u);
    u32 words = bitmap_words;
    for (const u64 number : last_word) {
        expect_number(number, words);
        words = 1;
    }
    // One in a word before it is found when the search comes round.
    expect_number(*free_word(1, 1).begin(), 3);
    for (const auto& op : holders)
        core::finish(*op);
}

// A thread that holds all of a block group for a moment makes others find it full.

TEST_F(RoomMarks, blocksThatAreGivenBackAreLookedFor) {
    const auto run = core::reserve_run(store(), 0, FrameKind::metadata, 0, 1);
    ASSERT_TRUE(run);
    core::unreserve(store(), run->place, 1);
    const u64 frame = run->place / format::frame_size;
    u64* const room = core::space_hints(store(), FrameKind::metadata);
    const u64 bits = core::reserve_bits(store(), frame, 7, core::free_bits(store(), frame, 7));
    ASSERT_NE(bits, 0u);
    core::clear_bit(room, frame);
    EXPECT_FALSE(core::release_frame(store(), frame)) << "blocks of it are reserved";
    EXPECT_TRUE(core::test_bit(room, frame));
    core::clear_bit(room, frame);
    core::give_back_bits(store(), frame, 7, bits);
    EXPECT_TRUE(core::test_bit(room, frame));
}

TEST_F(RoomMarks, inodesOfAFrameThatWasNotEmptyAreLookedFor) {
    const u64 frame = volume_->root().inode / format::inodes_per_frame;
    u64* const room = core::space_hints(store(), FrameKind::inodes);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    core::clear_bit(room, frame);
    core::Operation<ThreadTeam> op(ThreadTeam{}, store());
    EXPECT_EQ(ops::end_inode_frame(op, frame), Errc::not_empty);
    core::finish(op);
    EXPECT_TRUE(core::test_bit(room, frame));
}

/// For machines that may reorder the read of the hint before the release of the blocks.
TEST_F(RoomMarks, aMarkThatWasTakenTooLateIsBackWithTheNextCommit) {
    fill_frame();
    const u64 frame = volume_->root().inode / format::inodes_per_frame;
    u64* const room = core::space_hints(store(), FrameKind::inodes);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    ASSERT_EQ(unlink(7), Errc::ok);
    core::clear_bit(room, frame);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    EXPECT_TRUE(core::test_bit(room, frame));
}

TEST_F(RoomMarks, inodesThatComeAndGoInACrowdAreAllFound) {
    constexpr u64 pairs = 2;
    const Seed seed;
    const u64 count = fill_frame();
    const u64 slots = store().state->inode_slots;
    const u64 rounds = 8000 * test_load();
    u64* const room = core::space_hints(store(), FrameKind::inodes);
    const u64 frame = volume_->root().inode / format::inodes_per_frame;
    bool is_lost = false;  // written while all others wait
    std::barrier turn(2 * static_cast<std::ptrdiff_t>(pairs));
    const auto remover = [&](u64 t) {
        for (u64 round = 0; round < rounds && !is_lost; ++round) {
            turn.arrive_and_wait();
            EXPECT_EQ(unlink((round * pairs + t) % count), Errc::ok);
            turn.arrive_and_wait();
            // One block group is enough for as many files as before.
            for (u64 i = 0; t == 0 && i < pairs; ++i)
                EXPECT_TRUE(create((round * pairs + i) % count));
            if (t == 0) is_lost = relaxed_load(store().state->inode_slots) != slots;
            turn.arrive_and_wait();
        }
    };
    const auto seeker = [&](u64 t, Random& random) {
        for (u64 round = 0; round < rounds && !is_lost; ++round) {
            core::set_bit(room, frame);
            turn.arrive_and_wait();
            for (u64 spin = random.below(4000); spin != 0; --spin)
                static_cast<void>(relaxed_load(room[0]));
            core::Operation<ThreadTeam> op(ThreadTeam{static_cast<u32>(t)}, store());
            // Each thread gives back what it finds; a thread that finds nothing has lost nothing.
            const Errc code = core::reserve_inode(op).code();
            EXPECT_TRUE(code == Errc::ok || code == Errc::need_inodes || code == Errc::retry);
            core::finish(op);
            turn.arrive_and_wait();
            turn.arrive_and_wait();
        }
    };
    std::vector<std::function<void(Random&)>> bodies;
    for (u64 t = 0; t < pairs; ++t) {
        bodies.push_back([&, t](Random&) { remover(t); });
        bodies.push_back([&, t](Random& random) { seeker(t, random); });
    }
    run_executor(seed.value(), bodies);
    EXPECT_FALSE(is_lost);
}

}  // namespace
}  // namespace warren::room_marks_test

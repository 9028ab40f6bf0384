// SPDX-License-Identifier: Apache-2.0
// Block groups that a bulk step holds: against a model over random volumes, and beside threads that
// claim groups for themselves; each block group must have exactly one owner.
#include "fs/core/held_frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fs/engine/cpu/store_memory.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/thread_executor.hpp"

namespace warren::held_frames_test {
namespace {

using format::FrameKind;

constexpr u64 frame_count = 400;

/// A store in which `is_free` says which block groups are free.
class Frames {
 public:
    explicit Frames(const std::vector<bool>& is_free) {
        const u64 count = is_free.size();
        const u64 table_blocks = count / format::frames_per_table_block + 1;
        // No block is accessed. With a buffer the store reserves no addresses for all of them, of
        // which a process under the thread sanitizer has too few.
        constexpr u64 meta_buffer_blocks = 64;
        StoreShape shape{count * format::frame_size, 4 * format::block_size, table_blocks,
                         meta_buffer_blocks};
        EXPECT_EQ(memory_.open(shape), Errc::ok);
        for (u64 frame = 0; frame < count; ++frame) {
            if (!is_free[frame]) continue;
            core::set_bit(store().frames_free, frame);
            ++store().state->free_frames;
        }
    }
    const core::Store& store() { return memory_.store(); }

 private:
    StoreMemory memory_;
};

std::vector<u64> frames_of(const core::HeldFrames& held) {
    std::vector<u64> frames;
    for (u64 i = 0; i < u64{64} * core::HeldFrames::words; ++i) {
        if ((held.bits[i / 64] >> i % 64 & 1) != 0) frames.push_back(held.first + i);
    }
    return frames;
}

std::vector<u64> free_frames(const core::Store& store) {
    std::vector<u64> frames;
    for (u64 frame = 0; frame < frame_count; ++frame) {
        if (core::test_bit(store.frames_free, frame)) frames.push_back(frame);
    }
    return frames;
}

TEST(HeldFrames, areFreeOnesWithMemoryAndComeBack) {
    const Seed seed;
    Random random(seed.value());
    u64 held_some = 0;
    for (u32 round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
        std::vector<bool> is_free(frame_count);
        const u64 rare = 1 + random.below(200);
        for (u64 frame = 1; frame < frame_count; ++frame)
            is_free[frame] = random.below(rare) == 0;
        Frames frames(is_free);
        const core::Store& store = frames.store();
        const std::vector<u64> before = free_frames(store);
        store.state->metadata_frames_end = random.below(frame_count);
        store.state->frames_with_memory = random.one_in(3) ? 0 : 1 + random.below(frame_count);
        const u64 memory_end =
            store.state->frames_with_memory == 0 ? frame_count : store.state->frames_with_memory;
        const auto wanted = static_cast<u32>(1 + random.below(70));
        core::HeldFrames held{};
        const Result<u32> count = core::hold_frames(store, held, wanted);
        const auto with_memory = std::count_if(before.begin(), before.end(),
                                               [&](u64 frame) { return frame < memory_end; });
        if (with_memory == 0) {
            EXPECT_EQ(count.code(), before.empty() ? Errc::need_space : Errc::need_frame);
            EXPECT_EQ(free_frames(store), before);
            continue;
        }
        ASSERT_TRUE(count);
        ++held_some;
        const std::vector<u64> taken = frames_of(held);
        EXPECT_EQ(taken.size(), *count);
        EXPECT_LE(*count, wanted);
        EXPECT_GT(*count, 0u);
        for (const u64 frame : taken) {
            EXPECT_TRUE(is_free[frame]) << frame;
            EXPECT_LT(frame, memory_end);
            EXPECT_FALSE(core::test_bit(store.frames_free, frame));
        }
        EXPECT_EQ(store.state->free_frames, before.size() - taken.size());
        // Some are used, the rest is given back.
        const u64 used = random.below(taken.size() + 2);
        for (u64 i = 0; i < used; ++i)
            EXPECT_EQ(core::use_held_frame(store, held), i < taken.size());
        core::let_go_frames(store, held);
        for (u64 i = 0; i < taken.size(); ++i) {
            const FrameKind wanted_kind = i < used ? FrameKind::metadata : FrameKind::free;
            EXPECT_EQ(core::kind_of(store, taken[i]), wanted_kind) << taken[i];
        }
        EXPECT_EQ(free_frames(store).size(), before.size() - std::min<u64>(used, taken.size()));
        EXPECT_EQ(store.state->free_frames, free_frames(store).size());
    }
    EXPECT_GT(held_some, 50u);
}

TEST(HeldFrames, haveOneOwnerBesideThoseWhoClaim) {
    const Seed seed;
    Frames frames(std::vector<bool>(frame_count, true));
    const core::Store& store = frames.store();
    std::vector<std::atomic<u32>> owners(frame_count);
    const auto own = [&](u64 frame) { EXPECT_EQ(owners[frame].fetch_add(1), 0u) << frame; };
    const auto hold = [&](Random& random) {
        for (u32 i = 0; i < 2000; ++i) {
            core::HeldFrames held{};
            if (!core::hold_frames(store, held, static_cast<u32>(1 + random.below(60)))) continue;
            const std::vector<u64> taken = frames_of(held);
            for (const u64 frame : taken)
                own(frame);
            for (const u64 frame : taken)
                owners[frame] = 0;
            core::let_go_frames(store, held);
        }
    };
    const auto claim = [&](Random& random) {
        for (u32 i = 0; i < 4000; ++i) {
            const FrameKind kind = random.one_in(2) ? FrameKind::metadata : FrameKind::data;
            const Result<u64> frame = core::claim_frame(store, kind);
            if (!frame) continue;
            own(*frame);
            owners[*frame] = 0;
            core::unclaim_frame(store, *frame);
        }
    };
    run_executor(seed.value(), {hold, hold, claim, claim});
    EXPECT_EQ(free_frames(store).size(), frame_count);
    EXPECT_EQ(store.state->free_frames, frame_count);
}

/// Two free block groups in a million: a thread that searches for one scans all bits, and so meets
/// many other threads.
class LastFrames : public testing::Test {
 protected:
    static std::vector<bool> two() {
        std::vector<bool> is_free(u64{1} << 20);
        is_free[first] = is_free[second] = true;
        return is_free;
    }
    static constexpr u64 first = 100;
    static constexpr u64 second = 101;

    bool is_free(u64 frame) { return core::test_bit(store_.frames_free, frame); }
    Result<u64> claim_for_contents(Random& random) {
        if (!random.one_in(8)) return core::claim_frame(store_, FrameKind::data);
        const u64 at = random.one_in(2) ? first : second;
        return core::claim_data_frame_at(store_, at) ? Result<u64>(at) : Errc::need_space;
    }
    void expect_as_before() {
        EXPECT_EQ(store_.state->free_frames, 2u);
        EXPECT_TRUE(is_free(first) && is_free(second));
        EXPECT_TRUE(core::claim_frame(store_, FrameKind::data));
        EXPECT_EQ(core::claim_frame(store_, FrameKind::data).code(), Errc::need_space);
        EXPECT_FALSE(core::claim_data_frame_at(store_, is_free(first) ? first : second));
        EXPECT_TRUE(core::claim_frame(store_, FrameKind::metadata));
        EXPECT_EQ(core::claim_frame(store_, FrameKind::metadata).code(), Errc::need_space);
    }

    const Seed seed_;
    Frames frames_{two()};
    const core::Store& store_ = frames_.store();
};

TEST_F(LastFrames, areNotBothTakenForContents) {
    std::atomic<u64> taken = 0;
    const auto fill = [&](Random& random) {
        const Deadline deadline(std::chrono::milliseconds(700));
        while (!deadline.is_over() && !HasFailure()) {
            const Result<u64> frame = claim_for_contents(random);
            if (!frame) continue;
            ++taken;
            std::this_thread::yield();
            EXPECT_TRUE(is_free(first) || is_free(second)) << "none is left for metadata";
            core::unclaim_frame(store_, *frame);
        }
    };
    run_executor(seed_.value(), {fill, fill, fill, fill});
    EXPECT_GT(taken, 0u);
    expect_as_before();
}

TEST_F(LastFrames, areFoundForMetadata) {
    std::atomic<bool> is_over = false;
    const auto fill = [&](Random& random) {
        while (!is_over) {
            const Result<u64> frame = claim_for_contents(random);
            if (frame) core::unclaim_frame(store_, *frame);
        }
    };
    const auto use = [&](Random& random) {
        const Deadline deadline(std::chrono::milliseconds(700));
        while (!deadline.is_over() && !HasFailure()) {
            core::HeldFrames held{};
            if (random.one_in(4)) {
                if (core::hold_frames(store_, held, 1)) core::let_go_frames(store_, held);
                continue;
            }
            const Result<u64> frame = core::claim_frame(store_, FrameKind::metadata);
            EXPECT_TRUE(frame) << "the last one was taken for contents";
            if (frame) core::unclaim_frame(store_, *frame);
        }
        is_over = true;
    };
    run_executor(seed_.value(), {use, fill, fill});
    expect_as_before();
}

/// Each team that finds no block asks for a held group; if none is left, it searches once more.
TEST(HeldFrames, giveEveryTeamABlock) {
    const Seed seed;
    for (u32 round = 0; round < 20; ++round) {
        Frames frames(std::vector<bool>(frame_count, true));
        const core::Store& store = frames.store();
        core::HeldFrames held{};
        ASSERT_TRUE(core::hold_frames(store, held, 2));
        std::fill_n(store.frames_free, frame_count / 64 + 1, u64{0});  // others took them
        std::vector<std::atomic<u32>> owners(frame_count * format::blocks_per_frame);
        std::atomic<u64> reserved = 0;
        const auto take = [&](Random&) {
            for (u32 i = 0; i < 2 * format::blocks_per_frame / 4; ++i) {
                for (bool has_used_all = false;;) {
                    const Result<core::Run> run =
                        core::reserve_run(store, 0, FrameKind::metadata, 0, 1);
                    if (run) {
                        EXPECT_EQ(owners[run->place / format::block_size].fetch_add(1), 0u);
                        ++reserved;
                        break;
                    }
                    if (run.code() == Errc::retry) continue;
                    ASSERT_FALSE(has_used_all);
                    has_used_all = !core::use_held_frame(store, held);
                }
            }
        };
        run_executor(seed.value() + round, {take, take, take, take});
        EXPECT_EQ(reserved, 2 * format::blocks_per_frame);
    }
}

}  // namespace
}  // namespace warren::held_frames_test

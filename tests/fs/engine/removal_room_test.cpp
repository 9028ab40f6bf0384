// SPDX-License-Identifier: Apache-2.0
// The limits of a removal step on a GPU: never more than a commit holds, for volumes of all sizes,
// and enough room for all the names that the step detaches.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "fs/core/held_frames.hpp"
#include "fs/engine/cuda/launch/removal_room.hpp"

#include "tests/support/seed.hpp"

namespace warren::removal_room_test {
namespace {

using cuda_engine::removal_shape_for;
using cuda_engine::RemovalShape;
using cuda_engine::StepRoom;

/// A store of which only the counts are used.
struct Counts {
    core::StoreState state{};
    core::Store store{};

    Counts(u64 size_bytes, u64 journal_room, u64 inode_frames) {
        state.journal_room = journal_room;
        state.inode_slots =
            inode_frames * (format::inodes_per_frame - u64{format::inodes_per_block});
        store.state = &state;
        store.size_bytes = size_bytes;
        store.frame_count = size_bytes / format::frame_size;
    }
    u64 warps() const { return removal_shape_for(store).warps(); }
    bool has_room() const { return cuda_engine::has_room_for_steps(store, warps()); }
};

/// The room of a journal as mkfs creates it: two halves, each with a few blocks of overhead.
u64 journal_room_of(u64 size_bytes) {
    const u64 journal = std::clamp<u64>(size_bytes / 32, 2 * mib, gib);
    return journal / format::block_size / 2 - 6;
}

TEST(RemovalRoom, isThereInVolumesOfAllSizesHoweverManyInodesTheyHave) {
    for (u64 size = 64 * mib; size <= 64 * 1024 * gib; size += size / 3) {
        const u64 frames = size / format::frame_size;
        for (const u64 inode_frames : {u64{1}, frames / 8, frames * 3 / 4}) {
            const Counts volume(size, journal_room_of(size), inode_frames);
            EXPECT_TRUE(volume.has_room()) << size << " " << inode_frames;
        }
    }
    // All warps where there is much room.
    for (const u64 size : {4 * gib, 64 * gib, 1024 * gib, 2048 * gib, 4096 * gib})
        EXPECT_EQ(Counts(size, journal_room_of(size), 500).warps(), RemovalShape().warps()) << size;
}

TEST(RemovalRoom, isNotThereInTheSmallestAndInOneThatHasGrownMuch) {
    const Counts smallest(62 * mib, 125, 1);
    EXPECT_FALSE(smallest.has_room());
    const Counts grown(1024 * gib, journal_room_of(64 * mib), 1);
    EXPECT_FALSE(grown.has_room());
}

/// The worst case for names: each that is removed lies in a block of its own, and each that is
/// added splits another.
TEST(RemovalRoom, holdsTheNamesThatAStepTakesAndEnds) {
    for (u64 journal_room = 64; journal_room < 200'000; journal_room += 1 + journal_room / 50) {
        const StepRoom room = StepRoom::of(journal_room);
        EXPECT_GE(room.few_names(), StepRoom::few_min);
        EXPECT_LE(3 * room.few_names(), room.old_blocks);
        // The limit may grow from step to step.
        for (u64 blocks = 0; blocks < 2 * room.old_blocks; ++blocks) {
            const u64 ended = room.ends_few(blocks) ? room.few_names() : blocks;
            const u64 taken = room.few_names();
            if (!room.takes_few(blocks)) {
                ASSERT_LE(2 * blocks, room.old_blocks);
            } else if (room.ends_few(blocks)) {
                ASSERT_LE(ended + 2 * taken, room.old_blocks);
            } else {
                ASSERT_LE(ended + taken, room.old_blocks);
            }
        }
    }
}

TEST(RemovalRoom, ofTheOrphansIsEnoughForAsManyNamesAsItWasAskedFor) {
    const Seed seed;
    Random random(seed.value());
    for (u32 round = 0; round < 10'000; ++round) {
        const u64 names = random.below(200'000);
        const u64 old = random.below(random.one_in(2) ? 100 : 10'000);
        const u64 teams = 1 + random.below(32);
        const u64 blocks = core::blocks_for_orphans(names, old, teams);
        EXPECT_GE(core::orphan_names_in(blocks, old, teams), names) << old << " " << teams;
        // And never for more names than there are: fewer names need no more blocks.
        const u64 given = random.below(5000);
        const u64 fit = core::orphan_names_in(given, old, teams);
        if (fit > 0) {
            EXPECT_LE(core::blocks_for_orphans(fit, old, teams), given) << old << " " << teams;
        }
    }
}

}  // namespace
}  // namespace warren::removal_room_test

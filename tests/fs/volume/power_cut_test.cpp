// SPDX-License-Identifier: Apache-2.0
// The power is cut after every event of a workload, with later writes lost, torn and reordered.
// Each time the volume opens, the check finds nothing, and it holds all that was synced: one of the
// states between the last completed sync and the operation that was running.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/cut_recording.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::power_cut_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;
const OpenOptions one_worker{.workers = 1};

CutRecording record(u64 seed, u64 steps, u64 meta_buffer_bytes) {
    return record_for_cuts(seed, steps, volume_bytes, [&](MemoryDisk& log) {
        return open_on(log, {.workers = 2, .meta_buffer_bytes = meta_buffer_bytes});
    });
}

class PowerCut : public testing::TestWithParam<u64> {};
INSTANTIATE_TEST_SUITE_P(BlockMaps, PowerCut, testing::ValuesIn(block_maps));

TEST_P(PowerCut, afterEveryEventLosesNothingSynced) {
    const Seed seed;
    const CutRecording recording = record(seed.value(), 400 * test_load(), GetParam());
    for (u64 event = seed.part(1) % volume_step;
         event <= recording.disk().event_count() && !HasFailure(); event += volume_step) {
        const auto image = recording.disk().image_after(event);
        // The check must also accept the volume before an open has replayed the journal.
        if (event / volume_step % 4 == 0) expect_clean(*image);
        expect_state_after(*image, recording, event);
    }
}

TEST_P(PowerCut, withWritesTornDroppedAndReorderedLosesNothingSynced) {
    const Seed seed;
    const CutRecording recording = record(seed.value(), 400 * test_load(), GetParam());
    expect_states_after_random_cuts(recording, seed.part(1));
}

TEST_P(PowerCut, duringRecoveryChangesNothing) {
    const Seed seed;
    const CutRecording recording = record(seed.value(), 150 * test_load(), GetParam());
    ASSERT_GT(recording.disk().event_count(), 30u);
    Random random(seed.part(2));
    for (u64 round = 0; round < 12 && !HasFailure(); round += volume_step) {
        const u64 event = random.below(recording.disk().event_count() + 1);
        const auto image = recording.disk().image_after(event);
        image->start_recording();
        expect_state_after(*image, recording, event);
        ASSERT_GT(image->event_count(), 0u) << "an opening writes";
        for (u64 second = 0; second <= image->event_count() && !HasFailure(); ++second) {
            const Cut cut{random.one_in(2), random.one_in(2), random.one_in(2), random.next()};
            SCOPED_TRACE(testing::Message() << "cut again after " << second);
            expect_state_after(*image->image_after(second, cut), recording, event);
        }
    }
}

constexpr u64 grown_files = 12;

/// Writes files of one letter each that grow by whole blocks and by parts of them, and syncs.
void grow_files(Volume& volume, Random& random) {
    for (u64 i = 0; i < grown_files; ++i) {
        const Handle file = make_file(volume, volume.root(), "grown" + std::to_string(i));
        ASSERT_EQ(volume.open_file(file), Errc::ok);
        u64 size = 0;
        for (int part = 0; part < 4; ++part) {
            const u64 length =
                random.one_in(3) ? 4096 : 200 + random.below(random.one_in(2) ? 9000 : 9);
            const std::vector<std::byte> bytes(length, std::byte{'n'});
            ASSERT_TRUE(volume.write(file, size, bytes));
            size += length;
            EXPECT_EQ(random.one_in(2) ? volume.sync() : Errc::ok, Errc::ok);
        }
        ASSERT_EQ(volume.release(file), Errc::ok);
    }
}

/// How many of the grown files show a byte other than their letter.
u64 count_foreign_bytes(Volume& volume) {
    u64 wrong = 0;
    for (u64 i = 0; i < grown_files; ++i) {
        const Result<Attributes> found =
            volume.lookup(anybody, volume.root(), "grown" + std::to_string(i));
        if (!found) continue;
        std::vector<std::byte> bytes(found->size);
        EXPECT_EQ(volume.open_file(found->handle), Errc::ok);
        EXPECT_TRUE(volume.read(found->handle, 0, bytes));
        EXPECT_EQ(volume.release(found->handle), Errc::ok);
        wrong += std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{'n'}; });
    }
    return wrong;
}

TEST_P(PowerCut, neverShowsAFileLargerThanWhatWasWritten) {
    const Seed seed;
    MemoryVolume volume(volume_bytes, {.workers = 1, .meta_buffer_bytes = GetParam()});
    Random random(seed.value());
    volume.disk().start_recording();
    grow_files(*volume, random);
    volume.close();
    volume.disk().stop_recording();
    ASSERT_GT(volume.disk().event_count(), u64{4} * grown_files);
    for (u64 event = random.below(volume_step); event <= volume.disk().event_count();
         event += volume_step) {
        for (int round = 0; round < 6 && !HasFailure(); ++round) {
            const Cut cut{true, random.one_in(2), random.one_in(2), random.next()};
            SCOPED_TRACE(testing::Message() << "cut after event " << event << ", " << cut.seed);
            const auto image = volume.disk().image_after(event, cut);
            const auto after = open_on(*image, one_worker);
            ASSERT_TRUE(after);
            EXPECT_EQ(count_foreign_bytes(*after), 0u);
            ASSERT_EQ(after->close(), Errc::ok);
        }
    }
}

/// Directories full of files, more than a few commits can remove.
u64 make_forest(Volume& volume, u64 directories, u64 files) {
    const Handle top = make_directory(volume, volume.root(), "top");
    for (u64 d = 0; d < directories; ++d) {
        const Handle directory = make_directory(volume, top, "d" + std::to_string(d));
        for (u64 f = 0; f < files; ++f)
            make_file(volume, directory, "f" + std::to_string(f));
    }
    return directories * files + directories + 1;
}

TEST_P(PowerCut, duringTheRemovalOfATreeLeavesAllOrNothing) {
    const Seed seed;
    MemoryVolume volume(64 * mib, {.workers = 2, .meta_buffer_bytes = GetParam()});
    const u64 inodes_before = volume->statistics().inodes_used;
    const u64 made = make_forest(*volume, 60, 150);
    ASSERT_EQ(volume->sync(), Errc::ok);
    volume.disk().start_recording();
    Removal removal;
    ASSERT_EQ(volume->remove_tree(anybody, volume->root(), "top", removal), Errc::ok);
    EXPECT_EQ(removal.files + removal.directories, made);
    volume.close();
    volume.disk().stop_recording();

    Random random(seed.value());
    const u64 events = volume.disk().event_count();
    const u64 stride = events / 150 + 1;
    for (u64 event = 0; event <= events && !HasFailure(); event += 1 + random.below(stride)) {
        SCOPED_TRACE(testing::Message() << "cut after event " << event << " of " << events);
        const Cut cut{random.one_in(3), random.one_in(3), random.one_in(3), random.next()};
        const auto image = volume.disk().image_after(event, cut);
        const auto after = open_on(*image, one_worker);
        ASSERT_TRUE(after);
        const bool is_there = static_cast<bool>(resolve(*after, anybody, "/top/d59/f149"));
        const Errc gone = after->lookup(anybody, after->root(), "top").code();
        EXPECT_EQ(gone, is_there ? Errc::ok : Errc::no_entry);
        EXPECT_EQ(after->statistics().inodes_used, inodes_before + (is_there ? made : 0));
        EXPECT_TRUE(event < events || !is_there);
        ASSERT_EQ(after->close(), Errc::ok);
        ASSERT_TRUE(expect_clean(*image));
    }
}

}  // namespace
}  // namespace warren::power_cut_test

// SPDX-License-Identifier: Apache-2.0
// What each data mode guarantees about contents after a power cut, and what it does not: for every
// guarantee a workload that would break it, for every weaker mode a cut that does break it. All
// with the smallest file buffer, and where no buffer is needed also without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::data_mode_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;
constexpr u64 small_file_buffer = 256 * kib;
constexpr u64 file_count = 4;
constexpr u64 file_bytes = 40'000;  // several blocks, the last one in part

struct Way {
    DataMode data;
    u64 file_buffer_bytes;
    OpenOptions options() const {
        OpenOptions options;
        options.workers = 1;
        options.data = data;
        options.file_buffer_bytes = file_buffer_bytes;
        return options;
    }
};
const Way ways[] = {{DataMode::ordered, 0},
                    {DataMode::ordered, small_file_buffer},
                    {DataMode::writeback, 0},
                    {DataMode::writeback, small_file_buffer},
                    {DataMode::journal, 0},  // takes a buffer of its own
                    {DataMode::journal, small_file_buffer}};

std::string name_of_way(const testing::TestParamInfo<Way>& way) {
    return std::string(name_of(way.param.data)) +
           (way.param.file_buffer_bytes != 0 ? "Small" : "Default");
}

std::string file_name(u64 number) {
    return "file" + std::to_string(number);
}

std::vector<std::byte> letters(u64 version) {
    return std::vector<std::byte>(file_bytes, static_cast<std::byte>('a' + version % 26));
}

/// Files that are overwritten in place one after the other, with a new letter each time.
struct Overwrites {
    std::unique_ptr<MemoryDisk> log = make_memory_disk(volume_bytes);
    std::vector<u64> step_events;             // by step: events at its end
    std::vector<std::pair<u64, u64>> synced;  // events at return of a sync, steps before it

    void run(const OpenOptions& options, Random& random, u64 steps) {
        const auto volume = open_on(*log, options);
        ASSERT_TRUE(volume);
        std::vector<Handle> files;
        for (u64 i = 0; i < file_count; ++i) {
            files.push_back(make_file(*volume, volume->root(), file_name(i)));
            ASSERT_EQ(volume->open_file(files[i]), Errc::ok);
            ASSERT_TRUE(volume->write(files[i], 0, letters(0)));
        }
        ASSERT_EQ(volume->sync(), Errc::ok);
        log->start_recording();
        synced.emplace_back(0, 0);
        for (u64 s = 1; s <= steps; ++s) {
            ASSERT_TRUE(volume->write(files[s % file_count], 0, letters(s)));
            step_events.push_back(log->event_count());
            if (!random.one_in(5)) continue;
            ASSERT_EQ(volume->sync(), Errc::ok);
            synced.emplace_back(log->event_count(), s);
        }
        for (const Handle& file : files)
            ASSERT_EQ(volume->release(file), Errc::ok);
        ASSERT_EQ(volume->close(), Errc::ok);
        log->stop_recording();
        ASSERT_GT(log->event_count(), 0u);
    }

    u64 synced_before(u64 event) const {
        u64 steps = 0;
        for (const auto& [at, done] : synced)
            steps = at <= event ? done : steps;
        return steps;
    }
    /// The letter of a file after so many steps.
    static std::byte letter_after(u64 file, u64 steps) {
        while (steps > 0 && steps % file_count != file)
            --steps;
        return letters(steps)[0];
    }
};

/// The letter of each file; nothing for a file that shows a mixture.
std::vector<std::optional<std::byte>> letters_in(Volume& volume) {
    std::vector<std::optional<std::byte>> found;
    for (u64 i = 0; i < file_count; ++i) {
        const Result<Attributes> file = volume.lookup(anybody, volume.root(), file_name(i));
        EXPECT_TRUE(file);
        std::vector<std::byte> bytes(file_bytes);
        EXPECT_EQ(volume.open_file(file->handle), Errc::ok);
        EXPECT_TRUE(volume.read(file->handle, 0, bytes));
        EXPECT_EQ(volume.release(file->handle), Errc::ok);
        const bool is_one = bytes == std::vector<std::byte>(file_bytes, bytes[0]);
        found.push_back(is_one ? std::optional(bytes[0]) : std::nullopt);
    }
    return found;
}

/// Whether the files are as they were between two steps at or behind `first`.
bool is_moment(const std::vector<std::optional<std::byte>>& found, u64 first, u64 last) {
    for (u64 steps = first; steps <= last; ++steps) {
        bool fits = true;
        for (u64 i = 0; i < file_count; ++i)
            fits = fits && found[i] == Overwrites::letter_after(i, steps);
        if (fits) return true;
    }
    return false;
}

class DataModes : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, DataModes, testing::ValuesIn(ways), name_of_way);

TEST_P(DataModes, contentsAreOfOneMomentIfTheJournalHasThem) {
    const Seed seed;
    Random random(seed.value());
    Overwrites work;
    constexpr u64 steps = 30;
    work.run(GetParam().options(), random, steps);
    u64 other_moments = 0;
    for (u64 event = 0; event <= work.log->event_count() && !HasFailure(); ++event) {
        const Cut cut{random.one_in(2), random.one_in(2), random.one_in(2), random.next()};
        SCOPED_TRACE(testing::Message() << "cut after event " << event << ", " << cut.seed);
        const auto image = work.log->image_after(event, cut);
        const auto volume = open_on(*image, {.workers = 1});
        ASSERT_TRUE(volume);
        const bool holds = is_moment(letters_in(*volume), work.synced_before(event), steps);
        other_moments += !holds;
        EXPECT_TRUE(holds || GetParam().data != DataMode::journal);
        ASSERT_EQ(volume->close(), Errc::ok);
        ASSERT_TRUE(expect_clean(*image));
    }
    // Otherwise the test could not tell the modes apart.
    EXPECT_TRUE(other_moments > 0 || GetParam().data == DataMode::journal);
}

TEST_P(DataModes, whatWasSyncedIsThere) {
    const Seed seed;
    Random random(seed.value());
    Overwrites work;
    work.run(GetParam().options(), random, 25);
    for (const auto& [event, steps] : work.synced) {
        // All later writes are lost.
        const auto image = work.log->image_after(event, {.drop = true, .seed = random.next()});
        const auto volume = open_on(*image, {.workers = 1});
        ASSERT_TRUE(volume);
        EXPECT_TRUE(is_moment(letters_in(*volume), steps, steps)) << "synced after " << steps;
        ASSERT_EQ(volume->close(), Errc::ok);
    }
}

TEST_P(DataModes, onlyWritebackShowsForeignBytes) {
    constexpr u64 files = is_sanitized ? 4 : 12;
    const Seed seed;
    Random random(seed.value());
    const auto log = make_memory_disk(volume_bytes);
    KeepingDisk disk(*log);
    const auto volume = open_on(disk, GetParam().options());
    ASSERT_TRUE(volume);
    leave_foreign_bytes(*volume);
    ASSERT_EQ(volume->sync(), Errc::ok);
    log->start_recording();
    for (u64 i = 0; i < files; ++i) {
        const Handle file = make_file(*volume, volume->root(), "new" + std::to_string(i));
        ASSERT_EQ(volume->open_file(file), Errc::ok);
        ASSERT_TRUE(volume->write(file, 0, std::vector(file_bytes, std::byte{'n'})));
        ASSERT_EQ(volume->release(file), Errc::ok);
        ASSERT_EQ(volume->sync(), Errc::ok);
    }
    ASSERT_EQ(volume->close(), Errc::ok);
    u64 foreign = 0;
    for (u64 event = 0; event <= log->event_count(); ++event) {
        // Each of the first 64 writes that may be lost is lost alone: one bit each. Then random
        // sets of them.
        std::vector<Cut> cuts;
        for (u64 i = 0; i < std::min<u64>(log->count_unflushed(event), 64); ++i)
            cuts.push_back({.lost = u64{1} << i});
        for (int i = 0; i < 4; ++i)
            cuts.push_back({true, random.one_in(2), random.one_in(2), random.next()});
        for (const Cut& cut : cuts) {
            if (HasFailure()) return;
            const auto image = log->image_after(event, cut);
            const auto after = open_on(*image, {.workers = 1});
            ASSERT_TRUE(after);
            for (u64 i = 0; i < files; ++i) {
                const Result<Attributes> file =
                    after->lookup(anybody, after->root(), "new" + std::to_string(i));
                if (!file) continue;
                std::vector<std::byte> bytes(file->size);
                ASSERT_EQ(after->open_file(file->handle), Errc::ok);
                ASSERT_TRUE(after->read(file->handle, 0, bytes));
                ASSERT_EQ(after->release(file->handle), Errc::ok);
                foreign += std::ranges::count(bytes, std::byte{'n'}) !=
                           static_cast<std::ptrdiff_t>(bytes.size());
            }
            ASSERT_EQ(after->close(), Errc::ok);
            ASSERT_TRUE(expect_clean(*image)) << "names and sizes are sound in each mode";
        }
    }
    if (GetParam().data == DataMode::writeback) {
        EXPECT_GT(foreign, 0u) << "the test does not know the modes apart";
    } else {
        EXPECT_EQ(foreign, 0u);
    }
}

TEST_P(DataModes, randomOperationsLoseNothingSynced) {
    const Seed seed;
    OpenOptions options = GetParam().options();
    options.meta_buffer_bytes = small_meta_buffer;
    const CutRecording recording =
        record_for_cuts(seed.value(), 200 * test_load(), volume_bytes,
                        [&](MemoryDisk& log) { return open_on(log, options); });
    Random random(seed.part(1));
    for (u64 event = random.below(volume_step);
         event <= recording.disk().event_count() && !HasFailure(); event += volume_step) {
        const Cut cut{random.one_in(2), random.one_in(2), random.one_in(2), random.next()};
        SCOPED_TRACE(testing::Message() << "cut seed " << cut.seed);
        const auto image = recording.disk().image_after(event, cut);
        if (GetParam().data == DataMode::writeback) {
            // Contents may be foreign; everything else is sound.
            ASSERT_TRUE(open_on(*image, {.workers = 1}));
            ASSERT_TRUE(expect_clean(*image));
        } else {
            expect_state_after(*image, recording, event);
        }
    }
}

TEST_P(DataModes, everyAnswerIsThatOfTheModelAtTheSmallestSizes) {
    const Seed seed;
    OpenOptions options = GetParam().options();
    options.workers = 2;
    options.meta_buffer_bytes = small_meta_buffer;
    MemoryVolume volume(64 * mib, options);
    RandomOperations driver(*volume, seed.value());
    ASSERT_TRUE(driver.run(test_operations(1500)));
    ASSERT_TRUE(driver.compare());
    driver.let_all_go();
    volume.close_and_check();
}

TEST_P(DataModes, eachWriteThatFailsIsToldAndLosesNothingSynced) {
    bool failed = true;
    for (u64 nth = 1; failed && !HasFailure(); ++nth) {
        SCOPED_TRACE(testing::Message() << "write or flush " << nth);
        MemoryVolume volume(volume_bytes, GetParam().options());
        const Handle file = make_file(*volume, volume->root(), "f");
        ASSERT_EQ(volume->open_file(file), Errc::ok);
        ASSERT_TRUE(volume->write(file, 0, letters(0)));
        ASSERT_EQ(volume->sync(), Errc::ok);
        volume.faults().set_plan({.reads = false, .nth = nth, .is_torn = nth % 2 == 0});
        const Result<u64> written =
            volume->write(file, 0, std::vector(2 * file_bytes, std::byte{'z'}));
        const Errc synced = volume->sync_file(file);
        failed = volume.faults().failed_count() > 0;
        const bool was_told = !written || *written != 2 * file_bytes || synced != Errc::ok;
        EXPECT_EQ(was_told, failed);
        if (!failed) volume.faults().set_plan({});
        EXPECT_EQ(volume->sync() != Errc::ok, failed) << "the volume must be read-only then";
        static_cast<void>(volume->close());
        volume.faults().set_plan({});
        const auto after = open_on(volume.disk(), {.workers = 1});
        ASSERT_TRUE(after);
        const Result<Attributes> found = after->lookup(anybody, after->root(), "f");
        ASSERT_TRUE(found);
        EXPECT_GE(found->size, file_bytes);
        EXPECT_TRUE(failed || found->size == 2 * file_bytes);
        ASSERT_EQ(after->close(), Errc::ok);
        ASSERT_TRUE(expect_clean(volume.disk()));
    }
}

}  // namespace
}  // namespace warren::data_mode_test

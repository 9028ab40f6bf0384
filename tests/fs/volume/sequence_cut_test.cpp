// SPDX-License-Identifier: Apache-2.0
// Every sequence of one or two operations from a small set, with an fsync after each operation or
// only after the second, on a small volume whose blocks hold old data. The power is cut after every
// write, with the writes since the last flush lost in every combination or in samples of them, torn
// and reordered. The volume must then hold what an fsync had made durable, or a state between two
// operations after it; contents never show a byte that was not written to the file.
//
// The set includes all that the operations require of each other: a sequence whose second operation
// fails in the model too is not counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/script.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::sequence_cut_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;

/// The operations, and by index the path that is fsynced after each.
struct Alphabet {
    Script script;
    std::vector<std::string> synced;

    Script& with(const std::string& path) {
        synced.push_back(path);
        return script;
    }
    u64 size() const { return synced.size(); }
    const Script::Step& at(u64 index) const { return script.steps()[index]; }
};

void add_names(Alphabet& set) {
    add_create(set.with("/a/n"), "/a/n");
    add_create(set.with("/a/d"), "/a/d", 040755);
    add_symlink(set.with("/a"), "/a/s", 20);
    add_symlink(set.with("/a"), "/a/t", 1000);
    add_link(set.with("/a/f"), "/a/f", "/b/l");
    add_unlink(set.with("/a"), "/a/f");
    add_unlink(set.with("/b"), "/b/h");
    add_remove_directory(set.with("/b"), "/b/e");
    add_remove_tree(set.with("/"), "/b");
    add_rename(set.with("/a/n"), "/a/f", "/a/n");
    add_rename(set.with("/a/f"), "/a/n", "/a/f");
    add_rename(set.with("/a"), "/a/f", "/a/g");
    add_rename(set.with("/b"), "/a/f", "/b/n");
    add_rename(set.with("/b/h"), "/a/f", "/b/h");
    add_rename(set.with("/a"), "/a/f", "/b/h", Rename::exchange);
    add_rename(set.with("/a/e"), "/b/e", "/a/e");
    add_rename(set.with("/a/d"), "/b/e", "/a/d");
    add_clone(set.with("/a/c"), "/b", "/a/c");
    add_clone(set.with("/b/e"), "/a", "/b/e");
    add_clone(set.with("/a/n"), "/a/f", "/a/n");
    add_share(set.with("/b/h"), "/a/f", "/b/h", 4096);
    add_dedupe(set.with("/b/k"), "/a/f", "/b/k", 5000);
}

void add_contents(Alphabet& set) {
    add_write(set.with("/a/f"), "/a/f", 0, 5000, 'A');
    add_write(set.with("/a/f"), "/a/f", 1000, 2000, 'B');
    add_write(set.with("/a/f"), "/a/f", 5000, 9000, 'C');  // appends
    add_write(set.with("/a/f"), "/a/f", 100'000, 700, 'D');
    add_write(set.with("/a/g"), "/a/g", 0, 50, 'E');
    add_write(set.with("/a/g"), "/a/g", 60, 200, 'F');  // no longer in the inode
    add_write(set.with("/a/n"), "/a/n", 0, 9000, 'G');
    add_resize(set.with("/a/f"), "/a/f", 0);
    add_resize(set.with("/a/f"), "/a/f", 1000);
    add_resize(set.with("/a/f"), "/a/f", 20'000);
    add_allocate(set.with("/a/f"), "/a/f", Allocate::reserve, 5000, 35'000);
    add_allocate(set.with("/a/g"), "/a/g", Allocate::reserve_keep_size, 0, 9000);
    add_allocate(set.with("/a/f"), "/a/f", Allocate::punch_hole, 0, 4096);
    add_allocate(set.with("/a/f"), "/a/f", Allocate::zero_range, 1000, 7000);
}

void add_attributes(Alphabet& set) {
    AttributeChange change;
    change.which = AttributeChange::mode;
    change.new_mode = 0600;
    add_change(set.with("/a/f"), "/a/f", change);
    change.which = AttributeChange::user | AttributeChange::group;
    change.new_user = 7;
    change.new_group = 8;
    add_change(set.with("/b/h"), "/b/h", change);
    add_attribute(set.with("/a/f"), "/a/f", 30);
    add_attribute(set.with("/a/f"), "/a/f", 2000);
    add_attribute(set.with("/b/h"), "/b/h", 0);
}

Alphabet make_alphabet() {
    Alphabet set;
    add_names(set);
    add_contents(set);
    add_attributes(set);
    return set;
}

/// Two directories, a file in blocks in each, a copy of the first one, a small file, an empty
/// directory.
Script make_base() {
    Script script;
    add_create(script, "/a", 040755);
    add_create(script, "/b", 040755);
    add_create(script, "/b/e", 040755);
    for (const char* const path : {"/a/f", "/a/g", "/b/h", "/b/k"})
        add_create(script, path);
    add_write(script, "/a/f", 0, 5000, 'f');
    add_write(script, "/a/g", 0, 60, 'g');
    add_write(script, "/b/h", 0, 6000, 'h');
    add_write(script, "/b/k", 0, 5000, 'f');
    add_attribute(script, "/b/h", 40);
    return script;
}

/// The initial contents for all sequences.
struct Base {
    std::unique_ptr<MemoryDisk> disk = make_memory_disk(volume_bytes);
    ModelFileSystem model;

    Base() {
        KeepingDisk keeping(*disk);
        const auto volume = open_on(keeping);
        leave_foreign_bytes(*volume);
        const Script script = make_base();
        for (const Script::Step& step : script.steps()) {
            EXPECT_EQ(step.on_volume(*volume), Errc::ok) << step.text;
            EXPECT_EQ(step.on_model(model), Errc::ok) << step.text;
        }
        EXPECT_EQ(volume->close(), Errc::ok);
    }
};

struct Sequence {
    std::vector<u64> letters;
    bool syncs_each = false;  // else the last one only
};

bool is_possible(const Base& base, const Alphabet& set, const Sequence& sequence) {
    ModelFileSystem model = base.model;
    return std::ranges::all_of(
        sequence.letters, [&](u64 letter) { return set.at(letter).on_model(model) == Errc::ok; });
}

/// Every sequence of one or two operations that is possible.
std::vector<Sequence> make_sequences(const Base& base, const Alphabet& set) {
    std::vector<Sequence> all;
    const auto add = [&](const Sequence& sequence) {
        if (is_possible(base, set, sequence)) all.push_back(sequence);
    };
    for (u64 first = 0; first < set.size(); ++first) {
        add({{first}, true});
        for (u64 second = 0; second < set.size(); ++second) {
            add({{first, second}, true});
            add({{first, second}, false});
        }
    }
    return all;
}

std::string text_of(const Alphabet& set, const Sequence& sequence) {
    std::string text;
    for (const u64 letter : sequence.letters)
        text += (text.empty()          ? ""
                 : sequence.syncs_each ? "; fsync; "
                                       : "; ") +
                set.at(letter).text;
    return text + "; fsync";
}

/// The volume at the start of a sequence.
struct Way {
    const char* name;
    OpenOptions options;
    bool keeps_discarded;
};
const Way ways[] = {
    {"Resident", {.workers = 1}, true},
    {"SmallBuffers",
     {.workers = 1, .meta_buffer_bytes = small_meta_buffer, .file_buffer_bytes = 256 * kib},
     false},
    {"JournalData", {.workers = 1, .data = DataMode::journal}, true}};

Errc sync_path(Volume& volume, const std::string& path) {
    const Result<Handle> handle = handle_at(volume, path);
    return handle ? volume.sync_file(*handle) : handle.code();
}

/// Runs the sequence on a volume of its own, starting from `disk`, whose log is `log`.
void run_sequence(const Base& base, const Alphabet& set, const Sequence& sequence, Disk& disk,
                  MemoryDisk& log, const Way& way, CutRecording& out) {
    ModelFileSystem model = base.model;
    const auto add_state = [&] {
        out.history.add(model);
        out.note_state();
    };
    log.start_recording();
    add_state();
    out.note_sync();
    const auto volume = open_on(disk, way.options);
    ASSERT_TRUE(volume);
    for (const u64 letter : sequence.letters) {
        const Script::Step& step = set.at(letter);
        ASSERT_EQ(step.on_volume(*volume), Errc::ok) << step.text;
        ASSERT_EQ(step.on_model(model), Errc::ok) << step.text;
        add_state();
        if (!sequence.syncs_each && letter != sequence.letters.back()) continue;
        ASSERT_EQ(sync_path(*volume, set.synced[letter]), Errc::ok) << set.synced[letter];
        out.note_sync();
    }
    // Nothing else is written before the cut: the hardest case for what fsync guarantees.
    log.stop_recording();
    ASSERT_GT(log.event_count(), 0u) << "nothing was recorded";
}

CutRecording record(const Base& base, const Alphabet& set, const Sequence& sequence,
                    const Way& way) {
    CutRecording recording;
    recording.log = base.disk->copy();
    MemoryDisk& log = recording.disk();
    KeepingDisk keeping(log);
    Disk& disk = way.keeps_discarded ? static_cast<Disk&>(keeping) : log;
    run_sequence(base, set, sequence, disk, log, way, recording);
    return recording;
}

struct Totals {
    u64 sequences = 0;
    CutFigures figures;
};

void look_at(const Base& base, const Alphabet& set, const Sequence& sequence, const Way& way,
             const CutBounds& bounds, u64 seed, Totals& totals) {
    SCOPED_TRACE(text_of(set, sequence));
    const CutRecording recording = record(base, set, sequence, way);
    if (testing::Test::HasFailure()) return;
    const CutFigures figures = for_each_cut(
        recording, bounds, seed,
        [&](MemoryDisk& image, u64 event) { expect_state_after(image, recording, event); });
    // Open, operation, fsync: with fewer states the harness would test nothing.
    ASSERT_GT(figures.states, figures.cuts);
    ++totals.sequences;
    totals.figures += figures;
}

void print(const Way& way, const Totals& totals) {
    std::printf("%s: %llu sequences, %llu cuts, %llu states\n", way.name,
                static_cast<unsigned long long>(totals.sequences),
                static_cast<unsigned long long>(totals.figures.cuts),
                static_cast<unsigned long long>(totals.figures.states));
}

class SequenceCuts : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, SequenceCuts, testing::ValuesIn(ways),
                         [](const auto& way) { return std::string(way.param.name); });

/// Tests one in `stride` of the sequences of `length` operations; returns the totals.
Totals look_at_sequences(const Way& way, u64 length, u64 stride, const CutBounds& choice) {
    const Seed seed;
    const Base base;
    const Alphabet set = make_alphabet();
    Random random(seed.value());
    Totals totals;
    u64 left_out = random.below(stride);  // before the next one
    for (const Sequence& sequence : make_sequences(base, set)) {
        if (testing::Test::HasFailure()) break;
        if (sequence.letters.size() != length || left_out-- != 0) continue;
        left_out = stride - 1;
        look_at(base, set, sequence, way, choice, random.next(), totals);
    }
    print(way, totals);
    return totals;
}

TEST_P(SequenceCuts, ofOneOperation) {
    EXPECT_GE(look_at_sequences(GetParam(), 1, 1, {.subsets_of_max = 2, .samples = 1}).sequences,
              30u);
}

TEST_P(SequenceCuts, ofSomeOfTwoOperations) {
    EXPECT_GE(
        look_at_sequences(GetParam(), 2, 150 * volume_step, {.subsets_of_max = 2, .samples = 1})
                .sequences *
            volume_step,
        16u);
}

/// A file that gets blocks of another must not show what these held before they were overwritten in
/// place, not even where the writer has not called fsync; nor may a file that was just overwritten
/// and gets blocks of another.
TEST_P(SequenceCuts, ofAnOverwriteAndSharingOfItsBlocks) {
    const Seed seed;
    const Base base;
    Alphabet set;
    add_write(set.with("/a/f"), "/a/f", 0, 4096, 'h');  // as /b/h, so that dedupe shares it
    add_clone(set.with("/a/n"), "/a/f", "/a/n");
    add_clone(set.with("/b/e"), "/a", "/b/e");
    add_share(set.with("/b/h"), "/a/f", "/b/h", 4096);
    add_share(set.with("/a/f"), "/b/h", "/a/f", 4096);
    add_dedupe(set.with("/b/h"), "/a/f", "/b/h", 4096);
    add_dedupe(set.with("/a/f"), "/b/h", "/a/f", 4096);
    Random random(seed.value());
    Totals totals;
    for (u64 sharing = 1; sharing < set.size(); ++sharing) {
        look_at(base, set, {{0, sharing}}, GetParam(), {.subsets_of_max = 6, .samples = 6},
                random.next(), totals);
    }
    print(GetParam(), totals);
    EXPECT_EQ(totals.sequences, set.size() - 1);
}

/// What copies blocks that this file shares with another, or takes them from it.
void add_changes_of_shared_blocks(Alphabet& set, const std::string& path) {
    const std::string directory(directory_of(path));
    add_write(set.with(path), path, 1000, 2000, 'B');
    add_write(set.with(path), path, 0, 4096, 'C');
    add_resize(set.with(path), path, 0);
    add_resize(set.with(path), path, 1000);
    add_allocate(set.with(path), path, Allocate::punch_hole, 0, 4096);
    add_allocate(set.with(path), path, Allocate::zero_range, 1000, 7000);
    add_unlink(set.with(directory), path);
    add_remove_tree(set.with("/"), directory);
}

/// By the one operation of `set`, a file shares blocks with /a/f. Then they are changed or dropped
/// in one of the two files: the other one keeps them, whether the sharing was durable before or
/// not.
void look_at_changes_after_sharing(const Way& way, Alphabet& set) {
    const Seed seed;
    const Base base;
    Random random(seed.value());
    Totals totals;
    const std::string sharer = set.synced[0];
    add_changes_of_shared_blocks(set, "/a/f");
    add_changes_of_shared_blocks(set, sharer);
    const u64 from = 1 + random.below(volume_step);
    for (u64 change = from; change < set.size() && !testing::Test::HasFailure();
         change += volume_step) {
        look_at(base, set, {{0, change}, random.one_in(2)}, way,
                {.subsets_of_max = 2, .samples = 1}, random.next(), totals);
    }
    print(way, totals);
    EXPECT_EQ(totals.sequences * volume_step, set.size() - 1);
}

TEST_P(SequenceCuts, ofASharedRangeAndAChangeOfItsBlocks) {
    Alphabet set;
    add_share(set.with("/b/h"), "/a/f", "/b/h", 4096);
    look_at_changes_after_sharing(GetParam(), set);
}

TEST_P(SequenceCuts, ofACloneAndAChangeOfItsBlocks) {
    Alphabet set;
    add_clone(set.with("/b/n"), "/a/f", "/b/n");
    look_at_changes_after_sharing(GetParam(), set);
}

TEST_P(SequenceCuts, ofADedupedRangeAndAChangeOfItsBlocks) {
    Alphabet set;
    add_dedupe(set.with("/b/k"), "/a/f", "/b/k", 5000);
    look_at_changes_after_sharing(GetParam(), set);
}

class SequenceCutsLong : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, SequenceCutsLong, testing::ValuesIn(ways),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(SequenceCutsLong, ofOneAndTwoOperations) {
    const CutBounds choice = {.subsets_of_max = 6, .samples = 6};
    look_at_sequences(GetParam(), 1, 1, choice);
    EXPECT_GT(look_at_sequences(GetParam(), 2, 1, choice).sequences, 1000u);
}

/// A disk that reports flushes as done without doing them.
class LyingDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc flush() override { return Errc::ok; }
};

/// The errors found for a cut; for a harness that must find some.
std::string what_is_wrong(MemoryDisk& image, const CutRecording& recording, u64 event) {
    Failure failure;
    const auto volume =
        open_on_test_engine(std::make_unique<FaultDisk>(image), {.workers = 1}, failure);
    if (volume == nullptr) return failure.message;
    return recording.history.explain(*volume, recording.first_state(event),
                                     recording.last_state(event));
}

TEST(SequenceCutsHarness, findsADiskThatDoesNotFlush) {
    const Base base;
    const Alphabet set = make_alphabet();
    for (u64 letter = 0; letter < set.size() && !HasFailure(); ++letter) {
        // Blocks reserved behind the end of a file, and equal blocks that become shared, do not
        // affect the comparison.
        const std::string& text = set.at(letter).text;
        if (text.starts_with("allocate (1)") || text.starts_with("dedupe")) continue;
        if (!is_possible(base, set, {{letter}})) continue;
        CutRecording recording;
        recording.log = base.disk->copy();
        LyingDisk lying(recording.disk());
        run_sequence(base, set, {{letter}, true}, lying, recording.disk(), ways[0], recording);
        const u64 end = recording.disk().event_count();
        const auto image = recording.disk().image_after(end, {.lost = ~u64{0}});
        EXPECT_NE(what_is_wrong(*image, recording, end), "") << set.at(letter).text;
    }
}

TEST(SequenceCutsHarness, findsForeignBytesWhereContentsMayComeLate) {
    const Seed seed;
    const Base base;
    const Alphabet set = make_alphabet();
    const Way late = {"Writeback", {.workers = 1, .data = DataMode::writeback}, true};
    u64 wrong = 0;
    for (u64 letter = 0; letter < set.size() && !HasFailure(); ++letter) {
        if (set.at(letter).text != "write 9000 bytes at 5000 of /a/f") continue;
        const CutRecording recording = record(base, set, {{letter}, true}, late);
        for_each_cut(recording, {.subsets_of_max = 6, .samples = 4, .step = 1}, seed.value(),
                     [&](MemoryDisk& image, u64 event) {
                         wrong += !what_is_wrong(image, recording, event).empty();
                     });
    }
    EXPECT_GT(wrong, 0u) << "the oracle does not know data=writeback from data=ordered";
}

}  // namespace
}  // namespace warren::sequence_cut_test

// SPDX-License-Identifier: Apache-2.0
// Each I/O of a small workload fails once: alone, with all later ones, and torn. The caller gets an
// error, nothing crashes, and the volume opens again in one of the permitted states.
#include <gtest/gtest.h>

#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/script.hpp"
#include "tests/support/state_history.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::io_error_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;

/// The contents of the volume before the first I/O fails.
Script make_base() {
    Script script;
    add_create(script, "/old", 040755);
    for (int i = 0; i < 120; ++i)
        add_create(script, "/old/file" + std::to_string(i));
    add_write(script, "/old/file0", 0, 100, 1);
    add_write(script, "/old/file1", 0, 20'000, 2);
    add_attribute(script, "/old/file1", 100);
    add_create(script, "/old/sub", 040755);
    add_create(script, "/old/sub/below");
    return script;
}

/// Some of every operation, with two syncs.
Script make_work() {
    Script script;
    add_create(script, "/new", 040755);
    for (int i = 0; i < 20; ++i)
        add_create(script, "/new/file" + std::to_string(i));
    add_write(script, "/new/file3", 0, 50, 3);
    add_write(script, "/new/file4", 5000, 30'000, 4);
    add_write(script, "/old/file1", 100, 9000, 5);
    script.add_sync();
    add_rename(script, "/old/file5", "/new/moved");
    add_rename(script, "/old/file6", "/new/file6");
    add_rename(script, "/old/sub", "/new/sub");
    add_rename(script, "/old/file7", "/new/file7", Rename::exchange);
    add_link(script, "/old/file1", "/new/linked");
    add_attribute(script, "/new/file3", 1000);
    add_resize(script, "/new/file4", 10'000);
    add_resize(script, "/old/file1", 70'000);
    add_allocate(script, "/old/file1", Allocate::punch_hole, 4096, 8192);
    add_allocate(script, "/new/file8", Allocate::reserve, 0, 40'000);
    // An engine that loads its metadata by few requests still asks the disk for contents.
    for (u64 i = 0; i < 12; ++i) {
        script.add_on("read", "/old/file1", [i](auto& system, Handle file) {
            std::vector<std::byte> bytes(30'000);
            return system.read(file, i * 1000, bytes);
        });
    }
    add_unlink(script, "/old/file9");
    for (int i = 0; i < 90; ++i)
        add_create(script, "/old/more" + std::to_string(i));
    add_remove_tree(script, "/new/sub");
    script.add_sync();
    add_remove_tree(script, "/old");
    add_symlink(script, "/new/long", 1000);
    script.add_sync();
    return script;
}

/// A closed volume with the initial contents, and the states of the workload.
struct Setup {
    std::unique_ptr<MemoryDisk> disk = make_memory_disk(volume_bytes);
    Script work = make_work();
    StateHistory history;

    Setup() {
        ModelFileSystem model;
        const auto volume = open_on(*disk);
        const Script base = make_base();
        for (const Script::Step& step : base.steps()) {
            EXPECT_EQ(step.on_volume(*volume), Errc::ok) << step.text;
            EXPECT_EQ(step.on_model(model), Errc::ok) << step.text;
        }
        EXPECT_EQ(volume->close(), Errc::ok);
        history.add(model);
        for (const Script::Step& step : work.steps()) {
            EXPECT_EQ(step.on_model(model), Errc::ok) << step.text;
            history.add(model);
        }
    }
};

/// The result of one run with a failing I/O.
struct Outcome {
    bool was_opened = false;
    bool was_told = false;  // some call answered an error
    u64 steps_done = 0;     // that answered ok, from the first on
    u64 synced_state = 0;
    bool was_closed = false;
};

enum class AfterError : u8 { stop, go_on };

/// The options with which the volume is opened.
struct Way {
    const char* name;
    u64 meta_buffer_bytes = 0;
    u64 file_buffer_bytes = 0;
    ErrorMode errors = ErrorMode::remount_ro;
    OpenOptions options() const {
        OpenOptions options;
        options.workers = 1;
        options.meta_buffer_bytes = meta_buffer_bytes;
        options.file_buffer_bytes = file_buffer_bytes;
        options.errors = errors;
        return options;
    }
};
const Way ways[] = {
    {.name = "Resident"},
    {.name = "SmallBuffers",
     .meta_buffer_bytes = small_meta_buffer,
     .file_buffer_bytes = 256 * kib},
    {.name = "ResidentContinue", .errors = ErrorMode::go_on},
    {.name = "SmallMetaBufferContinue",
     .meta_buffer_bytes = small_meta_buffer,
     .errors = ErrorMode::go_on},
};

Outcome run_work(const Script& work, Disk& disk, const Way& way, AfterError then) {
    Outcome outcome;
    Failure failure;
    const auto volume =
        open_on_test_engine(std::make_unique<FaultDisk>(disk), way.options(), failure);
    outcome.was_told = volume == nullptr;
    if (volume == nullptr) {
        EXPECT_NE(failure.message, "");
        return outcome;
    }
    outcome.was_opened = true;
    for (u64 i = 0; i < work.steps().size(); ++i) {
        const Script::Step& step = work.steps()[i];
        const Errc code = step.on_volume(*volume);
        if (code != Errc::ok) {
            outcome.was_told = true;
            if (then == AfterError::stop) break;
            continue;
        }
        if (outcome.was_told) continue;
        ++outcome.steps_done;
        if (step.is_sync) outcome.synced_state = outcome.steps_done;
    }
    outcome.was_closed = volume->close() == Errc::ok;
    if (!outcome.was_closed) outcome.was_told = true;
    return outcome;
}

/// Opens the volume after the errors have ended and compares it with the permitted states.
void expect_sound(Setup& setup, MemoryDisk& disk, const Outcome& outcome, AfterError then) {
    const auto volume = open_on(disk, {.workers = 1});
    ASSERT_TRUE(volume);
    if (then == AfterError::stop) {
        const u64 first = outcome.was_closed ? outcome.steps_done : outcome.synced_state;
        const u64 last = outcome.was_opened ? outcome.steps_done + 1 : 0;
        ASSERT_EQ(setup.history.explain(*volume, first, last), "");
    }
    ASSERT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(disk));
}

/// Fails the n-th I/O for every n of the workload.
void fail_each(FaultPlan plan, const Way& way, AfterError then) {
    Setup setup;
    const bool must_tell = !plan.reads;
    for (plan.nth = 1; !testing::Test::HasFailure(); plan.nth += volume_step) {
        SCOPED_TRACE(testing::Message() << "I/O number " << plan.nth << " fails");
        const auto disk = setup.disk->copy();
        FaultDisk faults(*disk);
        faults.set_plan(plan);
        const Outcome outcome = run_work(setup.work, faults, way, then);
        if (faults.failed_count() == 0) {
            EXPECT_FALSE(outcome.was_told);
            EXPECT_EQ(outcome.steps_done, setup.work.steps().size());
            EXPECT_GT(plan.nth, 20u);
            break;
        }
        EXPECT_TRUE(outcome.was_told || !must_tell);
        expect_sound(setup, *disk, outcome, then);
    }
}

class IoError : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, IoError, testing::ValuesIn(ways),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(IoError, ofOneWriteIsToldAndLosesNothingSynced) {
    fail_each({.reads = false, .is_once = true}, GetParam(), AfterError::stop);
}

TEST_P(IoError, ofAllWritesFromOneOnIsToldAndLosesNothingSynced) {
    fail_each({.reads = false}, GetParam(), AfterError::stop);
}

TEST_P(IoError, ofTornWritesIsToldAndLosesNothingSynced) {
    fail_each({.reads = false, .is_torn = true}, GetParam(), AfterError::stop);
}

TEST_P(IoError, ofOneReadDoesNoHarm) {
    fail_each({.writes = false, .flushes = false, .is_once = true}, GetParam(), AfterError::stop);
}

TEST_P(IoError, ofAllReadsFromOneOnDoesNoHarm) {
    fail_each({.writes = false, .flushes = false}, GetParam(), AfterError::stop);
}

TEST_P(IoError, doesNoHarmIfTheCallerGoesOn) {
    fail_each({.is_once = true}, GetParam(), AfterError::go_on);
    fail_each({}, GetParam(), AfterError::go_on);
}

TEST(IoErrorOfACommit, makesTheVolumeReadOnly) {
    MemoryVolume volume(volume_bytes);
    ASSERT_TRUE(volume->create(anybody, volume->root(), "kept", {}));
    ASSERT_EQ(volume->sync(), Errc::ok);
    ASSERT_TRUE(volume->create(anybody, volume->root(), "lost", {}));
    volume.faults().set_plan({.reads = false, .nth = 1});
    EXPECT_EQ(volume->sync(), Errc::io);
    volume.faults().set_plan({});
    EXPECT_EQ(volume->create(anybody, volume->root(), "late", {}).code(), Errc::read_only);
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "kept"), Errc::read_only);
    EXPECT_TRUE(volume->lookup(anybody, volume->root(), "kept"));
    EXPECT_EQ(volume->sync(), Errc::io) << "an error is not forgotten";
    EXPECT_EQ(volume->close(), Errc::io);
}

}  // namespace
}  // namespace warren::io_error_test

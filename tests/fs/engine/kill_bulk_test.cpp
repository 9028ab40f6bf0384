// SPDX-License-Identifier: Apache-2.0
// A process that runs nothing but bulk commands on a volume in a file is killed at a random moment,
// again and again. Each time the volume opens, finishes what was interrupted and is clean, and it
// holds what the process had made durable.
//
// The process is another run of this program, so that it starts with an unused GPU context.
// WARREN_TEST_ENGINE names its engine; WARREN_LOAD makes the test longer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/random.hpp"
#include "fs/disk/file_disk.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::kill_bulk_test {
namespace {

constexpr const char* image_variable = "WARREN_KILL_TEST_IMAGE";
constexpr u64 volume_bytes = 512 * mib;
constexpr u32 directory_mode = 040755;

std::unique_ptr<Volume> open_image(const std::string& path, const std::string& engine) {
    Failure failure;
    auto disk = FileDisk::open(path, OpenMode::read_write, failure);
    if (disk == nullptr) return nullptr;
    auto volume = open_on_engine(std::move(disk), engine, {.workers = 2}, failure);
    EXPECT_TRUE(volume) << failure.message;
    return volume;
}

/// Endless bulk commands. The durable part is a name in the root that tells the round.
class BulkWorker {
 public:
    BulkWorker(Volume& volume, u64 seed) : volume_(volume), random_(seed) {}

    /// Creates one tree, moves it about, packs, walks, and removes it, partly name by name. False
    /// if a call failed.
    bool work(u64 round) {
        const std::string name = "tree" + std::to_string(round);
        const Handle top = make_directory(volume_, volume_.root(), name, directory_mode);
        std::vector<Handle> directories;
        for (u64 i = 0; i < 20; ++i)
            directories.push_back(make_directory(volume_, top, std::to_string(i), directory_mode));
        std::vector<std::string> names;
        for (u64 i = 0; i < 300; ++i)
            names.push_back("file" + std::to_string(i));
        if (!create(directories, names) || !move(directories, names)) return false;
        Rebuilt rebuilt;
        if (volume_.rebuild(anybody, directories[0], rebuilt) != Errc::ok) return false;
        const auto all = [](const Scanned&) { return true; };
        if (volume_.scan(anybody, top, all) != Errc::ok) return false;
        if (random_.one_in(2) && volume_.sync() != Errc::ok) return false;
        if (!remove(directories, names)) return false;
        Removal removal;
        return volume_.remove_tree(anybody, volume_.root(), name, removal) == Errc::ok &&
               (!random_.one_in(2) || volume_.sync() == Errc::ok);
    }

 private:
    bool create(const std::vector<Handle>& directories, const std::vector<std::string>& names) {
        std::vector<Creation> creations;
        for (const Handle directory : directories) {
            for (const std::string& name : names)
                creations.push_back({directory, name, {}});
        }
        std::vector<Result<Attributes>> results(creations.size(), Errc::io);
        volume_.create_many(anybody, creations, results);
        return std::all_of(results.begin(), results.end(),
                           [](const Result<Attributes>& one) { return bool(one); });
    }
    bool move(const std::vector<Handle>& directories, const std::vector<std::string>& names) {
        std::vector<Move> moves;
        for (std::size_t d = 0; d + 1 < directories.size(); d += 2) {
            for (const std::string& name : names)
                moves.push_back({directories[d], name, directories[d + 1], name});
        }
        std::vector<Errc> results(moves.size(), Errc::io);
        volume_.move_many(anybody, moves, results);
        return std::all_of(results.begin(), results.end(),
                           [](Errc one) { return one == Errc::ok; });
    }

    /// What move() has left in the odd directories: half of the names, or all.
    bool remove(const std::vector<Handle>& directories, const std::vector<std::string>& names) {
        std::vector<Unlink> items;
        for (std::size_t d = 1; d < directories.size(); d += 2) {
            const std::size_t count = names.size() / (d % 4 == 1 ? 2 : 1);
            for (std::size_t i = 0; i < count; ++i)
                items.push_back({directories[d], names[i]});
        }
        std::vector<Errc> results(items.size(), Errc::io);
        volume_.remove_many(anybody, items, results);
        return std::all_of(results.begin(), results.end(),
                           [](Errc one) { return one == Errc::ok; });
    }

    Volume& volume_;
    Random random_;
};

/// The process that is killed. It writes a byte to its standard output once it is at work.
TEST(KillBulk, isTheProcess) {
    const char* image = std::getenv(image_variable);
    if (image == nullptr) GTEST_SKIP() << "only for the test below";
    const auto volume = open_image(image, test_engine_name("cpu"));
    ASSERT_TRUE(volume);
    const Seed seed;
    BulkWorker worker(*volume, seed.value());
    for (u64 round = 0;; ++round) {
        ASSERT_TRUE(worker.work(round + seed.value() * 1000));
        if (round == 0) {
            ASSERT_TRUE(
                volume->create(anybody, volume->root(), "kept" + std::to_string(seed.value()), {}));
            ASSERT_EQ(volume->sync(), Errc::ok);
            ASSERT_EQ(::write(STDOUT_FILENO, "!", 1), 1);
        }
    }
}

/// Starts the process and waits until it is at work; 0 if it never was.
pid_t start_process(const std::string& image, u64 seed) {
    ::setenv(image_variable, image.c_str(), 1);
    ::setenv("WARREN_SEED", std::to_string(seed).c_str(), 1);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    char program[] = "/proc/self/exe";
    char filter[] = "--gtest_filter=KillBulk.isTheProcess";
    char* const words[] = {program, filter, nullptr};
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, program, &actions, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    ::unsetenv(image_variable);
    ::unsetenv("WARREN_SEED");
    char byte = 0;
    while (failed == 0 && byte != '!' && ::read(ends[0], &byte, 1) == 1) {
    }
    ::close(ends[0]);
    return failed == 0 && byte == '!' ? child : 0;
}

void expect_sound(const std::string& image, const std::vector<std::string>& kept) {
    {
        const auto volume = open_image(image, "cpu");
        ASSERT_TRUE(volume);
        for (const std::string& name : kept)
            EXPECT_TRUE(volume->lookup(anybody, volume->root(), name)) << name << " is gone";
        expect_counts_agree(*volume);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    CheckOptions options;
    options.report = [](const std::string& line) { ADD_FAILURE() << line; };
    CheckResult result;
    const Failure failure = check_volume(image, options, result);
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    EXPECT_EQ(result.problems, 0u);
}

TEST(KillBulk, leavesASoundVolume) {
    const Seed seed;
    Random random(seed.value());
    std::string image = testing::TempDir() + "warren-kill-XXXXXX";
    ::close(::mkstemp(image.data()));
    const FormatOptions format{.size_bytes = volume_bytes, .label = "", .force = true};
    ASSERT_EQ(make_volume(image, format).code, Errc::ok);
    std::vector<std::string> kept;
    for (u64 round = 0; round < 4 * test_load() && !HasFailure(); ++round) {
        SCOPED_TRACE(round);
        const u64 part = random.below(1'000'000);
        const pid_t child = start_process(image, part);
        ASSERT_NE(child, 0) << "the process did not come to work";
        kept.push_back("kept" + std::to_string(part));
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(150'000)));
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
        expect_sound(image, kept);
    }
    ::unlink(image.c_str());
}

}  // namespace
}  // namespace warren::kill_bulk_test

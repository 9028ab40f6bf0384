// SPDX-License-Identifier: Apache-2.0
// A walk through the C interface whose threads run out of memory, allocation by allocation: it has
// seen everything or returns ENOMEM, and has released all descriptors and all memory.
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/support/failing_allocations.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/seed.hpp"
#include "walk/thread_group.hpp"
#include "warren/walk.h"

namespace warren::walk::no_memory_test {
namespace {

struct Seen {
    std::atomic<u64> entries{0};
    std::atomic<u64> finished{0};
    std::atomic<u64> failures{0};
    std::atomic<u64> tasks_queued{0};
    std::atomic<u64> tasks{0};
};

int visit(const warren_walk_entry* entry, void* context) {
    auto* seen = static_cast<Seen*>(context);
    ++seen->entries;
    ++*static_cast<u64*>(warren_walk_result(entry));
    if (warren_walk_type(entry) == DT_REG && warren_walk_name(entry)[0] == 't') {
        static_cast<void>(warren_walk_path(entry));
        const struct statx* status = warren_walk_status(entry, STATX_INO | STATX_NLINK);
        const u64 none = 0;
        if (status != nullptr) static_cast<void>(warren_walk_add_once(entry, status, &none));
        if (warren_walk_add(entry, "payload", 7) == 0) ++seen->tasks_queued;
    }
    return WARREN_WALK_GO_ON;
}

void finish(const warren_walk_finished* /*directory*/, void* context) {
    ++static_cast<Seen*>(context)->finished;
}

void merge(void* into, const void* from, void* /*context*/) {
    *static_cast<u64*>(into) += *static_cast<const u64*>(from);
}

void fail(const char* /*path*/, const char* /*action*/, int /*error*/, void* context) {
    ++static_cast<Seen*>(context)->failures;
}

void work(int /*directory*/, const void* /*payload*/, size_t size, void* /*result*/,
          void* context) {
    if (size == 7) ++static_cast<Seen*>(context)->tasks;
}

warren_walk_callbacks all_callbacks() {
    warren_walk_callbacks callbacks{};
    callbacks.visit = visit;
    callbacks.finish = finish;
    callbacks.merge = merge;
    callbacks.fail = fail;
    callbacks.work = work;
    return callbacks;
}

u64 open_descriptors() {
    return static_cast<u64>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

class NoMemory : public testing::Test {
 protected:
    void make_tree(u64 wide, u64 names_in_one) {
        std::string deep;
        for (u64 level = 0; level < 6; ++level) {
            deep += (level == 0 ? "d" : "/d");
            folder.make_directory(deep);
        }
        for (u64 number = 0; number < wide; ++number) {
            const std::string directory = "w" + std::to_string(number);
            folder.make_directory(directory);
            folder.make_directory(directory + "/in");
            folder.make_file(directory + "/in/t", 1);
            ASSERT_EQ(::link((folder.path() + "/" + directory + "/in/t").c_str(),
                             (folder.path() + "/" + directory + "/t2").c_str()),
                      0);
        }
        ASSERT_EQ(::symlink("..", (folder.path() + "/w0/up").c_str()), 0);
        folder.make_directory("large");
        for (u64 number = 0; number < names_in_one; ++number)
            folder.make_file("large/" + std::to_string(number), 0);
        root_ = folder.path();
    }

    /// The result of a walk, and whether the walk behaved as the result says.
    int walk(const warren_walk_options& options, Seen& seen, u64& sum) const {
        const char* roots[] = {root_.c_str(), "/nothing/here"};
        const warren_walk_callbacks callbacks = all_callbacks();
        return warren_walk(roots, 2, &options, &callbacks, &seen, &sum, nullptr);
    }

    /// Makes each allocation of a walk fail in turn.
    void starve(const warren_walk_options& options) {
        Seen whole;
        u64 expected = 0;
        ASSERT_EQ(walk(options, whole, expected), 0);
        ASSERT_EQ(expected, whole.entries);
        const u64 open = open_descriptors();
        u64 refused = 0;
        u64 nth = 1;
        for (bool has_failed = true; has_failed; ++nth) {
            Seen seen;
            u64 sum = 0;
            int answer = 0;
            {
                const FailingAllocation failing(nth);
                answer = walk(options, seen, sum);
                has_failed = failing.has_failed();
            }
            // A state that was written can be used to resume.
            if (options.checkpoint != nullptr) std::filesystem::remove_all(options.checkpoint);
            refused += answer == ENOMEM ? 1 : 0;
            ASSERT_TRUE(answer == 0 || (answer == ENOMEM && has_failed)) << "allocation " << nth;
            ASSERT_EQ(open_descriptors(), open) << "allocation " << nth;
            if (answer != 0) continue;
            ASSERT_EQ(sum, expected) << "allocation " << nth;
            ASSERT_EQ(seen.entries, whole.entries);
            ASSERT_EQ(seen.finished, whole.finished);
            ASSERT_EQ(seen.failures, whole.failures);
            ASSERT_EQ(seen.tasks, seen.tasks_queued);
        }
        EXPECT_GT(refused, 20u);
    }

    const Seed seed;
    const Folder folder;
    std::string root_;
};

warren_walk_options options_of(u32 threads) {
    warren_walk_options options{};
    options.threads = threads;
    options.result_bytes = sizeof(u64);
    return options;
}

TEST_F(NoMemory, EndsAWalk) {
    make_tree(6, 3000);
    for (const u32 threads : {1u, 3u})
        starve(options_of(threads));
}

TEST_F(NoMemory, EndsAWalkThatFollowsLinksInTheOrderOfInodes) {
    make_tree(6, 100);
    for (const u32 threads : {1u, 3u}) {
        warren_walk_options options = options_of(threads);
        options.follow = WARREN_WALK_FOLLOW_ALL;
        options.inode_order = 1;
        starve(options);
    }
}

/// Directories are closed during the walk and opened again.
TEST_F(NoMemory, EndsAWalkWithFewDescriptors) {
    make_tree(3, 10);
    for (const u32 threads : {1u, 3u}) {
        warren_walk_options options = options_of(threads);
        options.open_limit = 1;
        starve(options);
    }
}

/// The calling thread writes the state, and exchanges no messages.
TEST_F(NoMemory, EndsAWalkWithCheckpoints) {
    make_tree(6, 10);
    const Folder kept;
    const std::string state = kept.path() + "/state";
    for (const u32 scheduler : {WARREN_WALK_DRQS, WARREN_WALK_BATCHES}) {
        warren_walk_options options = options_of(2);
        options.checkpoint = state.c_str();
        options.checkpoint_milliseconds = 1;
        options.scheduler = scheduler;
        starve(options);
    }
}

/// Several ranks: their workers' allocations. All ranks return ENOMEM, none is left waiting.
TEST_F(NoMemory, EndsAWalkOfRanks) {
    make_tree(4, 60);
    for (const u32 scheduler : {WARREN_WALK_DRQS, WARREN_WALK_CP, WARREN_WALK_BATCHES}) {
        u64 refused = 0;
        u64 nth = 1;
        for (bool has_failed = true; has_failed; ++nth) {
            ThreadNetwork network({0, 0, 1}, seed.part(nth), 0);
            std::atomic<int> short_of_memory{0};
            std::atomic<int> good{0};
            std::atomic<u64> entries{0};
            const FailingAllocation failing(nth);
            const UncountedAllocations uncounted;
            network.run([&](Group& group) {
                const UncountedAllocations uncounted_too;
                warren_walk_options options = options_of(2);
                options.scheduler = scheduler;
                options.group = reinterpret_cast<warren_walk_group*>(&group);
                Seen seen;
                u64 sum = 0;
                const int answer = walk(options, seen, sum);
                entries += seen.entries;
                short_of_memory += answer == ENOMEM ? 1 : 0;
                good += answer == 0 ? 1 : 0;
            });
            has_failed = failing.has_failed();
            ASSERT_TRUE(good == 3 || (short_of_memory == 3 && has_failed)) << "allocation " << nth;
            ASSERT_TRUE(good != 3 || entries > 60);
            refused += short_of_memory == 3 ? 1 : 0;
        }
        EXPECT_GT(refused, 5u);
    }
}

}  // namespace
}  // namespace warren::walk::no_memory_test

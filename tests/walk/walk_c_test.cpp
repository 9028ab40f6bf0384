// SPDX-License-Identifier: Apache-2.0
// The C interface of the walk: du(1) in the few lines that a C program would need.
#include "warren/walk.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "tests/support/failing_allocations.hpp"
#include "tests/support/folder.hpp"

namespace warren::walk::walk_c_test {

namespace {

struct Seen {
    std::atomic<int> files{0};
    std::atomic<int> finished{0};
    std::atomic<int> tasks{0};
    std::atomic<int> failed{0};
};

int visit(const warren_walk_entry* entry, void* context) {
    auto* seen = static_cast<Seen*>(context);
    if (std::strcmp(warren_walk_name(entry), "skip") == 0) return WARREN_WALK_PRUNE;
    if (warren_walk_type(entry) != DT_REG) return WARREN_WALK_GO_ON;
    ++seen->files;
    if (std::strlen(warren_walk_path(entry)) <= std::strlen(warren_walk_name(entry))) {
        return WARREN_WALK_STOP;
    }
    if (faccessat(warren_walk_directory(entry), warren_walk_name(entry), R_OK, 0) != 0) {
        return WARREN_WALK_STOP;
    }
    const struct statx* status = warren_walk_status(entry, STATX_SIZE);
    *static_cast<u64*>(warren_walk_result(entry)) += status->stx_size;
    const u32 depth = warren_walk_depth(entry) + warren_walk_worker(entry);
    warren_walk_add(entry, &depth, sizeof depth);
    return WARREN_WALK_GO_ON;
}

void finish(const warren_walk_finished* directory, void* context) {
    const bool good = warren_walk_finished_directory(directory) != -1 &&
                      *static_cast<u64*>(warren_walk_finished_result(directory)) == 12 &&
                      std::strlen(warren_walk_finished_name(directory)) > 0 &&
                      warren_walk_finished_depth(directory) == 0;
    if (good) ++static_cast<Seen*>(context)->finished;
}

void merge(void* into, const void* from, void* /*context*/) {
    *static_cast<u64*>(into) += *static_cast<const u64*>(from);
}

void fail(const char* path, const char* action, int error, void* context) {
    if (std::strcmp(path, "/nothing/here") == 0 && std::strcmp(action, "stat") == 0 &&
        error == ENOENT) {
        ++static_cast<Seen*>(context)->failed;
    }
}

void work(int directory, const void* payload, size_t size, void* result, void* context) {
    if (directory >= 0 && size == sizeof(u32) && payload != nullptr && result != nullptr) {
        ++static_cast<Seen*>(context)->tasks;
    }
}

warren_walk_callbacks callbacks_of_all() {
    warren_walk_callbacks all{};
    all.visit = visit;
    all.finish = finish;
    all.merge = merge;
    all.fail = fail;
    all.work = work;
    return all;
}

}  // namespace

TEST(WalkC, AddsUpSizes) {
    const Folder folder;
    folder.make_file("a", 5);
    folder.make_file("b", 7);
    folder.make_directory("skip");
    folder.make_file("skip/c", 9);
    const char* roots[] = {folder.path().c_str(), "/nothing/here"};
    warren_walk_options options{};
    options.result_bytes = sizeof(u64);
    options.threads = 2;
    const warren_walk_callbacks callbacks = callbacks_of_all();
    Seen seen;
    u64 sum = 0;
    warren_walk_totals totals{};
    ASSERT_EQ(warren_walk(roots, 2, &options, &callbacks, &seen, &sum, &totals), 0);
    EXPECT_EQ(sum, 12u);
    EXPECT_EQ(seen.files, 2);
    EXPECT_EQ(seen.finished, 1);
    EXPECT_EQ(seen.tasks, 2);
    EXPECT_EQ(seen.failed, 1);
    EXPECT_EQ(totals.entries, 4u);
    EXPECT_EQ(totals.directories, 1u);
    EXPECT_EQ(totals.failures, 1u);
    EXPECT_EQ(totals.stopped, 0);
}

TEST(WalkC, RefusesWrongArguments) {
    const warren_walk_callbacks nothing{};
    EXPECT_EQ(warren_walk(nullptr, 0, nullptr, &nothing, nullptr, nullptr, nullptr), EINVAL);
    EXPECT_EQ(warren_walk(nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr), EINVAL);
    warren_walk_callbacks good{};
    good.visit = visit;
    EXPECT_EQ(warren_walk(nullptr, 1, nullptr, &good, nullptr, nullptr, nullptr), EINVAL);
    EXPECT_EQ(warren_walk(nullptr, 0, nullptr, &good, nullptr, nullptr, nullptr), 0);
    warren_walk_options options{};
    const auto is_refused = [&] {
        return warren_walk(nullptr, 0, &options, &good, nullptr, nullptr, nullptr) == EINVAL;
    };
    options.follow = WARREN_WALK_FOLLOW_ALL + 1;
    EXPECT_TRUE(is_refused());
    options = {};
    options.split = WARREN_WALK_SPLIT_RANDOM + 1;
    EXPECT_TRUE(is_refused());
    options = {};
    options.scheduler = WARREN_WALK_BATCHES + 1;
    EXPECT_TRUE(is_refused());
    options = {};
    options.resume = 1;
    EXPECT_TRUE(is_refused());
    // Rank 0 does not walk there, so no rank would continue a directory that it had begun.
    options.checkpoint = "/no/such";
    options.scheduler = WARREN_WALK_CP;
    EXPECT_TRUE(is_refused());
}

/// A walk whose callbacks run out of memory, allocation by allocation.
struct Starved {
    u64 nth = 0;
    int files = 0;
    int refused = 0;
    int tasks = 0;
    bool has_failed = false;
};

int visit_starved(const warren_walk_entry* entry, void* context) {
    auto* seen = static_cast<Starved*>(context);
    if (warren_walk_type(entry) != DT_REG) return WARREN_WALK_GO_ON;
    ++seen->files;
    const FailingAllocation failing(seen->nth);
    const char* path = warren_walk_path(entry);
    if (path == nullptr) {
        EXPECT_TRUE(failing.has_failed());
    } else {
        EXPECT_EQ(std::strcmp(path + std::strlen(path) - 1, warren_walk_name(entry)), 0);
    }
    const struct statx* status = warren_walk_status(entry, STATX_INO | STATX_NLINK | STATX_SIZE);
    if (status != nullptr && warren_walk_add_once(entry, status, &status->stx_size) != 0) {
        EXPECT_TRUE(failing.has_failed());
    }
    char payload[1000] = {};
    if (warren_walk_add(entry, payload, sizeof payload) != 0) {
        EXPECT_TRUE(failing.has_failed());
        ++seen->refused;
    }
    seen->has_failed = seen->has_failed || failing.has_failed();
    return WARREN_WALK_GO_ON;
}

void count_task(int /*directory*/, const void* /*payload*/, size_t size, void* /*result*/,
                void* context) {
    if (size == 1000) ++static_cast<Starved*>(context)->tasks;
}

TEST(WalkC, CallbacksAreToldThatMemoryIsShort) {
    const Folder folder;
    folder.make_file("a", 5);
    folder.make_file("b", 7);
    const std::string link = folder.path() + "/c";
    ASSERT_EQ(::link((folder.path() + "/a").c_str(), link.c_str()), 0);
    const char* roots[] = {folder.path().c_str()};
    warren_walk_options options{};
    options.result_bytes = sizeof(u64);
    options.threads = 1;
    warren_walk_callbacks callbacks{};
    callbacks.visit = visit_starved;
    callbacks.merge = merge;
    callbacks.work = count_task;
    Starved seen;
    int refused = 0;
    do {
        seen = {.nth = seen.nth + 1};
        u64 sum = 0;
        ASSERT_EQ(warren_walk(roots, 1, &options, &callbacks, &seen, &sum, nullptr), 0);
        EXPECT_EQ(seen.files, 3);
        EXPECT_EQ(seen.tasks, seen.files - seen.refused) << "allocation " << seen.nth;
        refused += seen.refused;
    } while (seen.has_failed);
    EXPECT_GT(refused, 0);
}

/// The totals of a walk in two parts: kept outside of results, so saved by a checkpoint callback.
struct Parts {
    std::atomic<u64> files{0};
    u64 stop_at = 0;
    u64 saved = 0;
};

int count_file(const warren_walk_entry* entry, void* context) {
    auto* parts = static_cast<Parts*>(context);
    if (warren_walk_type(entry) != DT_REG) return WARREN_WALK_GO_ON;
    ++parts->files;
    const struct statx* status = warren_walk_status(entry, STATX_INO | STATX_NLINK | STATX_SIZE);
    warren_walk_add_once(entry, status, &status->stx_size);
    return WARREN_WALK_GO_ON;
}

const void* save_count(size_t* size, void* context) {
    auto* parts = static_cast<Parts*>(context);
    parts->saved = parts->files;
    *size = sizeof parts->saved;
    return &parts->saved;
}

int load_count(const void* bytes, size_t size, void* context) {
    u64 saved = 0;
    if (size != sizeof saved) return 1;
    std::memcpy(&saved, bytes, size);
    static_cast<Parts*>(context)->files += saved;
    return 0;
}

int has_enough(void* context) {
    const auto* parts = static_cast<Parts*>(context);
    return parts->files >= parts->stop_at ? 1 : 0;
}

TEST(WalkC, GoesOnFromACheckpoint) {
    const Folder folder;
    constexpr u64 files = 400;
    folder.make_directory("tree");
    for (u64 i = 0; i < files; ++i) {
        const std::string directory = "tree/" + std::to_string(i % 40);
        if (i < 40) folder.make_directory(directory);
        folder.make_file(directory + "/" + std::to_string(i), 3);
    }
    folder.make_directory("kept");
    const std::string tree = folder.path() + "/tree", kept = folder.path() + "/kept";
    const char* roots[] = {tree.c_str()};
    warren_walk_options options{};
    options.threads = 1;
    options.result_bytes = sizeof(u64);
    options.checkpoint = kept.c_str();
    options.scheduler = WARREN_WALK_DRQS;
    options.operations_per_second = 300;  // or all is done before anybody asks whether to stop
    warren_walk_callbacks callbacks{};
    callbacks.visit = count_file;
    callbacks.merge = merge;
    callbacks.interrupt = has_enough;
    callbacks.save = save_count;
    callbacks.load = load_count;
    Parts first, second;
    first.stop_at = 20;
    second.stop_at = files + 1;
    u64 sum = 0;
    warren_walk_totals totals{};
    ASSERT_EQ(warren_walk(roots, 1, &options, &callbacks, &first, &sum, &totals), 0);
    ASSERT_EQ(totals.interrupted, 1);
    ASSERT_LT(first.files, files);
    options.resume = 1;
    options.operations_per_second = 0;
    sum = 0;
    ASSERT_EQ(warren_walk(roots, 1, &options, &callbacks, &second, &sum, &totals), 0);
    EXPECT_EQ(totals.interrupted, 0);
    EXPECT_EQ(totals.failures, 0u);
    EXPECT_EQ(second.files, files);
    EXPECT_EQ(sum, 3 * files);
}

}  // namespace warren::walk::walk_c_test

// SPDX-License-Identifier: Apache-2.0
// The walk against a plain recursive listing: the entries that it visits, the order in which
// directories are finished, the sums of results, and the requests that callbacks can make.
#include "warren/walk.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "support/seed.hpp"
#include "tests/support/folder.hpp"
#include "walk/removing.hpp"
#include "walk/status_ahead.hpp"

namespace warren::walk::walk_test {

namespace {

char letter_of(Type type) {
    static constexpr std::string_view letters = "?pcdbfls";
    return letters[static_cast<size_t>(type)];
}

struct Sum {
    u64 entries;
    u64 bytes;
};

void add_sum(void* into, const void* from) {
    static_cast<Sum*>(into)->entries += static_cast<const Sum*>(from)->entries;
    static_cast<Sum*>(into)->bytes += static_cast<const Sum*>(from)->bytes;
}

/// A walk that records all it sees.
struct Noted {
    std::vector<Listed> entries;
    std::vector<std::string> finished;
    std::vector<Failure> failures;
    Totals totals;
    Sum sum{};
    std::mutex mutex;
};

void note_walk(const std::string& root, Options options, Noted& noted, bool with_status = true) {
    options.result_bytes = sizeof(Sum);
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        const struct statx* status = with_status ? entry.status(STATX_SIZE) : nullptr;
        const u64 size = status == nullptr ? 0 : status->stx_size;
        entry.result<Sum>().entries += 1;
        entry.result<Sum>().bytes += size;
        std::lock_guard lock(noted.mutex);
        noted.entries.push_back({std::string(entry.path()), letter_of(entry.type()), size});
        return Next::go_on;
    };
    callbacks.finish = [&](const Finished& directory) {
        std::lock_guard lock(noted.mutex);
        noted.finished.push_back(directory.path());
    };
    callbacks.merge = add_sum;
    callbacks.fail = [&](const Failure& failure) {
        std::lock_guard lock(noted.mutex);
        noted.failures.push_back(failure);
    };
    noted.totals = walk(std::span(&root, 1), options, callbacks, &noted.sum);
    std::sort(noted.entries.begin(), noted.entries.end());
}

/// Every directory once, and none before a directory inside it.
void expect_finished_bottom_up(const Noted& noted) {
    std::set<std::string> done;
    for (const std::string& path : noted.finished) {
        EXPECT_TRUE(done.insert(path).second) << path;
        const size_t slash = path.rfind('/');
        EXPECT_FALSE(done.contains(path.substr(0, slash))) << path << " came after what holds it";
    }
    const auto directories = std::count_if(noted.entries.begin(), noted.entries.end(),
                                           [](const Listed& entry) { return entry.type == 'd'; });
    EXPECT_EQ(done.size(), static_cast<size_t>(directories));
    EXPECT_EQ(noted.totals.directories, done.size());
}

}  // namespace

TEST(Walk, VisitsWhatAPlainListingFinds) {
    const Seed seed;
    for (u64 part = 0; part < 4 * test_load(); ++part) {
        const Folder folder;
        Random random(seed.part(part));
        folder.fill(random, 1500);
        const std::vector<Listed> expected = list_tree(folder.path());
        u64 bytes = 0;
        for (const Listed& entry : expected)
            bytes += entry.size;
        for (const u32 threads : {1u, 2u, 7u}) {
            Options options;
            options.threads = threads;
            options.inode_order = random.one_in(2);
            options.share_directories = random.one_in(2);
            options.split = random.one_in(2) ? Split::half : Split::random;
            options.ahead = random.one_in(2) ? Ahead::always : Ahead::measured;
            if (random.one_in(3)) options.open_limit = 1;
            Noted noted;
            note_walk(folder.path(), options, noted);
            EXPECT_EQ(noted.entries, expected);
            EXPECT_TRUE(noted.failures.empty());
            EXPECT_EQ(noted.totals.entries, expected.size());
            EXPECT_EQ(noted.sum.entries, expected.size());
            EXPECT_EQ(noted.sum.bytes, bytes);
            EXPECT_FALSE(noted.totals.stopped);
            expect_finished_bottom_up(noted);
        }
    }
}

TEST(Walk, SharesAHugeDirectory) {
    const Folder folder;
    constexpr u32 count = 10000;  // several parts
    for (u32 index = 0; index < count; ++index)
        folder.make_file("file_with_a_name_of_some_length_" + std::to_string(index));
    std::set<u32> workers;
    std::set<std::string> seen;
    std::mutex mutex;
    std::condition_variable came;
    u32 patience = 20;
    Options options;
    options.threads = 4;
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        std::unique_lock lock(mutex);
        seen.insert(std::string(entry.name()));
        workers.insert(entry.worker());
        came.notify_all();
        // The first callback waits, within its part, for another one to start.
        if (entry.depth() == 1) {
            came.wait_for(lock, std::chrono::seconds(patience), [&] { return workers.size() > 1; });
            patience = 0;
        }
        return Next::go_on;
    };
    const std::string root = folder.path();
    const Totals totals = walk(std::span(&root, 1), options, callbacks);
    EXPECT_EQ(totals.entries, count + 1);
    EXPECT_EQ(seen.size(), count + 1);
    EXPECT_GT(workers.size(), 1u);
}

TEST(Walk, ManyDirectoriesInOne) {
    const Folder folder;
    for (u32 index = 0; index < 6000; ++index)
        folder.make_directory("d" + std::to_string(index));
    for (const bool share : {true, false}) {
        Options options;
        options.threads = 3;
        options.share_directories = share;
        options.open_limit = 16;
        Noted noted;
        note_walk(folder.path(), options, noted, false);
        EXPECT_EQ(noted.entries.size(), 6001u);
        expect_finished_bottom_up(noted);
    }
}

TEST(Walk, AChainDeeperThanAnyPath) {
    const Folder folder;
    constexpr u32 depth = 200;
    folder.make_chain("deep", std::string(100, 'x'), depth);
    for (const u32 limit : {0u, 20u}) {
        Options options;
        options.threads = 2;
        options.open_limit = limit;
        Noted noted;
        note_walk(folder / "deep", options, noted);
        EXPECT_EQ(noted.entries.size(), depth + 1);
        EXPECT_TRUE(noted.failures.empty());
        EXPECT_GT(noted.entries.back().path.size(), 4096u);
        expect_finished_bottom_up(noted);
    }
}

TEST(Walk, FinishedDirectoriesCanBeRemovedByTheirDescriptors) {
    const Folder folder;
    folder.make_directory("top");
    folder.make_chain("top/deep", "step", 500);
    folder.make_directory("top/wide");
    for (u32 index = 0; index < 300; ++index)
        folder.make_file("top/wide/" + std::to_string(index));
    Options options;
    options.threads = 3;
    options.open_limit = 16;
    std::atomic<u32> missed{0};
    const Callbacks callbacks = removing(missed);
    const std::string root = folder / "top";
    const Totals totals = walk(std::span(&root, 1), options, callbacks);
    EXPECT_EQ(totals.failures, 0u);
    EXPECT_EQ(missed.load(), 0u);
    EXPECT_EQ(list_tree(folder.path()).size(), 1u);
}

TEST(Walk, PrunesAndStopsAtADepth) {
    const Folder folder;
    folder.make_directory("a");
    folder.make_directory("a/no");
    folder.make_file("a/no/f");
    folder.make_directory("a/b");
    folder.make_file("a/b/f");
    std::mutex mutex;
    std::set<std::string> seen;
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        std::lock_guard lock(mutex);
        seen.insert(std::string(entry.path().substr(folder.path().size())));
        return entry.name_view() == "no" ? Next::prune : Next::go_on;
    };
    const std::string root = folder.path();
    walk(std::span(&root, 1), {}, callbacks);
    EXPECT_EQ(seen, (std::set<std::string>{"", "/a", "/a/no", "/a/b", "/a/b/f"}));
    seen.clear();
    Options options;
    options.max_depth = 1;
    walk(std::span(&root, 1), options, callbacks);
    EXPECT_EQ(seen, (std::set<std::string>{"", "/a"}));
    seen.clear();
    options.max_depth = 0;
    walk(std::span(&root, 1), options, callbacks);
    EXPECT_EQ(seen, (std::set<std::string>{""}));
}

TEST(Walk, StopsWhenTold) {
    const Folder folder;
    for (u32 index = 0; index < 200; ++index) {
        const std::string name = "d" + std::to_string(index);
        folder.make_directory(name);
        folder.make_file(name + "/f");
    }
    Options options;
    options.threads = 4;
    std::atomic<u32> visited{0};
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        ++visited;
        return entry.type() == Type::regular ? Next::stop : Next::go_on;
    };
    const std::string root = folder.path();
    const Totals totals = walk(std::span(&root, 1), options, callbacks);
    EXPECT_TRUE(totals.stopped);
    EXPECT_LE(visited.load(), 201u + 4u);
}

// No barrier by level: one branch is finished before the other, of the same depth, has been read.
TEST(Walk, ABranchIsFinishedBeforeTheNextIsRead) {
    const Folder folder;
    for (const char* name : {"a", "b"}) {
        const std::string branch = name;
        folder.make_directory(branch);
        folder.make_directory(branch + "/below");
        folder.make_file(branch + "/below/file");
    }
    std::vector<std::string> events;
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.type() == Type::regular) events.emplace_back("read");
        return Next::go_on;
    };
    callbacks.finish = [&](const Finished& directory) {
        if (directory.depth() == 1) events.emplace_back("finished");
    };
    Options options;
    options.threads = 1;
    walk(std::span(&folder.path(), 1), options, callbacks);
    EXPECT_EQ(events, (std::vector<std::string>{"read", "finished", "read", "finished"}));
}

TEST(Walk, AddedWorkKeepsItsDirectoryUnfinished) {
    const Folder folder;
    folder.make_directory("d");
    for (u32 index = 0; index < 20; ++index)
        folder.make_file("d/f" + std::to_string(index));
    Options options;
    options.threads = 4;
    options.result_bytes = sizeof(Sum);
    std::atomic<bool> wrong{false};
    u64 at_finish = 0;
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.type() != Type::regular) return Next::go_on;
        for (u64 part = 0; part < 5; ++part)
            entry.add(std::as_bytes(std::span(&part, 1)));
        return Next::go_on;
    };
    callbacks.work = [&](const Task& task) {
        u64 part = 0;
        if (task.payload.size() != sizeof part) wrong = true;
        std::memcpy(&part, task.payload.data(), sizeof part);
        struct stat status {};
        if (fstatat(task.directory, "f0", &status, 0) != 0) wrong = true;
        if (task.path != folder / "d") wrong = true;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        static_cast<Sum*>(task.result)->bytes += part;
    };
    callbacks.merge = add_sum;
    callbacks.finish = [&](const Finished& directory) {
        if (directory.depth() == 1) at_finish = directory.result<Sum>().bytes;
    };
    const std::string root = folder.path();
    Sum sum{};
    walk(std::span(&root, 1), options, callbacks, &sum);
    EXPECT_FALSE(wrong.load());
    EXPECT_EQ(at_finish, 20u * (0 + 1 + 2 + 3 + 4));
    EXPECT_EQ(sum.bytes, at_finish);
}

TEST(Walk, WorkIsToldWhyItsDirectoryCannotBeOpenedAgain) {
    const Folder folder;
    folder.make_directory("d");
    for (const char* name : {"d/chain0", "d/chain1", "d/chain2"})
        folder.make_chain(name, "step", 40);
    for (u32 index = 0; index < 40; ++index)
        folder.make_file("d/f" + std::to_string(index));
    bool swapped = false;
    std::set<i32> errors;
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.type() == Type::regular) entry.add({});
        if (entry.depth() == 20 && !std::exchange(swapped, true)) {
            EXPECT_EQ(rename((folder / "d").c_str(), (folder / "aside").c_str()), 0);
            folder.make_file("d");
        }
        return Next::go_on;
    };
    callbacks.work = [&](const Task& task) {
        EXPECT_EQ(task.directory < 0, task.error != 0);
        if (task.directory < 0) errors.insert(task.error);
    };
    Options options;
    options.threads = 1;
    options.open_limit = 2;
    walk(std::span(&folder.path(), 1), options, callbacks);
    EXPECT_TRUE(swapped);
    EXPECT_EQ(errors, std::set<i32>{ENOTDIR});
}

TEST(Walk, ManyRootsOfAnyKind) {
    const Folder folder;
    folder.make_directory("d");
    folder.make_file("d/f", 3);
    folder.make_file("g", 4);
    folder.make_link("d", "l");
    const std::vector<std::string> roots = {folder / "g", folder / "d", folder / "l",
                                            folder / "nothing", folder / "l/"};
    std::mutex mutex;
    std::multiset<std::string> seen;
    std::vector<Failure> failures;
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        std::lock_guard lock(mutex);
        seen.insert(std::string(entry.path().substr(folder.path().size())));
        return Next::go_on;
    };
    callbacks.fail = [&](const Failure& failure) { failures.push_back(failure); };
    Options options;
    walk(roots, options, callbacks);
    EXPECT_EQ(seen, (std::multiset<std::string>{"/g", "/d", "/d/f", "/l", "/l/", "/l/f"}));
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].path, folder / "nothing");
    EXPECT_EQ(failures[0].error, ENOENT);
    seen.clear();
    options.follow = Follow::roots;
    walk(std::span(&roots[2], 1), options, callbacks);
    EXPECT_EQ(seen, (std::multiset<std::string>{"/l", "/l/f"}));
}

TEST(Walk, KeepsToTheRateItIsGiven) {
    const Folder folder;
    for (u32 index = 0; index < 30; ++index)
        folder.make_file("f" + std::to_string(index));
    Options options;
    options.threads = 3;
    options.operations_per_second = 200;
    const auto start = std::chrono::steady_clock::now();
    Noted noted;
    note_walk(folder.path(), options, noted);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    // 31 stats, an open and two reads.
    EXPECT_GE(taken.count(), 33 / 200.0);
    EXPECT_EQ(noted.entries.size(), 31u);
}

TEST(Walk, ADirectorysOwnResult) {
    const Folder folder;
    folder.make_directory("d");
    folder.make_file("d/f");
    folder.make_directory("d/pruned");
    folder.make_file("d/pruned/g");
    Options options;
    options.result_bytes = sizeof(Sum);
    std::mutex mutex;
    std::map<std::string, u64> finished;
    Callbacks callbacks;
    callbacks.visit = [](const Entry& entry) {
        const bool is_directory = entry.type() == Type::directory;
        (is_directory ? entry.own_result<Sum>() : entry.result<Sum>()).entries += 1;
        return entry.name_view() == "pruned" ? Next::prune : Next::go_on;
    };
    callbacks.finish = [&](const Finished& directory) {
        std::lock_guard lock(mutex);
        finished[directory.name()] = directory.result<Sum>().entries;
    };
    callbacks.merge = add_sum;
    const std::string root = folder.path();
    Sum sum{};
    walk(std::span(&root, 1), options, callbacks, &sum);
    EXPECT_EQ(finished, (std::map<std::string, u64>{{"d", 3}, {root, 4}}));
    EXPECT_EQ(sum.entries, 4u);
}

TEST(Walk, TellsHowFarItIs) {
    const Folder folder;
    folder.make_directory("d");
    folder.make_file("d/f");
    Meter meter;
    Options options;
    options.meter = &meter;
    Noted noted;
    note_walk(folder.path(), options, noted);
    EXPECT_EQ(meter.entries.load(), 2u);  // without the root
    EXPECT_EQ(meter.directories.load(), 2u);
}

TEST(Walk, SlowStatusesAreAskedForAhead) {
    StatusPace pace;
    for (u32 call = 0; call < 8; ++call) {
        EXPECT_TRUE(pace.is_due());
        EXPECT_FALSE(pace.is_slow());
        pace.note(call % 4 == 0 ? 1000 : 200'000);
    }
    EXPECT_TRUE(pace.is_slow());
    // While the file system is slow every call is timed; a few fast calls show that this is over.
    for (u32 call = 0; call < 2; ++call) {
        EXPECT_TRUE(pace.is_due());
        pace.note(1000);
    }
    EXPECT_FALSE(pace.is_slow());
    u32 timed = 0;
    for (u32 call = 0; call < 1600; ++call)
        timed += pace.is_due() ? 1 : 0;
    EXPECT_EQ(timed, 100u);
}

// Half of the names are gone when their statuses are read, and the walk ends halfway.
TEST(Walk, AskingAheadMissesNothingThatIsThere) {
    const Folder folder;
    constexpr u32 count = 2000;
    for (u32 index = 0; index < count; ++index)
        folder.make_file("f" + std::to_string(index), index);
    Options options;
    options.threads = 2;
    options.ahead = Ahead::always;
    std::atomic<u64> seen{0};
    std::atomic<u64> gone{0};
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.depth() == 0) return Next::go_on;
        const struct statx* status = entry.status(STATX_SIZE | STATX_MODE);
        if (status == nullptr) return Next::go_on;
        EXPECT_EQ("f" + std::to_string(status->stx_size), entry.name());
        EXPECT_TRUE(S_ISREG(status->stx_mode));
        const bool is_enough = ++seen >= count / 2;
        // The name whose status is read next, or at some later time.
        const std::string other = "f" + std::to_string(status->stx_size ^ 1);
        if (status->stx_size % 4 < 2) ::unlinkat(entry.directory(), other.c_str(), 0);
        return is_enough ? Next::stop : Next::go_on;
    };
    callbacks.fail = [&](const Failure& failure) {
        EXPECT_EQ(failure.error, ENOENT);
        ++gone;
    };
    const std::string root = folder.path();
    const Totals totals = walk(std::span(&root, 1), options, callbacks);
    EXPECT_TRUE(totals.stopped);
    EXPECT_GE(seen.load(), count / 2);
    EXPECT_EQ(totals.failures, gone.load());
}

}  // namespace warren::walk::walk_test

// SPDX-License-Identifier: Apache-2.0
// One walk over several ranks, on a network of threads with delays: the entries that all ranks see
// together are those of a plain listing, once each; directories are finished after everything below
// them, whichever rank processed it.
#include "warren/walk_group.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "support/seed.hpp"
#include "walk/noted_walk.hpp"
#include "walk/rank.hpp"
#include "walk/removing.hpp"

namespace warren::walk::group_test {

TEST(Group, AllSchedulersFindWhatAPlainListingFinds) {
    const Seed seed;
    for (u64 part = 0; part < 2 * test_load(); ++part) {
        const Folder folder;
        Random random(seed.part(part));
        folder.fill(random, 800);
        const Expected expected = expect_of(folder.path());
        for (const SchedulerName& name : scheduler_names()) {
            Options options;
            options.scheduler = name.scheduler;
            options.split = name.split;
            options.threads = 1 + static_cast<u32>(random.below(3));
            options.inode_order = random.one_in(3);
            options.share_directories = random.one_in(2);
            if (random.one_in(3)) options.open_limit = 1;
            if (random.one_in(2)) options.queue_bytes = random.below(16 * kib);
            ThreadNetwork network(random_nodes(random), random.next(), random.below(300));
            Seen seen;
            walk_with_ranks(folder.path(), options, network, seen);
            SCOPED_TRACE(std::string(name.name) + ", part " + std::to_string(part));
            expect_same(seen, expected);
            if (HasFailure()) return;
        }
    }
}

// In the paper's loop a rank receives no request until its round of eight parts is done.
TEST(Group, AHugeDirectoryIsSharedByAllRanks) {
    const Folder folder;
    folder.make_directory("huge");
    folder.make_directory("large");  // for the schedulers that send each file
    for (u32 index = 0; index < 24000; ++index) {
        const std::string name = "/file_with_a_name_of_some_length_" + std::to_string(index);
        folder.make_file("huge" + name);
        if (index < 4000) folder.make_file("large" + name);
    }
    for (const SchedulerName& name : scheduler_names()) {
        Options options;
        options.scheduler = name.scheduler;
        options.split = name.split;
        options.threads = 1;
        const bool sends_files =
            name.scheduler == Scheduler::cp || name.scheduler == Scheduler::cp_keep_one;
        const std::string root = folder / (sends_files ? "large" : "huge");
        ThreadNetwork network({0, 0, 1}, 1, 50);
        Seen seen;
        walk_with_ranks(root, options, network, seen);
        expect_same(seen, expect_of(root));
        const auto workers = std::count_if(seen.entries_of.begin(), seen.entries_of.end(),
                                           [](u64 entries) { return entries > 1; });
        EXPECT_GT(workers, 1) << name.name;
    }
}

// In the paper's cp every file goes to rank 0 and back; the leaner variant does not send files.
TEST(Group, CentralQueuesHoldWhatTheirNamesSay) {
    const Folder folder;
    constexpr u32 files = 400;
    for (u32 index = 0; index < files; ++index) {
        const std::string name = "d" + std::to_string(index % 5);
        if (index < 5) folder.make_directory(name);
        folder.make_file(name + "/f" + std::to_string(index));
    }
    for (const char* name : {"cp", "cp-keep-one", "cp-directories"}) {
        std::atomic<u64> messages{0};
        std::atomic<u64> bytes{0};
        u64 of_rank_0 = 0;
        Callbacks callbacks;
        callbacks.visit = [](const Entry&) { return Next::go_on; };
        ThreadNetwork network({0, 0, 1}, 1, 0);
        network.run([&](Group& group) {
            Options options;
            options.group = &group;
            options.scheduler = scheduler_named(name)->scheduler;
            options.threads = 1;
            const std::string root = folder.path();
            const Totals totals = walk(std::span(&root, 1), options, callbacks);
            messages += totals.messages;
            bytes += totals.message_bytes;
            if (group.rank() == 0) of_rank_0 = totals.own_entries;
            EXPECT_EQ(totals.entries, files + 6u);
        });
        EXPECT_EQ(of_rank_0, 1u) << name;  // the root itself
        const bool sends_files = std::string_view(name) != "cp-directories";
        if (sends_files) {
            EXPECT_GE(messages.load(), 2 * files) << name;
            EXPECT_GE(bytes.load(), 2 * files * folder.path().size()) << name;
        } else {
            EXPECT_LT(messages.load(), files / 2) << name;
        }
    }
}

TEST(Group, LinksThatLeadUpAreFoundOnAnyRank) {
    const Seed seed;
    const Folder folder;
    Random random(seed.part(0));
    for (u32 index = 0; index < 60; ++index) {
        const std::string name = "d" + std::to_string(index);
        folder.make_directory(name);
        folder.make_directory(name + "/below");
        folder.make_link(index % 2 == 0 ? ".." : "../../d0", name + "/below/link");
    }
    Options options;
    options.follow = Follow::all;
    options.threads = 1;
    ThreadNetwork alone({0}, 1, 0);
    Seen one;
    walk_with_ranks(folder.path(), options, alone, one);
    for (const char* name : {"drqs", "cp"}) {
        options.scheduler = scheduler_named(name)->scheduler;
        ThreadNetwork network({0, 1, 1}, random.next(), 100);
        Seen seen;
        walk_with_ranks(folder.path(), options, network, seen);
        EXPECT_EQ(std::multiset<std::string>(seen.entries.begin(), seen.entries.end()),
                  std::multiset<std::string>(one.entries.begin(), one.entries.end()));
        EXPECT_EQ(seen.failures.size(), one.failures.size());
        EXPECT_GT(one.failures.size(), 0u);
        EXPECT_EQ(seen.fault, "");
    }
}

TEST(Group, AStopEndsItEverywhere) {
    const Seed seed;
    const Folder folder;
    Random random(seed.part(0));
    folder.fill(random, 600);
    for (u32 round = 0; round < 40 * test_load(); ++round) {
        const auto& name = scheduler_names()[random.below(scheduler_names().size())];
        ThreadNetwork network(random_nodes(random), random.next(), random.below(300));
        std::atomic<i64> left{static_cast<i64>(random.below(600))};
        std::atomic<u32> stopped{0};
        std::atomic<u32> ranks{0};
        Callbacks callbacks;
        callbacks.visit = [&](const Entry&) { return left-- == 0 ? Next::stop : Next::go_on; };
        network.run([&](Group& group) {
            ranks = group.ranks();
            Options options;
            options.group = &group;
            options.scheduler = name.scheduler;
            options.threads = 2;
            options.queue_bytes = round % 2 == 0 ? 2 * kib : 64 * mib;
            const std::string root = folder.path();
            if (walk(std::span(&root, 1), options, callbacks).stopped) ++stopped;
        });
        // Several workers may pass the limit at once; by then all the others have passed it too.
        const u32 expected = left.load() < 0 ? ranks.load() : 0;
        EXPECT_EQ(stopped.load(), expected) << name.name;
    }
}

TEST(Group, AddedWorkIsDoneOnceByAnyRank) {
    const Folder folder;
    for (u32 index = 0; index < 40; ++index) {
        const std::string name = "d" + std::to_string(index % 4);
        if (index < 4) folder.make_directory(name);
        folder.make_file(name + "/f" + std::to_string(index));
    }
    std::mutex mutex;
    std::map<u64, u32> done;
    std::map<std::string, u64> finished;
    bool wrong = false;
    Callbacks callbacks;
    callbacks.visit = [](const Entry& entry) {
        if (entry.type() != Type::regular) return Next::go_on;
        for (u64 part = 0; part < 5; ++part) {
            const u64 payload[2] = {entry.inode(), part};
            entry.add(std::as_bytes(std::span(payload)));
        }
        return Next::go_on;
    };
    callbacks.work = [&](const Task& task) {
        u64 payload[2];
        std::memcpy(payload, task.payload.data(), sizeof payload);
        static_cast<Sum*>(task.result)->entries += 1;
        std::lock_guard lock(mutex);
        ++done[payload[0] * 8 + payload[1]];
        struct stat status {};
        if (fstat(task.directory, &status) != 0 || !S_ISDIR(status.st_mode)) wrong = true;
    };
    callbacks.merge = add_sum;
    callbacks.finish = [&](const Finished& directory) {
        std::lock_guard lock(mutex);
        finished[directory.name()] = directory.result<Sum>().entries;
    };
    ThreadNetwork network({0, 0, 1}, 5, 50);
    network.run([&](Group& group) {
        Options options;
        options.group = &group;
        options.threads = 1;
        options.result_bytes = sizeof(Sum);
        const std::string root = folder.path();
        walk(std::span(&root, 1), options, callbacks);
    });
    EXPECT_FALSE(wrong);
    EXPECT_EQ(done.size(), 200u);
    for (const auto& [task, count] : done)
        EXPECT_EQ(count, 1u);
    EXPECT_EQ(finished[folder.path()], 200u);
    EXPECT_EQ(finished["d0"], 50u);
}

TEST(Group, FinishedDirectoriesAreRemovedByWhoeverReadThem) {
    const Folder folder;
    folder.make_directory("top");
    folder.make_chain("top/deep", std::string(40, 'x'), 150);
    for (u32 index = 0; index < 300; ++index) {
        const std::string name = "top/d" + std::to_string(index % 60);
        if (index < 60) folder.make_directory(name);
        folder.make_file(name + "/" + std::to_string(index));
    }
    std::atomic<u32> missed{0};
    const Callbacks callbacks = removing(missed);
    ThreadNetwork network({0, 1, 1, 2}, 7, 50);
    network.run([&](Group& group) {
        Options options;
        options.group = &group;
        options.threads = 2;
        options.open_limit = 16;
        options.share_directories = false;
        const std::string root = folder / "top";
        EXPECT_EQ(walk(std::span(&root, 1), options, callbacks).failures, 0u);
    });
    EXPECT_EQ(missed.load(), 0u);
    EXPECT_EQ(list_tree(folder.path()).size(), 1u);
}

// The parent of stolen directories is replaced in transit: by another directory, or by a link.
TEST(Group, WhatWasSwappedOnTheWayIsNotEntered) {
    for (const bool by_link : {false, true}) {
        const Folder folder;
        for (const char* top : {"tree", "tree/here_they_lie", "elsewhere"})
            folder.make_directory(top);
        for (u32 index = 0; index < 200; ++index) {
            const std::string name = "/d" + std::to_string(index);
            folder.make_directory("tree/here_they_lie" + name);
            folder.make_directory("elsewhere" + name);
            folder.make_file("elsewhere" + name + "/secret");
        }
        bool is_swapped = false;
        ThreadNetwork network({0, 1}, 3, 20);
        network.set_watcher([&](const std::string& message) {
            if (is_swapped || message.find("here_they_lie") == message.npos) return;
            is_swapped = true;
            const std::string place = folder / "tree/here_they_lie";
            EXPECT_EQ(rename(place.c_str(), (folder / "tree/moved").c_str()), 0);
            if (by_link) {
                folder.make_link("../elsewhere", "tree/here_they_lie");
            } else {
                EXPECT_EQ(rename((folder / "elsewhere").c_str(), place.c_str()), 0);
            }
        });
        std::mutex mutex;
        std::set<std::string> names;
        std::set<i32> errors;
        Callbacks callbacks;
        callbacks.visit = [&](const Entry& entry) {
            // Time for the thief to arrive.
            if (entry.depth() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            std::lock_guard lock(mutex);
            names.insert(entry.name());
            return Next::go_on;
        };
        callbacks.finish = [](const Finished&) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        };
        callbacks.fail = [&](const Failure& failure) {
            std::lock_guard lock(mutex);
            errors.insert(failure.error);
        };
        network.run([&](Group& group) {
            Options options;
            options.group = &group;
            options.threads = 1;
            const std::string root = folder / "tree";
            walk(std::span(&root, 1), options, callbacks);
        });
        EXPECT_TRUE(is_swapped);
        EXPECT_FALSE(names.contains("secret"));
        EXPECT_FALSE(errors.empty());
    }
}

}  // namespace warren::walk::group_test

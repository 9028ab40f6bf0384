// SPDX-License-Identifier: Apache-2.0
// Walks that are interrupted and resumed, with other numbers of ranks: an interrupt loses nothing
// and repeats nothing; after a kill the walk resumes from the last complete checkpoint.
#include "walk/checkpoint.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "support/seed.hpp"
#include "tests/support/folder.hpp"
#include "walk/rank.hpp"
#include "walk/thread_group.hpp"
#include "warren/walk.hpp"

namespace warren::walk::checkpoint_test {

namespace {

struct Sum {
    u64 entries;
    u64 linked;  // bytes, each file once
    bool operator==(const Sum&) const = default;
};

void add_sum(void* into, const void* from) {
    static_cast<Sum*>(into)->entries += static_cast<const Sum*>(from)->entries;
    static_cast<Sum*>(into)->linked += static_cast<const Sum*>(from)->linked;
}

/// The counts that callbacks keep themselves, over all ranks of a process.
struct Counted {
    std::mutex mutex;
    std::map<std::string, u32> visited;
    std::map<std::string, u32> finished;
    std::atomic<u64> visits{0};
    u64 loaded = 0;
};

struct Outcome {
    Totals totals;
    Sum sum{};
};

struct Rules {
    std::vector<u32> nodes;
    u64 seed = 0;
    u64 delay_us = 0;
    Options options;
    i64 interrupt_after = -1;  // visits
};

Callbacks counting(Counted& counted, std::atomic<i64>& left, std::atomic<bool>& interrupt) {
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        if (left-- == 0) interrupt = true;
        ++entry.result<Sum>().entries;
        const struct statx* status = entry.status(STATX_SIZE | STATX_NLINK | STATX_INO);
        if (status != nullptr && entry.type() == Type::regular) {
            const Sum amount{0, status->stx_size};
            entry.add_once(device_of(*status), status->stx_ino, status->stx_nlink, &amount);
        }
        ++counted.visits;
        if (entry.inode() % 4 == 0) ::usleep(20);
        std::lock_guard lock(counted.mutex);
        ++counted.visited[std::string(entry.path())];
        return Next::go_on;
    };
    callbacks.finish = [&](const Finished& directory) {
        std::lock_guard lock(counted.mutex);
        ++counted.finished[directory.path()];
    };
    callbacks.merge = add_sum;
    return callbacks;
}

Outcome walk_once(const std::string& root, const Rules& rules, Counted& counted) {
    ThreadNetwork network(rules.nodes, rules.seed, rules.delay_us);
    std::atomic<i64> left{rules.interrupt_after};
    std::atomic<bool> interrupt{false};
    Outcome outcome;
    std::atomic<u64> loaded{0};
    network.run([&](Group& group) {
        Options options = rules.options;
        options.group = &group;
        options.result_bytes = sizeof(Sum);
        options.interrupt = [&] { return interrupt.load(); };
        Callbacks callbacks = counting(counted, left, interrupt);
        // Each rank continues the counts that it was given.
        u64 own = 0;
        callbacks.save = [&] { return std::to_string(own + 1); };
        callbacks.load = [&](std::string_view saved) {
            own += std::stoull(std::string(saved));
            loaded += 1;
            return true;
        };
        Sum sum{};
        const Totals totals = walk(std::span(&root, 1), options, callbacks, &sum);
        if (group.rank() != 0) return;
        outcome.totals = totals;
        outcome.sum = sum;
    });
    counted.loaded = loaded;
    return outcome;
}

Outcome expect_of(const std::string& root) {
    Outcome expected;
    std::set<std::pair<u64, u64>> files;
    for (const Listed& listed : list_tree(root)) {
        ++expected.totals.entries;
        ++expected.sum.entries;
        expected.totals.directories += listed.type == 'd' ? 1 : 0;
        struct stat status {};
        if (listed.type == 'f' && lstat(listed.path.c_str(), &status) == 0 &&
            files.emplace(status.st_dev, status.st_ino).second) {
            expected.sum.linked += listed.size;
        }
    }
    return expected;
}

Rules random_rules(Random& random, const std::string& checkpoint, bool resumes) {
    Rules rules;
    rules.nodes.resize(1 + random.below(5));
    for (u32& node : rules.nodes)
        node = static_cast<u32>(random.below(3));
    rules.seed = random.next();
    rules.delay_us = random.below(200);
    // The walk cannot resume with one of the last three.
    const char* names[] = {"drqs",           "deqs", "pa-drqs",     "pa-drqs-list",
                           "h-drqs-batches", "cp",   "cp-keep-one", "cp-directories"};
    const size_t usable = std::size(names) - (resumes ? 3 : 0);
    rules.options.scheduler = scheduler_named(names[random.below(usable)])->scheduler;
    rules.options.queue_bytes = random.below(8 * kib);
    rules.options.resume = resumes;
    rules.options.split = random.one_in(2) ? Split::half : Split::random;
    rules.options.threads = 1 + static_cast<u32>(random.below(2));
    rules.options.checkpoint = checkpoint;
    rules.options.checkpoint_milliseconds = 1 + static_cast<u32>(random.below(4));
    return rules;
}

void fill(const Folder& folder, Random& random) {
    folder.make_directory("tree");
    folder.make_directory("tree/large");
    // Names so long that they are read in several parts.
    const std::string large = "tree/large/" + std::string(200, 'n');
    for (u32 index = 0; index < 1500; ++index)
        folder.make_file(large + std::to_string(index), 1);
    for (u32 index = 0; index < 60; ++index) {
        const std::string name = "tree/d" + std::to_string(index);
        folder.make_directory(name);
        for (u32 file = 0; file < 10; ++file) {
            const std::string path = name + "/" + std::to_string(file);
            const std::string target = folder / (large + std::to_string(random.below(1500)));
            ASSERT_EQ(::link(target.c_str(), (folder / path).c_str()), 0);
        }
    }
}

}  // namespace

TEST(Checkpoint, AnInterruptedWalkGoesOnWhereItWas) {
    const Seed seed;
    Random random(seed.part(0));
    const Folder folder;
    fill(folder, random);
    const std::string root = folder / "tree";
    const Outcome expected = expect_of(root);
    for (u32 round = 0; round < 6 * test_load(); ++round) {
        const std::string place = folder / ("checkpoint" + std::to_string(round));
        Counted counted;
        Outcome outcome;
        u32 runs = 0;
        size_t ranks_before = 0;
        do {
            Rules rules = random_rules(random, place, runs != 0);
            rules.interrupt_after = runs == 8 ? -1 : static_cast<i64>(random.below(1200));
            outcome = walk_once(root, rules, counted);
            EXPECT_EQ(counted.loaded, ranks_before) << "states of the run before";
            EXPECT_EQ(outcome.totals.failures, 0u);
            ranks_before = rules.nodes.size();
        } while (outcome.totals.interrupted && ++runs < 10);
        EXPECT_FALSE(outcome.totals.stopped);
        EXPECT_EQ(outcome.sum, expected.sum);
        EXPECT_EQ(outcome.totals.entries, expected.totals.entries);
        EXPECT_EQ(outcome.totals.directories, expected.totals.directories);
        EXPECT_EQ(counted.visited.size(), expected.totals.entries);
        EXPECT_EQ(counted.visits.load(), expected.totals.entries) << "something was seen twice";
        EXPECT_EQ(counted.finished.size(), expected.totals.directories);
        for (const auto& [path, count] : counted.finished)
            EXPECT_EQ(count, 1u) << path;
        if (HasFailure()) return;
    }
}

// A process with all its ranks is killed at a random moment, also while it writes a checkpoint.
void kill_and_resume(Random& random, const Folder& folder, const Outcome& expected,
                     const std::string& place, u32& resumed) {
    const std::string root = folder / "tree";
    const std::string answer = place + ".answer";
    for (u32 run = 0; run < 200; ++run) {
        const bool resumes = ::access((place + "/manifest").c_str(), F_OK) == 0;
        const Rules rules = random_rules(random, place, resumes);
        // Longer and longer, so that the walk ends on a slow machine too.
        const u32 lifetime_us = static_cast<u32>(random.below(20'000 + run * 1000));
        resumed += rules.options.resume ? 1 : 0;
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            Counted counted;
            const Outcome outcome = walk_once(root, rules, counted);
            std::ofstream(answer) << outcome.sum.entries << ' ' << outcome.sum.linked << ' '
                                  << outcome.totals.entries << ' ' << outcome.totals.directories
                                  << ' ' << outcome.totals.failures;
            ::_exit(0);
        }
        const bool is_last = run == 199;
        if (!is_last) {
            ::usleep(lifetime_us);
            ::kill(child, SIGKILL);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) continue;
        ASSERT_EQ(status, 0);
        Outcome outcome;
        std::ifstream(answer) >> outcome.sum.entries >> outcome.sum.linked >>
            outcome.totals.entries >> outcome.totals.directories >> outcome.totals.failures;
        EXPECT_EQ(outcome.sum, expected.sum);
        EXPECT_EQ(outcome.totals.entries, expected.totals.entries);
        EXPECT_EQ(outcome.totals.directories, expected.totals.directories);
        EXPECT_EQ(outcome.totals.failures, 0u);
        return;
    }
}

TEST(Checkpoint, AKilledWalkCountsNothingTwice) {
    const Seed seed;
    Random random(seed.part(0));
    const Folder folder;
    fill(folder, random);
    const Outcome expected = expect_of(folder / "tree");
    u32 resumed = 0;
    for (u32 round = 0; round < 2 * test_load() || (resumed == 0 && round < 100); ++round) {
        kill_and_resume(random, folder, expected, folder / ("kill" + std::to_string(round)),
                        resumed);
        if (HasFailure()) return;
    }
    EXPECT_GT(resumed, 0u);
}

// If rank 0 is lost, so are the messages of other ranks about entries that the checkpoint counts.
TEST(Checkpoint, RankZeroSavesWhatAllHaveTold) {
    const Seed seed;
    Random random(seed.part(0));
    const Folder folder;
    fill(folder, random);
    const std::string root = folder / "tree";
    u32 saved = 0;
    for (u32 round = 0; round < 4 * test_load(); ++round) {
        Rules rules = random_rules(random, folder / ("sent" + std::to_string(round)), false);
        rules.nodes.push_back(0);                     // two at least
        rules.options.checkpoint_milliseconds += 10;  // a file goes to and fro in cp
        std::atomic<u64> sent{0};
        std::atomic<u64> received{0};
        ThreadNetwork network(rules.nodes, rules.seed, rules.delay_us);
        network.run([&](Group& group) {
            const auto send_one = [&] {
                ++sent;
                if (group.rank() == 0) ++received;
                if (group.rank() != 0) group.send_to_rank_0(0, "seen");
            };
            group.set_receiver([&](u32, u8, std::string_view) { ++received; });
            Options options = rules.options;
            options.group = &group;
            Callbacks callbacks;
            callbacks.visit = [&](const Entry& entry) {
                send_one();
                if (entry.inode() % 4 == 0) ::usleep(20);
                return Next::go_on;
            };
            callbacks.save = [&] {
                send_one();
                if (group.rank() == 0) {
                    EXPECT_EQ(received.load(), sent.load());
                    ++saved;
                }
                return std::string();
            };
            EXPECT_EQ(walk(std::span(&root, 1), options, callbacks).failures, 0u);
        });
        if (HasFailure()) return;
    }
    EXPECT_GT(saved, 0u);
}

TEST(Checkpoint, WhatCannotBeResumedIsSaid) {
    const Folder folder;
    folder.make_directory("tree");
    folder.make_file("tree/f");
    const auto failure_of = [&](const std::string& root, const Options& given) {
        Options options = given;
        options.threads = 1;
        i32 error = 0;
        Callbacks callbacks;
        callbacks.visit = [](const Entry&) { return Next::go_on; };
        callbacks.fail = [&](const Failure& failure) { error = failure.error; };
        const Totals totals = walk(std::span(&root, 1), options, callbacks);
        EXPECT_EQ(totals.stopped, error != 0);
        return error;
    };
    Options options;
    options.checkpoint = folder / "none";
    options.resume = true;
    EXPECT_EQ(failure_of(folder / "tree", options), ENOENT);
    options.checkpoint = folder / "no/such/folder";
    options.resume = false;
    EXPECT_EQ(failure_of(folder / "tree", options), ENOENT);
    // Interrupted at once: a checkpoint of everything.
    options.checkpoint = folder / "some";
    options.interrupt = [] { return true; };
    const std::string root = folder / "tree";
    Callbacks callbacks;
    callbacks.visit = [](const Entry&) {
        ::usleep(20'000);
        return Next::go_on;
    };
    EXPECT_TRUE(walk(std::span(&root, 1), options, callbacks).interrupted);
    options.interrupt = nullptr;
    options.resume = true;
    EXPECT_EQ(failure_of(folder / "other", options), EINVAL);
    options.resume = false;
    EXPECT_EQ(failure_of(folder / "tree", options), EEXIST);
    options.resume = true;
    // A byte of it changes.
    for (const i32 expected : {static_cast<i32>(Errc::corrupt), 0}) {
        std::fstream file(folder / "some/rank-1-0",
                          std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(9);
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(9);
        file.put(byte);
        file.close();
        EXPECT_EQ(failure_of(folder / "tree", options), expected);
    }
    // A finished walk leaves no checkpoint.
    EXPECT_EQ(failure_of(folder / "tree", options), ENOENT);
    std::fstream manifest(folder / "some/manifest", std::ios::out | std::ios::trunc);
    manifest.close();
    EXPECT_EQ(failure_of(folder / "tree", options), static_cast<i32>(Errc::corrupt));
}

/// A walk by cp of two ranks that is interrupted while most of the tree waits at rank 0.
Rules rules_of_cp(const std::string& checkpoint) {
    Rules rules;
    rules.nodes = {0, 0};
    rules.seed = 1;
    rules.options.scheduler = Scheduler::cp;
    rules.options.split = Split::half;
    rules.options.threads = 1;
    rules.options.queue_bytes = 1;  // all but the youngest work batch in its file
    rules.options.checkpoint = checkpoint;
    rules.options.checkpoint_milliseconds = 3'600'000;
    rules.interrupt_after = 100;
    return rules;
}

TEST(Checkpoint, ADamagedQueueIsNotTakenUp) {
    const Seed seed;
    Random random(seed.part(0));
    const Folder folder;
    fill(folder, random);
    const std::string root = folder / "tree";
    Rules rules = rules_of_cp(folder / "kept");
    Counted counted;
    ASSERT_TRUE(walk_once(root, rules, counted).totals.interrupted);
    rules.options.scheduler = Scheduler::drqs;
    rules.options.resume = true;
    rules.interrupt_after = -1;
    const std::string name = folder / "kept/queue-1-0";
    std::ifstream file(name, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    ASSERT_GT(whole.size(), 10'000u);
    const auto resume_from = [&](const std::string& bytes) {
        std::ofstream(name, std::ios::binary | std::ios::trunc) << bytes;
        return walk_once(root, rules, counted).totals;
    };
    for (u32 round = 0; round < 20 * test_load(); ++round) {
        std::string damaged = whole;
        const size_t at = random.below(round == 0 ? 1 : whole.size());
        damaged[at] = static_cast<char>(damaged[at] ^ 1 << random.below(8));
        EXPECT_TRUE(resume_from(damaged).stopped) << "byte " << at;
        EXPECT_TRUE(resume_from(whole.substr(0, at)).stopped) << "cut at " << at;
    }
    EXPECT_TRUE(resume_from(whole + "x").stopped);
    ASSERT_EQ(::unlink(name.c_str()), 0);
    EXPECT_TRUE(walk_once(root, rules, counted).totals.stopped);
    const Totals totals = resume_from(whole);
    EXPECT_FALSE(totals.stopped);
    EXPECT_EQ(totals.failures, 0u);
    EXPECT_EQ(counted.visited.size(), expect_of(root).totals.entries);
    EXPECT_EQ(counted.visits.load(), counted.visited.size()) << "something was seen twice";
}

TEST(Checkpoint, AQueueThatCannotBeWrittenIsAFailure) {
    const Seed seed;
    Random random(seed.part(0));
    const Folder folder;
    fill(folder, random);
    folder.make_directory("kept");
    folder.make_directory("kept/queue-1-0.new");
    Rules rules = rules_of_cp(folder / "kept");
    Counted counted;
    const Totals totals = walk_once(folder / "tree", rules, counted).totals;
    EXPECT_EQ(totals.failures, 1u);
    EXPECT_TRUE(totals.interrupted);
    EXPECT_NE(::access((folder / "kept/manifest").c_str(), F_OK), 0);
}

}  // namespace warren::walk::checkpoint_test

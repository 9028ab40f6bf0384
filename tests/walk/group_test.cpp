// SPDX-License-Identifier: Apache-2.0
// One walk over several ranks, on a network of threads with delays: what all ranks see together is
// what a plain listing finds, once; directories are finished after all below them, whoever did it.
#include "warren/walk_group.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "support/seed.hpp"
#include "walk/folder.hpp"
#include "walk/rank.hpp"
#include "walk/thread_group.hpp"
#include "warren/walk.hpp"

namespace warren::walk {

namespace {

struct Sum {
    u64 entries;
    u64 linked;  // bytes, each file once
};

void add_sum(void* into, const void* from) {
    static_cast<Sum*>(into)->entries += static_cast<const Sum*>(from)->entries;
    static_cast<Sum*>(into)->linked += static_cast<const Sum*>(from)->linked;
}

/// What all ranks of a walk have seen.
struct Seen {
    std::mutex mutex;
    std::vector<std::string> entries;
    std::map<std::string, u64> finished;  // entries at and below, without the directory itself
    std::vector<Failure> failures;
    std::vector<u64> entries_of;  // each rank
    Totals totals;
    Sum sum{};
    std::string fault;
};

Callbacks noting(Seen& seen) {
    Callbacks callbacks;
    callbacks.visit = [&seen](const Entry& entry) {
        ++entry.result<Sum>().entries;
        const struct statx* status = entry.status(STATX_SIZE | STATX_NLINK | STATX_INO);
        if (status != nullptr && entry.type() == Type::regular) {
            const Sum amount{0, status->stx_size};
            entry.add_once(device_of(*status), status->stx_ino, status->stx_nlink, &amount);
        }
        std::lock_guard lock(seen.mutex);
        seen.entries.emplace_back(entry.path());
        return Next::go_on;
    };
    callbacks.finish = [&seen](const Finished& directory) {
        struct stat status {};
        const bool is_there =
            fstatat(directory.directory(), directory.name(), &status, AT_SYMLINK_NOFOLLOW) == 0;
        std::lock_guard lock(seen.mutex);
        const std::string path = directory.path();
        if (!is_there) seen.fault = path + " is not where its descriptor says";
        if (!directory.complete()) seen.fault = path + " was not read to its end";
        // What lies in it came before.
        const size_t slash = path.rfind('/');
        if (seen.finished.contains(path.substr(0, slash))) seen.fault = path + " came late";
        if (!seen.finished.emplace(path, directory.result<Sum>().entries).second) {
            seen.fault = path + " was finished twice";
        }
    };
    callbacks.merge = add_sum;
    callbacks.fail = [&seen](const Failure& failure) {
        std::lock_guard lock(seen.mutex);
        seen.failures.push_back(failure);
    };
    return callbacks;
}

void walk_with_ranks(const std::string& root, const Options& options, ThreadNetwork& network,
                     Seen& seen) {
    const Callbacks callbacks = noting(seen);
    network.run([&](Group& group) {
        Options own = options;
        own.group = &group;
        own.result_bytes = sizeof(Sum);
        Sum sum{};
        // The others take the roots from rank 0.
        const std::vector<std::string> roots(group.rank() == 0 ? 1 : 0, root);
        const Totals totals = walk(roots, own, callbacks, &sum);
        std::lock_guard lock(seen.mutex);
        seen.entries_of.push_back(totals.own_entries);
        if (group.rank() != 0) return;
        seen.totals = totals;
        seen.sum = sum;
    });
}

/// The entries below each directory, itself not counted, and the bytes of all files once.
struct Expected {
    std::vector<std::string> entries;
    std::map<std::string, u64> below;
    u64 linked = 0;
};

Expected expect_of(const std::string& root) {
    Expected expected;
    std::set<std::pair<u64, u64>> files;
    for (const Listed& listed : list_tree(root)) {
        expected.entries.push_back(listed.path);
        if (listed.type == 'd') expected.below.emplace(listed.path, 0);
        struct stat status {};
        if (listed.type == 'f' && lstat(listed.path.c_str(), &status) == 0 &&
            files.emplace(status.st_dev, status.st_ino).second) {
            expected.linked += listed.size;
        }
    }
    for (const std::string& path : expected.entries) {
        std::string above = path;
        while (above.size() > root.size()) {
            above.resize(above.rfind('/'));
            ++expected.below[above];
        }
    }
    return expected;
}

void expect_same(Seen& seen, const Expected& expected) {
    std::sort(seen.entries.begin(), seen.entries.end());
    EXPECT_EQ(seen.entries, expected.entries);
    EXPECT_EQ(seen.finished, expected.below);
    EXPECT_TRUE(seen.failures.empty());
    EXPECT_EQ(seen.fault, "");
    EXPECT_EQ(seen.totals.entries, expected.entries.size());
    EXPECT_EQ(seen.totals.directories, expected.below.size());
    EXPECT_EQ(seen.sum.entries, expected.entries.size());
    EXPECT_EQ(seen.sum.linked, expected.linked);
    EXPECT_FALSE(seen.totals.stopped);
}

std::vector<u32> random_nodes(Random& random) {
    std::vector<u32> nodes(1 + random.below(6));
    const u64 count = 1 + random.below(3);
    for (u32& node : nodes)
        node = static_cast<u32>(random.below(count));
    return nodes;
}

}  // namespace

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
            ThreadNetwork network(random_nodes(random), random.next(), random.below(300));
            Seen seen;
            walk_with_ranks(folder.path(), options, network, seen);
            SCOPED_TRACE(std::string(name.name) + ", part " + std::to_string(part));
            expect_same(seen, expected);
            if (HasFailure()) return;
        }
    }
}

TEST(Group, AHugeDirectoryIsSharedByAllRanks) {
    const Folder folder;
    constexpr u32 count = 12000;
    for (u32 index = 0; index < count; ++index)
        folder.make_file("file_with_a_name_of_some_length_" + std::to_string(index));
    for (const char* name : {"cp", "drqs"}) {
        Options options;
        options.scheduler = scheduler_named(name)->scheduler;
        options.threads = 1;
        ThreadNetwork network({0, 0, 1}, 1, 50);
        Seen seen;
        walk_with_ranks(folder.path(), options, network, seen);
        expect_same(seen, expect_of(folder.path()));
        const auto workers = std::count_if(seen.entries_of.begin(), seen.entries_of.end(),
                                           [](u64 entries) { return entries > 1; });
        EXPECT_GT(workers, 1) << name;
    }
}

}  // namespace warren::walk

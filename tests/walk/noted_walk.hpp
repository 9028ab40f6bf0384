// SPDX-License-Identifier: Apache-2.0
// A walk by ranks on a network of threads, recorded entry by entry, and the entries that it must
// have seen according to a plain listing of the tree.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/support/folder.hpp"
#include "walk/thread_group.hpp"
#include "warren/walk.hpp"

namespace warren::walk {

struct Sum {
    u64 entries;
    u64 linked;  // bytes, each file once
};

inline void add_sum(void* into, const void* from) {
    static_cast<Sum*>(into)->entries += static_cast<const Sum*>(from)->entries;
    static_cast<Sum*>(into)->linked += static_cast<const Sum*>(from)->linked;
}

/// The entries that all ranks of a walk have seen.
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

inline Callbacks noting(Seen& seen) {
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
        // The entries in the directory came before.
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

inline void walk_with_ranks(const std::string& root, const Options& options, ThreadNetwork& network,
                            Seen& seen, const Callbacks& callbacks) {
    network.run([&](Group& group) {
        Options own = options;
        own.group = &group;
        own.result_bytes = sizeof(Sum);
        Sum sum{};
        // The other ranks take the roots from rank 0.
        const std::vector<std::string> roots(group.rank() == 0 ? 1 : 0, root);
        const Totals totals = walk(roots, own, callbacks, &sum);
        std::lock_guard lock(seen.mutex);
        seen.entries_of.push_back(totals.own_entries);
        if (group.rank() != 0) return;
        seen.totals = totals;
        seen.sum = sum;
    });
}

inline void walk_with_ranks(const std::string& root, const Options& options, ThreadNetwork& network,
                            Seen& seen) {
    walk_with_ranks(root, options, network, seen, noting(seen));
}

/// The entries below each directory, itself not counted, and the bytes of all files once.
struct Expected {
    std::vector<std::string> entries;
    std::map<std::string, u64> below;
    u64 linked = 0;
};

inline Expected expect_of(const std::string& root) {
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

inline void expect_same(Seen& seen, const Expected& expected) {
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

inline std::vector<u32> random_nodes(Random& random) {
    std::vector<u32> nodes(1 + random.below(6));
    const u64 count = 1 + random.below(3);
    for (u32& node : nodes)
        node = static_cast<u32>(random.below(count));
    return nodes;
}

}  // namespace warren::walk

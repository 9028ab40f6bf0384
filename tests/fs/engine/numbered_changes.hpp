// SPDX-License-Identifier: Apache-2.0
// Threads whose changes are numbered: what a reader finds must be the state of one moment.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/volume_walk.hpp"

namespace warren {

/// Names with the number of the directory of each.
using FoundNames = std::multimap<std::string, u64>;

/// A thread's operations in order, so that what a moment shows of them says how many were done:
/// number n makes file n, removes file n - 3 or moves a token to another directory.
class NumberedChanges {
 public:
    static constexpr u64 directories = 4;

    NumberedChanges(Volume& volume, const std::vector<Handle>& in, u32 thread)
        : volume_(volume), in_(in), thread_(std::to_string(thread)) {
        EXPECT_TRUE(volume_.create(anybody, in_[0], "token" + thread_, {}));
    }

    void step() {
        const u64 n = done_.load(std::memory_order_relaxed);
        const u64 turn = n / 3;
        if (n % 3 == 0) {
            EXPECT_TRUE(volume_.create(anybody, in_[turn % directories], file(turn), {}));
        } else if (n % 3 == 1 && turn >= 3) {
            const u64 old = turn - 3;
            EXPECT_EQ(volume_.unlink(anybody, in_[old % directories], file(old)), Errc::ok);
        } else if (n % 3 == 2) {
            EXPECT_EQ(volume_.rename(anybody, in_[turn % directories], "token" + thread_,
                                     in_[(turn + 1) % directories], "token" + thread_),
                      Errc::ok);
        }
        done_.store(n + 1, std::memory_order_release);
    }
    u64 done() const { return done_.load(std::memory_order_acquire); }
    std::string file(u64 turn) const { return "f" + thread_ + "_" + std::to_string(turn); }

    /// Whether `names` (with the directory of each) is what n changes leave.
    bool leaves(u64 n, const FoundNames& names) const {
        const u64 made = (n + 2) / 3;
        const u64 removals = (n + 1) / 3;
        const u64 removed = removals > 3 ? removals - 3 : 0;
        u64 count = 0;
        for (const auto& [name, in] : names)
            count += name.starts_with("f" + thread_ + "_") ? 1 : 0;
        if (count != made - removed) return false;
        for (u64 i = removed; i < made; ++i)
            if (!is_only_in(names, file(i), in_[i % directories])) return false;
        return is_only_in(names, "token" + thread_, in_[n / 3 % directories]);
    }

 private:
    static bool is_only_in(const FoundNames& names, const std::string& name, Handle in) {
        return names.count(name) == 1 && names.find(name)->second == in.inode;
    }

    Volume& volume_;
    const std::vector<Handle>& in_;
    const std::string thread_;
    std::atomic<u64> done_{0};
};

using AllChanges = std::vector<std::unique_ptr<NumberedChanges>>;

/// Calls `look(changes, in)` again and again for `time` while threads change the directories `in`
/// of `volume`.
inline void beside_changes(
    Volume& volume, std::chrono::milliseconds time,
    const std::function<void(const AllChanges& changes, const std::vector<Handle>& in)>& look) {
    using std::chrono::steady_clock;
    std::vector<Handle> in;
    for (u64 i = 0; i < NumberedChanges::directories; ++i)
        in.push_back(make_directory(volume, volume.root(), "d" + std::to_string(i)));
    constexpr u32 writers = 3;
    AllChanges changes;
    for (u32 i = 0; i < writers; ++i)
        changes.push_back(std::make_unique<NumberedChanges>(volume, in, i));
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (u32 i = 0; i < writers; ++i) {
        threads.emplace_back([&, i] {
            while (!is_over.load(std::memory_order_relaxed))
                changes[i]->step();
        });
    }
    u64 looks = 0;
    const auto end = steady_clock::now() + time;
    while ((looks < 3 || steady_clock::now() < end) && !testing::Test::HasFailure()) {
        look(changes, in);
        ++looks;
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
}

inline std::vector<u64> done_of(const AllChanges& changes) {
    std::vector<u64> done;
    for (const auto& one : changes)
        done.push_back(one->done());
    return done;
}

/// `find(names)` lists all of `volume`: each answer must be the state of one moment between the
/// call and its end.
inline void expect_states_of_one_moment(Volume& volume, std::chrono::milliseconds time,
                                        const std::function<Errc(FoundNames&)>& find) {
    beside_changes(volume, time, [&](const AllChanges& changes, const std::vector<Handle>&) {
        const std::vector<u64> before = done_of(changes);
        FoundNames names;
        EXPECT_EQ(find(names), Errc::ok);
        for (std::size_t i = 0; i < changes.size(); ++i) {
            // A change may have been applied and not counted yet.
            const u64 after = changes[i]->done() + 1;
            bool is_a_moment = false;
            for (u64 n = before[i]; n <= after && !is_a_moment; ++n)
                is_a_moment = changes[i]->leaves(n, names);
            EXPECT_TRUE(is_a_moment) << "thread " << i << " after " << before[i] << " changes";
        }
    });
}

/// lookup_many() answers for each name what is true at a moment between the call and its end.
inline void expect_lookups_of_some_moment(Volume& volume, std::chrono::milliseconds time) {
    constexpr u64 turns = 400;  // enough names for all workers, of files old and new
    beside_changes(volume, time, [&](const AllChanges& changes, const std::vector<Handle>& in) {
        const std::vector<u64> before = done_of(changes);
        std::vector<std::string> names;
        std::vector<Lookup> lookups;
        const auto first_turn = [&](std::size_t i) {
            return std::max(before[i] / 3, turns / 2) - turns / 2;
        };
        names.reserve(changes.size() * turns);
        for (std::size_t i = 0; i < changes.size(); ++i) {
            for (u64 turn = first_turn(i); turn < first_turn(i) + turns; ++turn) {
                names.push_back(changes[i]->file(turn));
                lookups.push_back({in[turn % in.size()], names.back()});
            }
        }
        std::vector<Result<Attributes>> found(lookups.size(), Errc::io);
        volume.lookup_many(anybody, lookups, found);
        for (std::size_t i = 0; i < changes.size(); ++i) {
            const u64 after = changes[i]->done() + 1;
            for (u64 turn = first_turn(i); turn < first_turn(i) + turns; ++turn) {
                const auto& answer = found[i * turns + turn - first_turn(i)];
                const u64 made = 3 * turn + 1;
                const u64 removed = 3 * (turn + 3) + 2;
                const bool may_exist = after >= made && before[i] < removed;
                const bool may_lack = before[i] < made || after >= removed;
                EXPECT_TRUE(answer ? may_exist : may_lack && answer.code() == Errc::no_entry)
                    << changes[i]->file(turn) << " after " << before[i] << " to " << after
                    << " changes: " << static_cast<u32>(answer.code());
            }
        }
    });
}

}  // namespace warren

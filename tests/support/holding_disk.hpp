// SPDX-License-Identifier: Apache-2.0
// A disk whose reads of selected blocks block until they are released: tests examine what other
// threads can do meanwhile, without depending on time.
//
// Invariant: a held read has its bytes already: later writes do not affect it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "tests/support/passing_disk.hpp"

namespace warren {

class HoldingDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    Errc read(u64 offset, std::span<std::byte> target) override {
        const Errc code = PassingDisk::read(offset, target);
        std::unique_lock lock(mutex_);
        ++counts_[offset];
        if (held_.contains(offset)) {
            waiting_.insert(offset);
            most_held_ = std::max<u64>(most_held_, waiting_.size());
            changed_.notify_all();
            EXPECT_TRUE(changed_.wait_for(lock, patience, [&] { return !held_.contains(offset); }));
            waiting_.erase(offset);
        }
        return failing_.contains(offset) ? Errc::io : code;
    }
    Errc read_many(std::span<const DiskRead> reads) override {
        {
            const std::lock_guard lock(mutex_);
            largest_ = std::max<u64>(largest_, reads.size());
        }
        return PassingDisk::read_many(reads);
    }

    /// Reads that begin at `place` block from now on.
    void hold(u64 place) {
        const std::lock_guard lock(mutex_);
        held_.insert(place);
    }
    void let_go(u64 place) {
        const std::lock_guard lock(mutex_);
        held_.erase(place);
        changed_.notify_all();
    }
    /// Makes reads that begin at `place` fail with Errc::io, or succeed again.
    void set_failing(u64 place, bool fails) {
        const std::lock_guard lock(mutex_);
        if (fails) {
            failing_.insert(place);
        } else {
            failing_.erase(place);
        }
    }
    /// Waits until a read of `place` is held. Returns false if none arrives for a very long time.
    bool wait_until_held(u64 place) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] { return waiting_.contains(place); });
    }
    /// The number of reads that began at `place`.
    u64 count(u64 place) {
        const std::lock_guard lock(mutex_);
        return counts_[place];
    }
    /// The maximum number of reads that were held at once.
    u64 most_held() {
        const std::lock_guard lock(mutex_);
        return most_held_;
    }
    /// The maximum number of reads in one call.
    u64 largest() {
        const std::lock_guard lock(mutex_);
        return largest_;
    }

 private:
    static constexpr std::chrono::minutes patience{5};

    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<u64> held_;
    std::set<u64> waiting_;
    std::set<u64> failing_;
    std::map<u64, u64> counts_;
    u64 largest_ = 0;
    u64 most_held_ = 0;
};

}  // namespace warren

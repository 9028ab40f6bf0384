// SPDX-License-Identifier: Apache-2.0
// How much of a memory several users may still take together, and the share of one of them.
//
// Invariant: what is left and all shares add up to the whole.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "base/check.hpp"
#include "warren/types.hpp"

namespace warren {

class MemoryBudget {
 public:
    explicit MemoryBudget(u64 bytes) : all_(bytes), left_(bytes) {}
    ~MemoryBudget() { WARREN_CHECK(left() == all_); }
    MemoryBudget(const MemoryBudget&) = delete;

    /// `give_up_idle` frees memory that nobody uses now, and is called when too little is left.
    void on_shortage(std::function<void()> give_up_idle) {
        give_up_idle_ = std::move(give_up_idle);
    }
    /// Requires: it was 0 so far.
    void set(u64 bytes) {
        WARREN_CHECK(all_ == 0 && left() == 0);
        all_ = bytes;
        left_.store(bytes, std::memory_order_relaxed);
    }
    u64 left() const { return left_.load(std::memory_order_relaxed); }

 private:
    friend class MemoryShare;

    bool take(u64 bytes) {
        if (take_what_is_left(bytes)) return true;
        if (!give_up_idle_) return false;
        give_up_idle_();
        return take_what_is_left(bytes);
    }
    bool take_what_is_left(u64 bytes) {
        u64 left = left_.load(std::memory_order_relaxed);
        do {
            WARREN_CHECK(left <= all_);
            if (bytes > left) return false;
        } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
        return true;
    }
    void give_back(u64 bytes) {
        const u64 before = left_.fetch_add(bytes, std::memory_order_relaxed);
        WARREN_CHECK(bytes <= all_ - before);
    }

    u64 all_;
    std::atomic<u64> left_;
    std::function<void()> give_up_idle_;
};

/// What one user has taken of a budget, which outlives it. Gives it back when it ends: declare it
/// before the memory. One thread at a time.
class MemoryShare {
 public:
    /// Without a budget: unlimited.
    explicit MemoryShare(MemoryBudget* budget = nullptr) : budget_(budget) {}
    ~MemoryShare() {
        if (budget_ != nullptr) budget_->give_back(bytes_);
    }
    MemoryShare(const MemoryShare&) = delete;

    /// Call before memory is taken. False if the budget has not so much left.
    bool grow(u64 bytes) {
        if (budget_ != nullptr && !budget_->take(bytes)) return false;
        bytes_ += bytes;
        return true;
    }
    /// Gives back what could not be taken.
    void shrink(u64 bytes) {
        WARREN_CHECK(bytes <= bytes_);
        bytes_ -= bytes;
        if (budget_ != nullptr) budget_->give_back(bytes);
    }
    u64 bytes() const { return bytes_; }

 private:
    MemoryBudget* const budget_;
    u64 bytes_ = 0;
};

}  // namespace warren

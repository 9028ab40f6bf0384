// SPDX-License-Identifier: Apache-2.0
// Statuses of the next names of a directory, asked for by io_uring(7) before the callback wants
// them. Such a request always goes through a thread of the kernel, which costs more than the call
// itself where the answer is in memory; where it comes over a network, many are under way at once.
//
// Invariant: outside of begin() and end() the kernel has no request that uses memory of the walk.
#pragma once

#include <sys/stat.h>

#include <array>
#include <bit>
#include <memory>
#include <span>

#include "walk/names.hpp"
#include "warren/types.hpp"

namespace warren::walk {

/// Whether a file system takes long to tell a status: most of the last eight times that were taken.
class StatusPace {
 public:
    static constexpr u64 slow_nanoseconds = 20'000;

    /// Whether the next call is to be timed.
    bool is_due() { return known_ < times || is_slow() || ++calls_ % calls_a_time == 0; }
    void note(u64 nanoseconds) {
        history_ = static_cast<u8>(history_ << 1 | (nanoseconds > slow_nanoseconds ? 1 : 0));
        if (known_ < times) ++known_;
    }
    bool is_slow() const { return known_ == times && std::popcount(history_) >= slow_times; }

 private:
    static constexpr u32 times = 8;
    static constexpr int slow_times = 6;
    static constexpr u32 calls_a_time = 16;
    u8 history_ = 0;
    u32 known_ = 0;
    u32 calls_ = 0;
};

/// One thread's.
class StatusAhead {
 public:
    static constexpr u32 depth = 64;  // requests under way

    StatusAhead();
    ~StatusAhead();
    StatusAhead(const StatusAhead&) = delete;
    StatusAhead& operator=(const StatusAhead&) = delete;

    /// Takes note that of a name of this type the status was asked for, or was not. Only the types
    /// of whose names it always was are asked for ahead.
    void learn(u8 type, bool was_asked) {
        u8& asked = asked_[type % types];
        asked = was_asked ? static_cast<u8>(asked + (asked < always ? 1 : 0)) : u8{0};
    }
    void learn_mask(u32 mask) { mask_ |= mask; }

    /// Begins with these names of an open directory, which stay where they are until end(). False:
    /// the kernel allows no ring, or there is nothing to ask.
    bool begin(int directory, int flags, std::span<const Name* const> names);
    /// The entry at hand is names[at], each in turn: has the next ones asked for.
    void go_to(size_t at);
    /// The status of the entry at hand; null if it has to be asked for.
    const struct statx* find(u32 mask);
    u32 mask() const { return begun_mask_; }
    void end();

 private:
    static constexpr size_t types = 16;
    static constexpr u8 always = 8;
    struct Queue;
    bool open();
    bool is_wanted(const Name& name) const {
        return asked_[name.type % types] == always && !is_dot(name.text);
    }
    void submit(u32 requests);
    void take_answer();

    std::unique_ptr<Queue> queue_;
    std::array<u8, types> asked_{};
    u32 mask_ = STATX_TYPE | STATX_INO;
    u32 begun_mask_ = 0;
    int directory_ = -1;
    int flags_ = 0;
    std::span<const Name* const> names_;  // empty: not begun
    size_t at_ = 0;
    size_t next_ = 0;  // of names_, to be asked for
    bool has_left_one_ = false;
    u32 under_way_ = 0;
};

}  // namespace warren::walk

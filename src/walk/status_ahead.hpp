// SPDX-License-Identifier: Apache-2.0
// Requests the statuses of the next names of a directory by io_uring(7) before the callback needs
// them. Such a request always runs on a kernel thread, which costs more than a statx(2) call if the
// status is in memory; if it comes over a network, many requests are in flight at once.
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

/// Whether a file system is slow to return a status, judged by the last eight calls that were
/// timed.
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

/// Used by one thread.
class StatusAhead {
 public:
    static constexpr u32 depth = 64;  // requests in flight

    StatusAhead();
    ~StatusAhead();
    StatusAhead(const StatusAhead&) = delete;
    StatusAhead& operator=(const StatusAhead&) = delete;

    /// Records whether the status of a name of this type was needed. Only types whose statuses were
    /// needed every time are requested ahead.
    void learn(u8 type, bool was_asked) {
        u8& asked = asked_[type % types];
        asked = was_asked ? static_cast<u8>(asked + (asked < always ? 1 : 0)) : u8{0};
    }
    void learn_mask(u32 mask) { mask_ |= mask; }

    /// Begins with these names of an open directory, which must stay in place until end(). Returns
    /// false if the kernel allows no ring, or there is nothing to request.
    bool begin(int directory, int flags, std::span<const Name* const> names);
    /// Makes names[at] the current entry, each in turn, and requests the statuses of the next ones.
    void go_to(size_t at);
    /// The status of the current entry; null if the caller must read it.
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
    std::span<const Name* const> names_;  // empty: begin() was not called
    size_t at_ = 0;
    size_t next_ = 0;  // index in names_ of the next to be requested
    bool has_left_one_ = false;
    u32 under_way_ = 0;
};

}  // namespace warren::walk

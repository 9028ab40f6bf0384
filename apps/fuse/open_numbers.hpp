// SPDX-License-Identifier: Apache-2.0
// The numbers by which the kernel names open files: all that a mount keeps of an open file.
#pragma once

#include <atomic>

#include "warren/types.hpp"

namespace warren::fuse {

/// One such number: the file's generation, whether it writes, whether it goes past the page cache,
/// and a count of opens, which tells those from before an event from those behind it.
class OpenNumber {
 public:
    static constexpr u32 count_bits = 30;

    OpenNumber(u64 number) : number_(number) {}
    OpenNumber(u32 generation, bool writes, bool direct, u32 count)
        : number_(generation | (writes ? writes_bit : 0) | (direct ? direct_bit : 0) |
                  u64{count} << count_shift) {}

    u64 number() const { return number_; }
    u32 generation() const { return static_cast<u32>(number_); }
    bool writes() const { return (number_ & writes_bit) != 0; }
    bool is_direct() const { return (number_ & direct_bit) != 0; }
    /// Whether it was made no later than the one with the count `last`. Counts come round.
    bool is_up_to(u32 last) const {
        constexpr u32 mask = (1u << count_bits) - 1;
        return ((last - static_cast<u32>(number_ >> count_shift)) & mask) <= mask / 2;
    }

 private:
    static constexpr u64 writes_bit = u64{1} << 32;
    static constexpr u64 direct_bit = u64{1} << 33;
    static constexpr u32 count_shift = 34;

    u64 number_;
};

class OpenNumbers {
 public:
    OpenNumber next(u32 generation, bool writes, bool direct) {
        return {generation, writes, direct, opens_.fetch_add(1, std::memory_order_relaxed) + 1};
    }
    /// The count of the last one.
    u32 last() const { return opens_.load(std::memory_order_relaxed); }

 private:
    std::atomic<u32> opens_{0};
};

}  // namespace warren::fuse

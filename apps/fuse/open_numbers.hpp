// SPDX-License-Identifier: Apache-2.0
// The numbers by which the kernel identifies open files: the only state of an open file.
#pragma once

#include <atomic>

#include "warren/types.hpp"

namespace warren::fuse {

/// The mode in which a file is open.
struct OpenWay {
    bool writes = false;
    bool is_direct = false;   // bypasses the page cache
    bool is_awaited = false;  // each write is durable before it returns
};

/// Such a number: the file's generation, the mode of the open, and a count of opens, which tells
/// opens before an event from those after it.
class OpenNumber {
 public:
    static constexpr u32 count_bits = 29;

    OpenNumber(u64 number) : number_(number) {}
    OpenNumber(u32 generation, OpenWay way, u32 count)
        : number_(generation | (way.writes ? writes_bit : 0) | (way.is_direct ? direct_bit : 0) |
                  (way.is_awaited ? awaited_bit : 0) | u64{count} << count_shift) {}

    u64 number() const { return number_; }
    u32 generation() const { return static_cast<u32>(number_); }
    bool writes() const { return (number_ & writes_bit) != 0; }
    bool is_direct() const { return (number_ & direct_bit) != 0; }
    bool is_awaited() const { return (number_ & awaited_bit) != 0; }
    /// Whether it was made no later than the open with the count `last`. Counts wrap around.
    bool is_up_to(u32 last) const {
        constexpr u32 mask = (1u << count_bits) - 1;
        return ((last - static_cast<u32>(number_ >> count_shift)) & mask) <= mask / 2;
    }

 private:
    static constexpr u64 writes_bit = u64{1} << 32;
    static constexpr u64 direct_bit = u64{1} << 33;
    static constexpr u64 awaited_bit = u64{1} << 34;
    static constexpr u32 count_shift = 35;
    static_assert(count_shift + count_bits == 64);

    u64 number_;
};

class OpenNumbers {
 public:
    OpenNumber next(u32 generation, OpenWay way) {
        return {generation, way, opens_.fetch_add(1, std::memory_order_relaxed) + 1};
    }
    /// The count of the most recent open.
    u32 last() const { return opens_.load(std::memory_order_relaxed); }

 private:
    std::atomic<u32> opens_{0};
};

}  // namespace warren::fuse

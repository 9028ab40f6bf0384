// SPDX-License-Identifier: Apache-2.0
// Arrays that lie one after the other in one piece of memory.
#pragma once

#include <cstddef>

#include "warren/types.hpp"

namespace warren {

/// Lays out arrays, or only computes how much memory they take if `base` is null.
class ArrayLayout {
 public:
    explicit ArrayLayout(std::byte* base = nullptr) : base_(base) {}

    /// Sets `at` to memory for `count` values.
    template <class T>
    void operator()(T*& at, u64 count) {
        at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
        bytes_ += (count * sizeof(T) + alignment - 1) / alignment * alignment;
    }
    u64 bytes() const { return bytes_; }

 private:
    static constexpr u64 alignment = 256;

    std::byte* base_;
    u64 bytes_ = 0;
};

}  // namespace warren

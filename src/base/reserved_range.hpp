// SPDX-License-Identifier: Apache-2.0
// Address ranges for as much as may ever be needed, of which only touched pages take memory.
#pragma once

#include <cstddef>

#include "warren/types.hpp"

namespace warren {

/// A range of anonymous memory that starts as zeros. The destructor unmaps it.
class ReservedRange {
 public:
    ReservedRange() = default;
    explicit ReservedRange(u64 bytes);
    ~ReservedRange();
    ReservedRange(ReservedRange&& other) noexcept;
    ReservedRange& operator=(ReservedRange&& other) noexcept;

    /// Allocates the pages of the first `bytes` at once, which takes a fraction of the time of page
    /// faults. Pages that cannot be allocated here are allocated when they are touched.
    void populate(u64 bytes);
    /// Gives the memory beyond the first `bytes` back to the system; it reads as zeros then.
    void give_back(u64 bytes);

    /// Null if the range could not be reserved.
    std::byte* data() const { return data_; }
    template <class T>
    T* as() const {
        return reinterpret_cast<T*>(data_);
    }

 private:
    std::byte* data_ = nullptr;
    u64 bytes_ = 0;
    u64 populated_bytes_ = 0;
};

}  // namespace warren

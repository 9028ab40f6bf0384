// SPDX-License-Identifier: Apache-2.0
// The memory behind a Store on the CPU: address ranges as large as the volume needs, of which only
// touched pages cost memory. So a 16 TiB volume opens as fast as a small one.
//
// Invariant: the memory is anonymous and starts as zeros; it never maps the image.
#pragma once

#include <cstddef>
#include <vector>

#include "fs/core/head_table.hpp"
#include "fs/core/store.hpp"

namespace warren {

/// A zeroed range of anonymous memory, returned to the system at the end of its life.
class ReservedRange {
 public:
    ReservedRange() = default;
    explicit ReservedRange(u64 bytes);
    ~ReservedRange();
    ReservedRange(ReservedRange&& other) noexcept;
    ReservedRange& operator=(ReservedRange&& other) noexcept;

    /// Takes memory for the first `bytes` at once; what the system does not give comes when it is
    /// touched, as all memory of the range, at several times the price.
    void populate(u64 bytes);
    /// Gives the memory behind the first `bytes` back: it reads as zeros.
    void give_back(u64 bytes);

    /// Null if the system refused the range.
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

/// What the owner must know to make a Store.
struct StoreShape {
    u64 size_bytes = 0;
    u64 frame_table_offset = 0;
    u64 frame_table_blocks = 0;
    u64 meta_buffer_blocks = 0;  // 0: the identity map
};

class StoreMemory {
 public:
    /// Errc::no_space if the address ranges cannot be had.
    Errc open(const StoreShape& shape);

    core::Store& store() { return store_; }

 private:
    template <class T>
    T* reserve(u64 count);

    core::Store store_{};
    core::HeadTable heads_{};
    std::vector<ReservedRange> ranges_;
    bool failed_ = false;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The memory of a Store on the host: address ranges sized for the whole volume, of which only
// touched pages take memory. So a 16 TiB volume opens as fast as a small one.
//
// Invariant: the memory is anonymous and starts as zeros; the image is never mapped.
#pragma once

#include <cstddef>
#include <vector>

#include "fs/core/head_table.hpp"
#include "fs/core/store.hpp"

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

/// The sizes from which StoreMemory makes a Store.
struct StoreShape {
    u64 size_bytes = 0;
    u64 frame_table_offset = 0;
    u64 frame_table_blocks = 0;
    u64 meta_buffer_blocks = 0;  // size of the buffer cache; 0: a fully resident store
};

class StoreMemory {
 public:
    /// Errc::no_space if the address ranges cannot be reserved.
    Errc open(const StoreShape& shape);

    /// Frames from `begin` on are not in use: one that comes to hold metadata will be filled, and
    /// so gets its memory as one huge page where the system has one.
    void expect_new_frames(u64 begin);

    core::Store& store() { return store_; }

    /// From now on changed blocks are marked, for a replica. Errc::no_memory; Errc::not_supported
    /// with a meta buffer. Requires: no operation has run.
    Errc mark_changes();

 private:
    template <class T>
    T* reserve(u64 count);
    std::byte* reserve_frames(u64 bytes);

    core::Store store_{};
    core::HeadTable heads_{};
    std::vector<ReservedRange> ranges_;
    bool failed_ = false;
};

}  // namespace warren

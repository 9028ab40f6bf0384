// SPDX-License-Identifier: Apache-2.0
// The memory of a Store on the host: address ranges sized for the whole volume, of which only
// touched pages take memory. So a 16 TiB volume opens as fast as a small one.
//
// Invariant: the memory is anonymous and starts as zeros; the image is never mapped.
#pragma once

#include <cstddef>
#include <vector>

#include "base/reserved_range.hpp"
#include "fs/core/head_table.hpp"
#include "fs/core/store.hpp"

namespace warren {

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

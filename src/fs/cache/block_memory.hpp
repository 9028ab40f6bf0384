// SPDX-License-Identifier: Apache-2.0
// Where the file buffer's extents have their bytes.
#pragma once

#include "fs/format/layout.hpp"

namespace warren {

/// Not thread-safe, except is_pinned(): the buffer's lock guards it.
class BlockMemory {
 public:
    BlockMemory() = default;
    virtual ~BlockMemory() = default;
    BlockMemory(const BlockMemory&) = delete;
    BlockMemory& operator=(const BlockMemory&) = delete;

    /// Contiguous blocks with any contents; may exceed the limit. Null, or std::bad_alloc and
    /// nothing taken, if the system has no more memory. Requires: at least one, at most as many as
    /// an extent may have.
    virtual format::Block* take(u64 blocks) = 0;
    /// Requires: from take() with as many.
    virtual void give_back(format::Block* memory, u64 blocks) = 0;
    /// Whether blocks from take() are pinned, so that a GPU may read them.
    virtual bool is_pinned(const format::Block* memory) const = 0;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Finds inode frames without inodes. They count as free space, because a commit can free them.
#pragma once

#include "fs/cache/meta_loader.hpp"
#include "fs/ops/inode_frame.hpp"

namespace warren {

/// Whether the bitmap of the inode frame `frame` is in memory and has no inode in use.
inline bool is_empty_inode_frame(MetaLoader& loader, u64 frame) {
    const u64 place = frame * format::frame_size;
    const format::Block* block = loader.pin(place);
    if (block == nullptr) return false;
    const bool is_empty = ops::holds_no_inode(*reinterpret_cast<const format::InodeBitmap*>(block));
    loader.unpin(place);
    return is_empty;
}

/// Whether there are so few inodes that an inode frame may be empty.
inline bool may_have_empty_inode_frame(const core::StoreState& state) {
    return relaxed_load(state.inode_slots) >=
           relaxed_load(state.inodes_used) + format::inode_slots_per_frame;
}

}  // namespace warren

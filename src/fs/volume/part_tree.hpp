// SPDX-License-Identifier: Apache-2.0
// Divides a directory's tree into parts for workers. No part ends within a node right above leaves,
// so work on a leaf and its neighbours stays within one part.
#pragma once

#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/core/tree.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// The lowest keys of the parts. Only 0 for a directory too small to be divided.
inline Result<std::vector<u64>> part_tree(CpuOperation& op, const core::InodeRef& inode) {
    std::vector<u64> begins = {0};
    WARREN_LET(root, core::root_pairs(op, inode));
    if (root->height < 2) return begins;
    for (u32 i = 0; i < root->count; ++i) {
        const u64 key = relaxed_load(root->pairs[i].key);
        if (key != 0) begins.push_back(key);
        if (root->height < 3) continue;
        const u32 mark = op.pin_mark();
        core::Descent descent;
        WARREN_TRY(core::step_down(op, *root, key, descent));
        WARREN_LET(node, core::node_pairs(op, descent.leaf, descent.leaf_seen,
                                          core::identity_of(core::directory_tree.node, inode),
                                          root->height - 1));
        for (u32 j = 1; j < node->count; ++j) {
            begins.push_back(relaxed_load(node->pairs[j].key));
        }
        WARREN_TRY(op.confirm(descent.leaf_seen));
        op.release_pins(mark);
    }
    WARREN_TRY(op.confirm(inode.seen));
    return begins;
}

/// As above, for a directory of any volume.
inline Result<std::vector<u64>> part_directory(VolumeImplementation& volume, Handle directory) {
    if (!volume.works_on_host()) return std::vector<u64>{0};
    return volume.run([&](CpuOperation& op) -> Result<std::vector<u64>> {
        WARREN_LET(inode, core::find_directory(op, directory));
        return or_no_memory([&]() -> Result<std::vector<u64>> { return part_tree(op, *inode); });
    });
}

}  // namespace warren

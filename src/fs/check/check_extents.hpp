// SPDX-License-Identifier: Apache-2.0
// The extents of one file, from its inode or its tree, none of which is trusted.
#pragma once

#include <functional>
#include <vector>

#include "fs/check/check_context.hpp"

namespace warren::check {

/// The result of reading a file's extents.
struct ExtentCount {
    u64 extents = 0;      // sound ones before the first that is not
    u64 blocks = 0;       // of data, in these
    u64 tree_blocks = 0;  // nodes and leaves
    bool is_good = true;
};

/// Reads all extents in order and claims the blocks of each, until one is wrong, which is reported.
/// Then the caller must undo the claims with release_extents().
ExtentCount claim_extents(Context& context, u32 ordinal, const format::Inode& inode);

/// Releases the blocks of the first `count` extents.
void release_extents(Context& context, u32 ordinal, const format::Inode& inode, u64 count);

/// Collects the usable extents of a damaged file, found_leaves_of() included: in order, without
/// overlaps, with their blocks claimed. If two extents hold the same block of the file, the one
/// that begins first keeps it. Reports what is lost.
std::vector<format::Extent> save_extents(Context& context, u32 ordinal, const format::Inode& inode);

}  // namespace warren::check

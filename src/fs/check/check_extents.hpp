// SPDX-License-Identifier: Apache-2.0
// Checks the extents of one file, in its inode or its tree. No bytes of them are trusted.
#pragma once

#include <functional>
#include <vector>

#include "fs/check/check_context.hpp"

namespace warren::check {

/// The result of reading a file's extents.
struct ExtentCount {
    u64 extents = 0;      // sound ones before the first that is wrong
    u64 blocks = 0;       // data blocks of these
    u64 tree_blocks = 0;  // nodes and leaves
    bool is_good = true;
};

/// Reads the extents in order and claims the blocks of each. Reports the first wrong one and stops
/// there; the caller must then undo the claims with release_extents().
ExtentCount claim_extents(Context& context, u32 ordinal, const format::Inode& inode);

/// Releases the blocks of the first `count` extents.
void release_extents(Context& context, u32 ordinal, const format::Inode& inode, u64 count);

/// Collects the usable extents of a damaged file, also those in found_leaves_of(), and claims their
/// blocks. The result is in order and without overlaps: if two extents contain the same block of
/// the file, the one that begins first keeps it. Reports what is lost.
std::vector<format::Extent> save_extents(Context& context, u32 ordinal, const format::Inode& inode);

}  // namespace warren::check

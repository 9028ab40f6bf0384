// SPDX-License-Identifier: Apache-2.0
// The extents of one file, from its inode or its tree, read without trust in any of them.
#pragma once

#include <functional>
#include <vector>

#include "fs/volume/check_context.hpp"

namespace warren::check {

/// What reading a file's extents found.
struct ExtentCount {
    u64 extents = 0;      // good ones before the first that is not
    u64 blocks = 0;       // of data, in these
    u64 tree_blocks = 0;  // nodes and leaves
    bool is_good = true;
};

/// Reads all extents in order and gives each an owner, until one is wrong; that is reported. Then
/// the caller undoes what was done with release_extents().
ExtentCount claim_extents(Context& context, u32 ordinal, const format::Inode& inode);

/// Takes the owner away from the first `count` extents.
void release_extents(Context& context, u32 ordinal, const format::Inode& inode, u64 count);

/// Collects what is usable of a file whose extents are not all good, found_leaves_of() included: in
/// order, without overlaps, each with an owner. Of two extents that hold one block of the file the
/// one that begins first has it. Reports what is lost.
std::vector<format::Extent> save_extents(Context& context, u32 ordinal, const format::Inode& inode);

}  // namespace warren::check

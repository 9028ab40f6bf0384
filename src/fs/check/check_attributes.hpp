// SPDX-License-Identifier: Apache-2.0
// Checks the block of extended attributes that any inode may have.
#pragma once

#include "fs/check/check_context.hpp"

namespace warren::check {

/// Checks the attribute block of an inode. Returns the number of blocks that it owns: 0 or 1.
u64 check_attributes(Context& context, u32 ordinal, const format::Inode& inode);

}  // namespace warren::check

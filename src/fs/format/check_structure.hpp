// SPDX-License-Identifier: Apache-2.0
// What a block or an inode says about itself, looked at when it is read in: a right checksum does
// not make it one that a writer can have made.
//
// Invariant: whoever works on what passes here stays within its memory and gets to an end, for
// lists and keys are in order and counts are in bounds. Whether blocks agree with each other is not
// looked at.
#pragma once

#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"

namespace warren::format {

/// Whether the contents of a metadata block of `kind` are possible in a volume of `size_bytes`.
bool structure_is_sound(const Block& block, BlockKind kind, u64 size_bytes);

/// Whether the area of an inode is.
bool area_is_sound(const Inode& inode, u64 size_bytes);

}  // namespace warren::format

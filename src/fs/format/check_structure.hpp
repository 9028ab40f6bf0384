// SPDX-License-Identifier: Apache-2.0
// What a block or an inode says about itself, looked at when it is read in: a right checksum does
// not make it one that a writer can have made.
//
// Invariant: whoever works on what passes here stays within its memory and gets to an end, for
// lists and keys are in order and counts are in bounds; and a name leads nowhere but to its own
// entry. Whether blocks agree with each other is not looked at.
#pragma once

#include <string_view>

#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"

namespace warren::format {

/// Whether a directory may hold this name: 1 to 255 bytes, any but '/' and NUL, not "." or "..".
bool is_name(std::string_view name);

/// Whether the contents of a metadata block of `kind` are possible in a volume of `size_bytes`.
bool structure_is_sound(const Block& block, BlockKind kind, u64 size_bytes);

/// Whether the area of an inode is.
bool area_is_sound(const Inode& inode, u64 size_bytes);

}  // namespace warren::format

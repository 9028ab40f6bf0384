// SPDX-License-Identifier: Apache-2.0
// Sealing a block when a commit copies it out, and checking it when it is read in. Between the two,
// in memory, checksums mean nothing.
#pragma once

#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren::format {

/// Writes kind-independent identity and CRC into a block with a header. Memory-only fields of its
/// kind are zeroed.
void seal_block(Block& block, u64 volume, u64 place, u64 transaction);

/// Errc::corrupt if the block is not a `kind` of this volume and place with a right CRC.
Errc check_block(const Block& block, BlockKind kind, u64 volume, u64 place);

/// Whether the CRC of a block is right, whatever its header says.
bool block_is_right(const Block& block);

/// Seals the 16 inodes of an inode block at `place`. A slot that was never used stays zero.
void seal_inodes(Block& block, u64 volume, u64 place, u64 transaction);

/// Whether the inode is untouched (all zero) or passes its CRC for this volume and number.
bool inode_is_sound(const Inode& inode, u64 volume, u64 number);

}  // namespace warren::format

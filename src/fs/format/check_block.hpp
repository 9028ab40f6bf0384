// SPDX-License-Identifier: Apache-2.0
// Sealing a block (writing its identity and CRC) when a commit copies it, and checking it when it
// is read from disk. Checksums of blocks in memory are not kept up to date.
#pragma once

#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren::format {

/// Writes volume, place, transaction and CRC into the header of a block whose kind and owner are
/// set. Fields of its kind that exist in memory only are zeroed.
void seal_block(Block& block, u64 volume, u64 place, u64 transaction);

/// Errc::corrupt unless the block is of this kind, volume and place and its CRC is right.
Errc check_block(const Block& block, BlockKind kind, u64 volume, u64 place);

/// Whether the CRC of a block is right, whatever its header says.
bool block_is_right(const Block& block);

/// Seals the 16 inodes of an inode block at `place`. A slot that was never used stays zero.
void seal_inodes(Block& block, u64 volume, u64 place, u64 transaction);

/// Whether the slot was never used (all zero) or the inode's CRC is right for this volume and
/// number.
bool inode_is_sound(const Inode& inode, u64 volume, u64 number);

}  // namespace warren::format

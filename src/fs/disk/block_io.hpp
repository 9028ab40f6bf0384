// SPDX-License-Identifier: Apache-2.0
// Reading and writing a block of a disk with its identity and CRC.
#pragma once

#include "fs/disk/disk.hpp"
#include "fs/format/check_block.hpp"

namespace warren {

/// Reads a block. Errc::corrupt unless it is of this kind and volume and its CRC is right.
inline Errc read_checked(Disk& disk, u64 place, format::BlockKind kind, u64 volume,
                         format::Block& block) {
    WARREN_TRY(disk.read(place, block.bytes()));
    return format::check_block(block, kind, volume, place);
}

/// Makes the block one of this kind, seals it, and writes it.
inline Errc write_sealed(Disk& disk, u64 place, format::BlockKind kind, u64 volume, u64 transaction,
                         format::Block& block) {
    reinterpret_cast<format::BlockHeader&>(block).kind = static_cast<u16>(kind);
    format::seal_block(block, volume, place, transaction);
    return disk.write(place, block.bytes());
}

}  // namespace warren

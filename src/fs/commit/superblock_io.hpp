// SPDX-License-Identifier: Apache-2.0
// Reading and writing the superblock outside of the journal. A superblock is fully validated when
// it is read, so all other code may trust every place and count in it.
//
// Invariant: the only sound copy is never overwritten; the other copy is made sound first.
#pragma once

#include <string>

#include "fs/disk/disk.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Reads the copy at `place`. Errc::no_data: its magic number is missing; Errc::corrupt: it is
/// there, but the copy is damaged.
Errc read_superblock_copy(Disk& disk, u64 place, format::Superblock& superblock);

/// Reads the first copy that is sound and checks it against the size of `disk`. The failure's
/// message names `path`.
Failure read_superblock(Disk& disk, const std::string& path, format::Superblock& superblock);

/// Whether the volume has read-only compatible features unknown to this program.
inline bool must_stay_read_only(const format::Superblock& superblock) {
    return (superblock.features_read_only_compatible & ~format::read_only_compatible_known) != 0;
}

/// Makes all earlier writes durable, then both copies of the superblock with the number
/// `transaction`. Requires: the number is above that of every transaction in the journal (see
/// fs/commit/journal.hpp).
Errc write_superblock(Disk& disk, format::Superblock& superblock, u64 transaction);

/// Raises the superblock's generation unless it is at least 2^20 above `last`, the generation of
/// the inode made last. That is more inodes than can be made before the next commit, so no commit
/// is needed just to raise the generation.
void raise_generation(format::Superblock& superblock, u64 last);

/// Checks the numbers in `superblock` against each other and against `device_bytes`. The failure's
/// message names `path`.
Failure validate_superblock(const format::Superblock& superblock, u64 device_bytes,
                            const std::string& path);

/// The other file system or partition table that the disk seems to contain ("an XFS file system"),
/// or null.
const char* find_foreign_file_system(Disk& disk);

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Reading and writing the superblock outside of the journal. A superblock that was read is fully
// validated, so that all other code may trust every place and count in it.
//
// Invariant: at no moment is the only sound copy being overwritten.
#pragma once

#include <string>

#include "fs/disk/disk.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Information beside the superblock itself.
struct SuperblockNotes {
    bool must_stay_read_only = false;  // it has read-only compatible features unknown to this code
    bool is_from_copy = false;         // the first copy is damaged, the second was used
};

/// Reads the first copy that is sound and checks it against the size of `disk`. The failure's
/// message names `path`.
Failure read_superblock(Disk& disk, const std::string& path, format::Superblock& superblock,
                        SuperblockNotes* notes = nullptr);

enum class Copies : u8 { first, both };

/// Makes all earlier writes durable, then the superblock under the number `transaction`. Requires:
/// the number is above that of every transaction in the journal (see fs/commit/journal.hpp). Open
/// for writing and close write both copies, so that each of them always knows the present layout.
Errc write_superblock(Disk& disk, format::Superblock& superblock, u64 transaction, Copies copies);

/// Raises the superblock's generation, unless it is far beyond that of the inode made `last`, so
/// that inodes made before the next commit need no extra commit: more than fit in the blocks that
/// it can hold.
void raise_generation(format::Superblock& superblock, u64 last);

/// Checks what `superblock` says against itself and `device_bytes`; the reason names `path`.
Failure validate_superblock(const format::Superblock& superblock, u64 device_bytes,
                            const std::string& path);

/// What other file system or partition table the disk seems to hold ("an ext4 ..."), or null.
const char* find_foreign_file_system(Disk& disk);

}  // namespace warren

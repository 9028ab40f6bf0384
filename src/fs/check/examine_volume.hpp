// SPDX-License-Identifier: Apache-2.0
// The quick check: all cores or a GPU check in parallel whether all metadata of a volume are sound
// (fs/bulk/quick_check/examine.hpp). If they are not, the full check of check.cpp follows.
//
// Invariant: the quick check writes nothing and reports nothing.
#pragma once

#include "fs/disk/disk.hpp"
#include "fs/engine/examination.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren::check {

/// Fills empty tables. False if the table on disk, or the superblock's description of it, is
/// invalid.
bool fill_tables(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                 ExamTables& tables);
/// Reads the blocks of a frame that a quick check needs: those in use, and of an inode frame the
/// bitmap and the blocks with an inode that exists.
Errc read_frame(Disk& disk, const ExamTables& tables, u64 place, std::span<std::byte> target);

/// Runs the quick check on `engine`. Many threads read `disk` at once. Adds to the times in
/// `result`, and fills in its counts if the volume is sound, which is returned. Errc::no_device if
/// the CUDA engine was requested and there is none. Whatever prevents the check is told in
/// result.note. Requires: the journal has been replayed.
Result<bool> examine_volume(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                            EngineChoice engine, CheckResult& result);

}  // namespace warren::check

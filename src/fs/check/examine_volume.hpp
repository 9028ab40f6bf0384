// SPDX-License-Identifier: Apache-2.0
// The quick check: all cores or a GPU check in parallel whether all metadata of a volume are sound
// (fs/bulk/quick_check/examine.hpp). If they are not, the full check of check.cpp follows.
//
// Invariant: the quick check writes nothing and reports nothing.
#pragma once

#include <vector>

#include "fs/disk/disk.hpp"
#include "fs/engine/examination.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren::check {

/// The frame table in the form that an engine needs for a quick check.
struct FrameTables {
    std::vector<u64> frame_numbers;
    std::vector<u32> slots;
    std::vector<u8> kinds;
    std::vector<u64> used;
    std::vector<u64> owned;
    std::vector<ops::examine::CountedFrame> counted;
    ExamTables ref;  // refers to the vectors above

    /// False if the table, or the superblock's description of it, is invalid.
    bool fill(Disk& disk, const format::Superblock& superblock, u64 hash_mask);
    /// Reads the blocks of a frame that a quick check needs: those in use, and of an inode frame
    /// the bitmap and the blocks with an inode that exists.
    Errc read_frame(Disk& disk, u64 place, std::span<std::byte> target) const;
};

/// The result of a quick check.
struct Verdict {
    bool is_sound = false;  // if false, only `why_not` is meaningful
    u64 inodes = 0;
    u64 directories = 0;
    u64 blocks_used = 0;
    std::string why_not;  // why the quick check was not run; empty if it was
};

/// Runs the quick check on `engine`. Many threads read `disk` at once. Adds to the times in
/// `result`. Errc::no_device if the CUDA engine was requested and there is none; any other reason
/// that prevents the check is returned in `why_not`. Requires: the journal has been replayed.
Errc examine_volume(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                    EngineChoice engine, Verdict& verdict, CheckResult& result);

}  // namespace warren::check

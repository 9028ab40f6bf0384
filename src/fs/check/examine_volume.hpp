// SPDX-License-Identifier: Apache-2.0
// The quick check: whether all of a volume's metadata are sound, checked in parallel by all cores
// or a GPU (fs/bulk/quick_check/examine.hpp). If not, the full check of check.cpp follows.
//
// Invariant: nothing is written and nothing reported.
#pragma once

#include <vector>

#include "fs/disk/disk.hpp"
#include "fs/engine/examination.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren::check {

/// The frame table as an engine takes it.
struct FrameTables {
    std::vector<u64> frame_numbers;
    std::vector<u32> slots;
    std::vector<u8> kinds;
    std::vector<u64> used;
    std::vector<u64> owned;
    std::vector<ops::examine::CountedFrame> counted;
    ExamTables ref;  // to all of it

    /// False if the table, or the superblock's description of it, is invalid.
    bool fill(Disk& disk, const format::Superblock& superblock, u64 hash_mask);
    /// Reads what a quick check needs of a frame: blocks in use, and inode blocks that hold one.
    Errc read_frame(Disk& disk, u64 place, std::span<std::byte> target) const;
};

/// The result of a quick check.
struct Verdict {
    bool is_sound = false;  // else nothing below it counts but `why_not`
    u64 inodes = 0;
    u64 directories = 0;
    u64 blocks_used = 0;
    std::string why_not;  // why the quick check was not run; empty if it was
};

/// Examines the volume on `disk`, whose journal has been replayed, by `engine`; many threads read
/// `disk` at once. Adds to the figures of `result`. Errc::no_device if the CUDA engine was asked
/// for and there is none; all else that prevents it is in `why_not`.
Errc examine_volume(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                    EngineChoice engine, Verdict& verdict, CheckResult& result);

}  // namespace warren::check

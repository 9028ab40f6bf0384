// SPDX-License-Identifier: Apache-2.0
// The first look of a check: whether all of a volume's metadata are sound, asked of all of it at
// once by all cores or a GPU (fs/ops/examine.hpp). Who hears no looks closer, by check.cpp.
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

    /// False if the table, or what the superblock says of it, is not as it should be.
    bool fill(Disk& disk, const format::Superblock& superblock, u64 hash_mask);
    /// Reads of a frame what an examination looks at: blocks in use, and of inodes those with one.
    Errc read_frame(Disk& disk, u64 place, std::span<std::byte> target) const;
};

/// What an examination found.
struct Verdict {
    bool is_sound = false;  // else nothing below it counts but `why_not`
    u64 inodes = 0;
    u64 directories = 0;
    u64 blocks_used = 0;
    std::string why_not;  // why nobody looked; empty if somebody did
};

/// Examines the volume on `disk`, whose journal has been replayed, by `engine`; `disk` is read by
/// many threads at once. Adds to the figures of `result`. Errc::no_device if the CUDA engine was
/// asked for and there is none; all else that prevents it is in `why_not`.
Errc examine_volume(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                    EngineChoice engine, Verdict& verdict, CheckResult& result);

}  // namespace warren::check

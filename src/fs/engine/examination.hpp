// SPDX-License-Identifier: Apache-2.0
// What an engine is given to examine a volume that nobody uses (fs/bulk/quick_check/examine.hpp),
// and what it answers.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "fs/bulk/quick_check/examine.hpp"
#include "warren/result.hpp"

namespace warren {

/// The frame table as it was read: all of it is as on the disk, but for `owned`, which has the
/// blocks of system and inode frames.
struct ExamTables {
    ops::examine::Facts facts;
    u32 inode_frames = 0;                // loaded first
    std::span<const u64> frame_numbers;  // of the frames to load
    std::span<const u32> slots;
    std::span<const u8> kinds;
    std::span<const u64> used;
    std::span<const u64> owned;
    std::span<const ops::examine::CountedFrame> counted;
};

/// Reads from the disk; called by many threads at once.
using ReadDisk = std::function<Errc(u64 place, std::span<std::byte> target)>;

struct Examined {
    ops::examine::ExamState state{};  // flaws if anything could not be read
    double start_seconds = 0;         // until memory and the device were ready
    double load_seconds = 0;          // from the disk to where the metadata are examined
    double disk_seconds = 0;          // of it, by one thread, waiting for the disk
    double exam_seconds = 0;          // all phases
};

/// By all cores. Errc::no_memory.
Errc examine_on_host(const ExamTables& tables, const ReadDisk& read, Examined& examined);

/// By the first GPU. Errc::no_device, no_memory or io, with a line on why in `failure`.
Errc examine_on_device(const ExamTables& tables, const ReadDisk& read, Examined& examined,
                       std::string& failure);

}  // namespace warren

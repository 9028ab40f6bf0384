// SPDX-License-Identifier: Apache-2.0
// Arguments and result of the quick check of a volume that is not in use
// (fs/bulk/quick_check/examine.hpp).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fs/bulk/quick_check/examine.hpp"
#include "warren/result.hpp"

namespace warren {

/// The frame table as read from disk. `owned` is not on disk: it has the blocks of system and inode
/// frames.
struct ExamTables {
    ops::examine::Facts facts;
    u32 inode_frames = 0;            // how many: they are the first of frame_numbers
    std::vector<u64> frame_numbers;  // of the frames to load
    std::vector<u32> slots;
    std::vector<u8> kinds;
    std::vector<u64> used;
    std::vector<u64> owned;
    std::vector<ops::examine::CountedFrame> counted;
};

/// Reads from the disk. Many threads call it concurrently.
using ReadDisk = std::function<Errc(u64 place, std::span<std::byte> target)>;

struct Examined {
    ops::examine::ExamState state{};  // has flaws if a block could not be read
    double start_seconds = 0;         // until memory and the device were ready
    double load_seconds = 0;          // from the disk to the memory in which they are checked
    double disk_seconds = 0;          // of load_seconds, the mean time a thread waited for the disk
    double exam_seconds = 0;          // all phases
};

/// Runs the quick check on all cores. Errc::no_memory.
Errc examine_on_host(const ExamTables& tables, const ReadDisk& read, Examined& examined);

/// Runs the quick check on the first GPU. Errc::no_device, no_memory or io; `failure` then has the
/// reason.
Errc examine_on_device(const ExamTables& tables, const ReadDisk& read, Examined& examined,
                       std::string& failure);

}  // namespace warren

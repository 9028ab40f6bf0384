// SPDX-License-Identifier: Apache-2.0
// What operations on a volume answer besides an error.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren {

struct Statistics {
    u64 blocks = 0;  // 4 KiB blocks in the volume
    u64 blocks_free = 0;
    u64 blocks_available = 0;  // free less the reserve that file contents cannot use
    u64 inodes_used = 0;
    u64 inodes_free = 0;  // at most: inodes are allocated from the free blocks
};

/// What OpenOptions::dedup has done since the volume was opened.
struct DedupStatistics {
    bool is_default = false;  // on unless OpenOptions::dedup says otherwise
    bool is_on = false;
    u64 index_bytes = 0;   // memory that the index may take
    u64 looked_up = 0;     // blocks: one in four or five of what is written
    u64 found = 0;         // of these, where a run begins that a file of the volume has, too
    u64 shared_bytes = 0;  // not written, for a file has them already
    u64 zero_bytes = 0;    // not written, for unwritten blocks read as zeros
    /// Bytes of files that were there before, which were read to fill the index, and whether there
    /// are more to read.
    u64 filled_bytes = 0;
    bool is_filling = false;
};

/// What dedupe_range() did.
struct Deduped {
    u64 bytes = 0;         // from the ranges' start on that lie in the same blocks afterwards
    bool differs = false;  // the bytes are not equal: nothing was shared
};
inline constexpr u64 dedupe_bytes_max = 16 * mib;

/// What a bulk removal did.
struct Removal {
    u64 files = 0;        // names removed that were not directories
    u64 directories = 0;  // directories removed
    u64 blocks = 0;       // 4 KiB blocks freed
};

/// What clone() made.
struct ClonedTree {
    u64 files = 0;  // names of what is no directory
    u64 directories = 0;
    std::string failed;  // after an error in a tree: the path from the source on that met it
};

/// What a rebuild did to one directory.
struct Rebuilt {
    u64 entries = 0;
    u64 blocks_before = 0;
    u64 blocks_after = 0;
    bool in_steps = false;  // more than one commit holds: not at once but leaf by leaf
};

/// The space that the contents of a file take, in 4 KiB blocks.
struct FileSpace {
    u64 blocks = 0;  // allocated; Attributes::blocks counts the file's metadata as well
    u64 shared = 0;  // of these: referred to from elsewhere too, in this file or in another
    u64 exclusive() const { return blocks - shared; }  // free once the file is removed
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The results of operations on a volume.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren {

struct Statistics {
    u64 blocks = 0;  // 4 KiB blocks in the volume
    u64 blocks_free = 0;
    u64 blocks_available = 0;  // free blocks without the reserve that file contents cannot use
    u64 inodes_used = 0;
    u64 inodes_free = 0;  // upper limit: inodes are allocated from the free blocks
};

/// What deduplication of writes (OpenOptions::dedup) has done since the volume was opened.
struct DedupStatistics {
    bool is_default = false;  // on unless OpenOptions::dedup overrides it
    bool is_on = false;
    u64 index_bytes = 0;   // maximum memory of the index
    u64 looked_up = 0;     // blocks looked up: one in four or five of those written
    u64 found = 0;         // of these, blocks at which a run begins that a file already contains
    u64 shared_bytes = 0;  // not written because a file already contains them
    u64 zero_bytes = 0;    // not written because unwritten blocks read as zeros
    /// Bytes of existing files that were read to fill the index, and whether more remain to be
    /// read.
    u64 filled_bytes = 0;
    bool is_filling = false;
};

/// What dedupe_range() did.
struct Deduped {
    u64 bytes = 0;         // from the start of the ranges, stored in the same blocks afterwards
    bool differs = false;  // the bytes are not equal, and nothing was shared
};
inline constexpr u64 dedupe_bytes_max = 16 * mib;

/// What a bulk removal did.
struct Removal {
    u64 files = 0;        // names of files other than directories
    u64 directories = 0;  // directories removed
    u64 blocks = 0;       // 4 KiB blocks freed
};

/// What clone() made.
struct ClonedTree {
    u64 files = 0;  // names of files other than directories
    u64 directories = 0;
    std::string failed;  // after an error in a tree: its path, from the source on
};

/// What a rebuild did to one directory.
struct Rebuilt {
    u64 entries = 0;
    u64 blocks_before = 0;
    u64 blocks_after = 0;
    bool in_steps = false;  // larger than one commit: not done atomically but leaf by leaf
};

/// The space used by the contents of a file, in 4 KiB blocks.
struct FileSpace {
    u64 blocks = 0;  // allocated; Attributes::blocks counts the file's metadata as well
    u64 shared = 0;  // of these, blocks that this or another file also refers to elsewhere
    u64 exclusive() const { return blocks - shared; }  // freed when the file is removed
};

}  // namespace warren

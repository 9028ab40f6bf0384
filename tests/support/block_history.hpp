// SPDX-License-Identifier: Apache-2.0
// The earlier contents that the metadata blocks of a volume had on disk in the course of a
// workload: what remains at a block's address after a lost write, or on a disk that returns an old
// version.
//
// Invariant: each content was at its address once, with a valid checksum, and is not there now.
#pragma once

#include <optional>
#include <vector>

#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren {

struct EarlierContent {
    u64 place = 0;
    /// Of the earlier content; `none` for a block of inodes, which has no header.
    format::BlockKind kind = format::BlockKind::none;
    format::BlockKind kind_now = format::BlockKind::none;
    format::Block block{};

    const format::BlockHeader& header() const {
        return reinterpret_cast<const format::BlockHeader&>(block);
    }
};

/// Whether blocks of this kind belong to an inode, and contain its number.
bool is_owned(format::BlockKind kind);

/// The earlier contents, in the log of `disk`, of blocks that are in use, except the journal's.
std::vector<EarlierContent> earlier_contents(MemoryDisk& disk);

/// The latest content that a block had when it belonged to another inode, or to an earlier
/// generation.
std::optional<EarlierContent> foreign_content(MemoryDisk& disk, u64 place);

/// Writes an earlier content back to its address.
void put_back(MemoryDisk& disk, const EarlierContent& content);

}  // namespace warren

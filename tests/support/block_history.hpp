// SPDX-License-Identifier: Apache-2.0
// What the metadata blocks of a volume have had on the disk in the course of a workload: what a
// lost write leaves in a block's place, or a disk that gives back an older version of it.
//
// Invariant: each content was in its place once, with a right checksum, and is not there now.
#pragma once

#include <optional>
#include <vector>

#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren {

struct EarlierContent {
    u64 place = 0;
    /// Of the content; `none`: it is a block of inodes, which has no header.
    format::BlockKind kind = format::BlockKind::none;
    format::BlockKind kind_now = format::BlockKind::none;
    format::Block block{};

    const format::BlockHeader& header() const {
        return reinterpret_cast<const format::BlockHeader&>(block);
    }
};

/// Whether blocks of this kind are an inode's, and say so.
bool is_owned(format::BlockKind kind);

/// All contents that the log of `disk` has for blocks that are in use, but those of the journal.
std::vector<EarlierContent> earlier_contents(MemoryDisk& disk);

/// The last content of a block that another inode, or an earlier one of the same number, had there.
std::optional<EarlierContent> foreign_content(MemoryDisk& disk, u64 place);

/// Puts a content back in its place.
void put_back(MemoryDisk& disk, const EarlierContent& content);

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The state that all parts of a check share: the disk, what is known of its blocks and inodes so
// far, and the list of repairs.
#pragma once

#include <bitset>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/check/check_frames.hpp"
#include "fs/check/check_inodes.hpp"
#include "fs/format/directory.hpp"

namespace warren::check {

/// A leaf, and the inode to whose tree it belongs.
struct OwnedLeaf {
    u32 owner;  // ordinal
    u64 place;

    auto operator<=>(const OwnedLeaf&) const = default;  // by owner first
};

/// The entries of a damaged directory leaf that are accepted, by slot.
using KeptEntries = std::bitset<format::leaf_entries_max>;

/// The repair of one inode.
struct InodePlan {
    u64 blocks = 0;                       // as counted; not used if the tree is rewritten
    u64 entries = 0;                      // directories: as counted
    u32 generation = 0;                   // of a damaged inode: as in its blocks; 0: unknown
    bool drops_contents = false;          // replace the extents by `extents`
    std::vector<format::Extent> extents;  // those that are left
    u32 target_bytes = 0;                 // of a link's target that are left; 0: all of it
};

struct Context {
    Context(Disk& disk_, const format::Superblock& superblock_, u64 hash_mask_, Report& report_)
        : disk(disk_),
          superblock(superblock_),
          hash_mask(hash_mask_),
          report(report_),
          frames(disk_, superblock_, report_) {}

    Disk& disk;
    const format::Superblock& superblock;
    const u64 hash_mask;
    Report& report;
    FrameMap frames;
    InodeMap inodes;
    u32 root = nobody;
    u32 orphans = nobody;
    u32 fresh = nobody;  // the directory lost+found, if a repair makes it

    std::vector<u32> lost;                                // inodes without a name
    std::vector<OwnedLeaf> found_leaves;                  // to which no tree leads; sorted
    std::unordered_map<u64, KeptEntries> damaged_leaves;  // by place
    std::unordered_map<u32, InodePlan> plans;             // by ordinal

    u64 volume() const { return superblock.header.volume; }
    /// Whether an inode is the root or the orphan directory, which have no names.
    bool is_special(u32 ordinal) const { return ordinal == root || ordinal == orphans; }
    /// Reads a block. False if it cannot be read.
    bool read(u64 place, format::Block& block);
    /// Reads an inode as it is on disk. False if it cannot be read.
    bool read_inode(u32 ordinal, format::Inode& inode);
    /// Seals and writes an inode; the others in its block stay as they are.
    Errc write_inode(u32 ordinal, const format::Inode& inode, u64 transaction);
    /// The inode as the check uses it. For the root and the orphan directory it is always a
    /// directory, even if theirs is damaged.
    format::Inode usable_inode(u32 ordinal);

    Trust trust(u32 ordinal) const {
        return inodes.statuses[ordinal] == Status::damaged ? Trust::little : Trust::full;
    }
    void problem(u32 ordinal, std::string text) { report.inode(ordinal, std::move(text)); }
    /// A problem that a repair solves by writing the inode.
    void wrong(u32 ordinal, std::string text) {
        problem(ordinal, std::move(text));
        inodes.set(ordinal, mark_write);
    }
};

/// The path of an inode, made of the first name found of each inode on it, or "inode N".
std::string path_of(Context& context, u32 ordinal);

}  // namespace warren::check

// SPDX-License-Identifier: Apache-2.0
// All inodes of a volume in flat arrays, about 16 bytes an inode: types, how many names the check
// has found, and where the first of these lies.
//
// An inode's ordinal is its index in these arrays: index of its frame in `frames` * 8192 + slot.
#pragma once

#include <vector>

#include "fs/check/check_report.hpp"
#include "fs/disk/disk.hpp"
#include "fs/format/inode.hpp"
#include "fs/format/superblock.hpp"

namespace warren::check {

enum class Status : u8 {
    absent,    // its bit in the bitmap is clear
    doubtful,  // the bitmap is damaged: the inode exists if an entry names it
    sound,
    damaged,   // the CRC is wrong, but the inode can be used
    unusable,  // to be removed
};

/// Bits of InodeMap::marks.
enum Mark : u16 {
    mark_placed = 1,    // directories: the entry with its name has been found
    mark_anchored = 2,  // directories: has a path to the root or the orphan directory, or is lost
    mark_orphan = 4,    // named by the orphan directory, or a directory below one that is
    mark_rebuild = 8,   // directories: the tree has to be rewritten
    mark_write = 16,    // the inode has to be written
    mark_lost = 32,     // has no name, or lies in a cycle of directories
    mark_broken = 64,   // a part of its tree cannot be reached
    mark_no_attributes = 128,  // the attribute block has to be dropped
    mark_on_way = 256,         // directories: on the path that Anchoring::follow() is following
};

class InodeMap {
 public:
    /// Errc::overflow if there are more inodes than ordinals.
    Errc set_frames(std::vector<u64> frames);

    u32 count() const { return static_cast<u32>(statuses.size()); }
    u64 number_of(u32 ordinal) const;
    /// `nobody` if there is no inode slot of this number.
    u32 ordinal_of(u64 number) const;
    bool exists(u32 ordinal) const {
        return statuses[ordinal] == Status::sound || statuses[ordinal] == Status::damaged;
    }
    bool is_directory(u32 ordinal) const { return types[ordinal] == directory_type; }
    bool has(u32 ordinal, Mark mark) const { return (marks[ordinal] & mark) != 0; }
    void set(u32 ordinal, Mark mark) { marks[ordinal] = static_cast<u16>(marks[ordinal] | mark); }
    void clear(u32 ordinal, Mark mark) {
        marks[ordinal] = static_cast<u16>(marks[ordinal] & ~mark);
    }

    static constexpr u8 directory_type = format::directory_entry;

    std::vector<u64> frames;        // frame numbers, rising
    std::vector<u8> has_bitmap;     // by frame: the bitmap is sound
    std::vector<u8> writes_bitmap;  // by frame: the bitmap has to be written
    std::vector<Status> statuses;
    std::vector<u8> types;  // DT_ values
    std::vector<u16> marks;
    std::vector<u32> names;        // names found; of a directory: subdirectories found in it
    std::vector<u32> parents;      // directory of the first name; until one is found, the parent
                                   // according to a directory's inode
    std::vector<u32> name_blocks;  // block number of the leaf with the first name; 0: none found
    std::vector<u8> name_slots;
};

struct Context;

/// Reads all bitmaps and inodes and classifies the inodes by Status.
Errc scan_inodes(Context& context);

/// Compares the superblock's counter with the inodes that exist.
void compare_inode_count(Context& context);

}  // namespace warren::check

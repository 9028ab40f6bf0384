// SPDX-License-Identifier: Apache-2.0
// All inodes of a volume in flat arrays, about 16 bytes each: what they are, how many names the
// check has met, and where the first of these lies.
//
// An inode's ordinal is its place in these arrays: position of its frame * 8192 + slot.
#pragma once

#include <vector>

#include "fs/disk/disk.hpp"
#include "fs/format/inode.hpp"
#include "fs/format/superblock.hpp"
#include "fs/volume/check_report.hpp"

namespace warren::check {

enum class Status : u8 {
    absent,    // its bit is clear
    doubtful,  // its frame's bitmap is damaged: it exists if something names it
    sound,
    damaged,   // its CRC is wrong, but what is there can be used
    unusable,  // it is to be removed
};

/// Bits of InodeMap::marks.
enum Mark : u16 {
    mark_placed = 1,    // directories: the entry that is its name has been met
    mark_anchored = 2,  // directories: leads up to the root or the orphan directory, or is lost
    mark_orphan = 4,    // named by the orphan directory, or a directory below one that is
    mark_rebuild = 8,   // directories: their tree is to be written anew
    mark_write = 16,    // the inode is to be written
    mark_lost = 32,     // nothing names it
    mark_broken = 64,   // a part of its tree cannot be reached
    mark_no_attributes = 128,  // its attribute block is to be dropped
    mark_on_way = 256,         // directories: met on the way up that is being followed
};

class InodeMap {
 public:
    /// Errc::overflow if there are more inodes than ordinals.
    Errc set_frames(std::vector<u64> frames);

    u32 count() const { return static_cast<u32>(statuses.size()); }
    u64 number_of(u32 ordinal) const;
    /// `nobody` if the number is no inode slot.
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

    static constexpr u8 directory_type = format::entry_type(format::type_directory);

    std::vector<u64> frames;        // frame numbers, rising
    std::vector<u8> has_bitmap;     // by frame: its bitmap is sound
    std::vector<u8> writes_bitmap;  // by frame: its bitmap is to be written
    std::vector<Status> statuses;
    std::vector<u8> types;  // DT_ values
    std::vector<u16> marks;
    std::vector<u32> names;    // names met; of a directory: subdirectories met in it
    std::vector<u32> parents;  // directory of its first name; before that, what a directory claims
    std::vector<u32> name_blocks;  // block number of the leaf with its first name
    std::vector<u8> name_slots;
};

struct Context;

/// Reads all bitmaps and inodes and sorts them by what can be done with them.
Errc scan_inodes(Context& context);

/// Compares the superblock's counter with the inodes that exist.
void compare_inode_count(Context& context);

}  // namespace warren::check

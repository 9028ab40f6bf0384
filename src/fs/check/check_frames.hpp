// SPDX-License-Identifier: Apache-2.0
// Which blocks are in use according to the frame table, and for which the check has found an owner.
// Only non-empty table blocks are kept, so a sparse volume of any size takes little memory.
//
// Invariant: a block has one owner. A second claim is refused, unless all claims are by extents
// with the flag extent_shared.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "fs/check/check_report.hpp"
#include "fs/disk/disk.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/superblock.hpp"

namespace warren::check {

using format::FrameKind;

/// Whether a claim may contradict the frame table. A claim by a damaged inode may not.
enum class Trust : u8 { full, little };

class FrameMap {
 public:
    /// Requires: all arguments outlive this.
    FrameMap(Disk& disk, const format::Superblock& superblock, Report& report)
        : disk_(disk), superblock_(superblock), report_(report) {}

    /// Reads the frame table. The 31 frames of a damaged table block have an unknown kind until
    /// their blocks are claimed. The frames of the root and of the orphan directory become inode
    /// frames in any case.
    Errc load();

    /// Frames that hold inodes, in rising order.
    const std::vector<u64>& inode_frames() const { return inode_frames_; }
    bool is_owned(u64 place) const;
    /// Calls `visit` with each frame that has an entry in the table.
    void for_each_frame(const std::function<void(u64 frame, const format::FrameEntry& entry,
                                                 const u64 (&owned)[8])>& visit) const;

    /// Claims `blocks` blocks at `place`; returns for how many of them, from the first, it
    /// succeeded.
    u64 claim(u64 place, u64 blocks, FrameKind kind, Trust trust);
    /// As claim() for contents, by an extent with the flag extent_shared.
    u64 claim_shared(u64 place, u64 blocks, Trust trust);
    /// Undoes a claim; shared blocks keep their other claims.
    void release(u64 place, u64 blocks);
    /// Reads the reference counts that the table points to, and claims their blocks. Call after
    /// load() and before any other claim.
    void load_counts();
    /// Calls `visit` with the place of each block in use that has no owner and may be metadata.
    void for_each_unowned_metadata(const std::function<void(u64)>& visit) const;

    /// Reports blocks that are in use but have no owner, blocks that have an owner but are not in
    /// use, and wrong counters.
    void compare();
    u64 blocks_owned() const;
    u64 blocks_used() const;

    /// Allocates a metadata block that is neither in use nor claimed, and claims it.
    /// Errc::no_space.
    Result<u64> allocate();
    /// Writes the table blocks that changed. If `is_final`, blocks without an owner become free and
    /// reference counts are written; else such blocks stay in use.
    Errc write(u64 transaction, bool is_final);
    /// Sets metadata_frames_end, data_frames_begin and blocks_used of the superblock.
    void fill(format::Superblock& superblock) const;

 private:
    /// One block of the table. `kinds` are the frames' kinds on disk.
    struct Group {
        u64 index = 0;
        bool is_damaged = false;
        bool must_write = false;  // differs from the disk in a way that fill_block() cannot see
        format::FrameEntry entries[format::frames_per_table_block] = {};
        u64 owned[format::frames_per_table_block][8] = {};
        u8 kinds[format::frames_per_table_block] = {};
    };
    /// The reference counts of a frame: those on disk, and the claims from which they follow.
    struct Counts {
        u64 place = 0;  // of the block with the counts; 0: there is no usable one
        std::array<u32, format::blocks_per_frame> extra{};   // as on disk; 0 without such a block
        std::array<u32, format::blocks_per_frame> claims{};  // by extents with extent_shared

        u32 right_extra(u32 block) const { return claims[block] > 1 ? claims[block] - 1 : 0; }
        u32 wrong() const;
    };
    static constexpr u64 unknown = 0xff;  // FrameEntry::kind until the first claim

    /// Calls `body(frame, group, entry)` for each frame that has an entry in the table.
    template <class Body>
    void for_each_entry(const Body& body) const {
        for (const auto& group : groups_) {
            for (u32 entry = 0; group && entry < format::frames_per_table_block; ++entry)
                body(group->index * format::frames_per_table_block + entry, *group, entry);
        }
    }
    Group* find(u64 frame) const;
    Group& find_or_add(u64 frame);
    Errc load_group(u64 index);
    void load_entry(Group& group, u32 entry);
    void mark_system();
    void mark_whole(u64 frame, FrameKind kind);
    bool looks_like_inodes(u64 frame);
    bool adopt(Group& group, u64 frame, FrameKind kind, Trust trust);
    u32 claim_in_frame(u64 frame, u32 first, u32 count, FrameKind kind, Trust trust);
    void compare_frame(u64 frame, const Group& group, u32 entry) const;
    void compare_counters() const;
    void load_counts_of(u64 frame, u64 pointer);
    void compare_counts() const;
    Errc write_counts(u64 transaction);
    bool fill_block(const Group& group, bool is_final, format::FrameTableBlock& block) const;
    u64 take_free_frame();

    Disk& disk_;
    const format::Superblock& superblock_;
    Report& report_;
    std::vector<std::unique_ptr<Group>> groups_;  // by table block; null: all frames free
    std::vector<u64> inode_frames_;
    std::map<u64, Counts> counts_;  // by frame
    u64 allocation_frame_ = 0;
};

}  // namespace warren::check

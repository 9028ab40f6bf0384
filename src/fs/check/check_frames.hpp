// SPDX-License-Identifier: Apache-2.0
// The blocks that the frame table has in use, and those for which the check found an owner. Only
// non-empty table blocks are kept, so a sparse volume of any size costs little.
//
// Invariant: a block gets an owner once, and a second claim is refused, unless all claims are by
// extents with the flag extent_shared.
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

/// Whether a claim may override the frame table. A damaged inode's claims may not.
enum class Trust : u8 { full, little };

class FrameMap {
 public:
    /// All three outlive this.
    FrameMap(Disk& disk, const format::Superblock& superblock, Report& report)
        : disk_(disk), superblock_(superblock), report_(report) {}

    /// Reads the frame table. A damaged block of it leaves 31 frames of unknown kind until their
    /// blocks are claimed. `forced` are frames that must hold inodes.
    Errc load(const std::vector<u64>& forced);

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
    /// Takes the owner, or one of those who share the blocks, away again.
    void release(u64 place, u64 blocks);
    /// Reads the reference counts that the table points to. After load(), before any other claim.
    void load_counts();
    /// Calls `visit` with the place of each block that may be metadata, is in use and has no owner.
    void for_each_unowned_metadata(const std::function<void(u64)>& visit) const;

    /// Reports blocks in use without an owner and the reverse, and wrong counters.
    void compare();
    u64 blocks_owned() const;
    u64 blocks_used() const;

    /// Allocates a metadata block that is neither in use nor claimed, and claims it.
    /// Errc::no_space.
    Result<u64> allocate();
    /// Writes what changed. `is_final`: blocks without an owner become free; else they stay in use.
    Errc write(u64 transaction, bool is_final);
    /// Sets the superblock's marks and counter.
    void fill(format::Superblock& superblock) const;

 private:
    /// One block of the table. `kinds` is what the disk says of its frames.
    struct Group {
        u64 index = 0;
        bool is_damaged = false;
        bool must_write = false;  // the disk is wrong in a part that is not kept here
        format::FrameEntry entries[format::frames_per_table_block] = {};
        u64 owned[format::frames_per_table_block][8] = {};
        u8 kinds[format::frames_per_table_block] = {};
    };
    /// The reference counts of a frame: as on disk, and what the claims make of them.
    struct Counts {
        u64 place = 0;  // of the block that has them; 0: of none that can be used
        std::array<u32, format::blocks_per_frame> extra{};   // zero without such a block
        std::array<u32, format::blocks_per_frame> claims{};  // by extents with the flag

        u32 right_extra(u32 block) const { return claims[block] > 1 ? claims[block] - 1 : 0; }
        u32 wrong() const;
    };
    static constexpr u64 unknown = 0xff;  // FrameEntry::kind until a claim tells

    Group* find(u64 frame) const;
    Group& find_or_add(u64 frame);
    Errc load_group(u64 index);
    void load_entry(Group& group, u32 entry);
    void mark_system();
    void mark_whole(u64 frame, FrameKind kind);
    bool looks_like_inodes(u64 frame);
    bool adopt(Group& group, u64 frame, FrameKind kind, Trust trust);
    u32 claim_in_frame(u64 frame, u32 first, u32 count, FrameKind kind, Trust trust);
    void compare_frame(const Group& group, u32 entry);
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

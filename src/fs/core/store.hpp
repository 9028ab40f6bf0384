// SPDX-License-Identifier: Apache-2.0
// What an engine holds in memory for one open volume: the metadata blocks, the frame table, and
// side tables that are never written to disk (versions and locks, reservations, dirty marks). A
// frame is a block group: 512 blocks, 2 MiB.
//
// A `Store` only refers to this memory, which the engine owns, and is passed by value or by
// reference to operations and kernels. All words that it points to are shared between threads and
// are read and written as atomics.
#pragma once

#include "base/host_device.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/layout.hpp"
#include "team/team.hpp"
#include "warren/result.hpp"

namespace warren::core {

inline constexpr u32 barrier_slots = 64;
inline constexpr u32 version_stripes = 1u << 16;
/// Every commit can hold at least this many metadata blocks, however small the journal and the
/// buffer cache are. An operation that may dirty more could wait for journal room for ever.
inline constexpr u32 journal_room_min = 64;

/// The volatile bits of a frame's blocks. `committed`: the block is in use in a commit that is
/// durable or being written. `reserved`: an operation that has not applied yet has reserved it. A
/// block may be taken only if neither bit is set and it is not in use in the frame table; so a
/// freed block is not reused before its free is durable.
struct FrameOverlay {
    u64 committed[8];
    u64 reserved[8];
};

/// Counts the operations of one worker that are inside the freeze barrier. On its own cache line.
struct alignas(64) BarrierSlot {
    u64 inside;
};

/// The frames at which one worker starts its searches for space: workers that search in different
/// frames do not contend.
struct alignas(64) WorkerHint {
    u64 metadata_frame;
    u64 data_frame;
    u64 inode;  // the number that the worker took last; 0: none yet
};

/// The counters of an open volume.
struct StoreState {
    u64 blocks_used;  // 4 KiB blocks, as statfs counts them
    u64 inodes_used;
    u64 inode_slots;  // number of inodes that fit in all inode frames
    u64 metadata_frames_end;
    u64 data_frames_begin;
    u64 generation;        // of the inode allocated last
    u64 generation_limit;  // of the durable superblock: a greater generation needs a commit first
    u64 free_frames;
    u64 frames_with_memory;  // metadata must lie below this frame; 0: all frames have memory

    u64 dirty_blocks;      // marked dirty since the last commit
    u64 reserved_credits;  // of operations that are applying now
    u64 journal_room;      // blocks that one commit can hold

    u32 barrier_closed;   // 1: the freeze barrier is closed
    u32 read_only;        // set by an I/O error or an overrun: no operation writes any more
    u32 overrun_blocks;   // dirtied by an operation or bulk step with fewer credits; 0: none
    u32 overrun_credits;  // the credits that it had
    u32 claims_metadata;  // lock: one worker at a time takes a free frame for metadata
    BarrierSlot freeze_barrier[barrier_slots];
    WorkerHint hints[barrier_slots];
    alignas(64) u64 rights_changes;  // see note_rights_change()
};

struct HeadTable;

struct Store {
    u64 size_bytes;
    u64 frame_count;
    u64 reserve_blocks;  // the last blocks, which only removals and commits may use
    u64 hash_key[2];
    u64 hash_mask;  // all ones; tests clear bits to force collisions
    u64 root_inode;
    u64 orphan_directory;
    u64 frame_table_offset;

    StoreState* state;
    format::FrameTableBlock* frame_table;
    FrameOverlay* overlays;     // one for each frame
    u64* frames_free;           // bit for each frame: it is free and not claimed
    u64* frames_with_space[5];  // by FrameKind, bit for each frame: it may have room
    u64* versions;              // version_stripes words: version << 1 | locked
    u64* dirty;                 // bit for each block of the volume
    u64* dirty_frames;          // bit for each frame: it has a dirty block
    // Of a Store with a replica, else null; see core/change_marks.hpp.
    u64* changed;         // bit for each block of the volume
    u64* changed_frames;  // bit for each frame: it has such a block

    // A fully resident store: the block at each byte offset of the volume lies at that offset from
    // `base`.
    std::byte* base;
    u64* resident;  // bit for each block: its contents are in memory
    // A buffer cache: a fixed number of blocks, found by hash. Null in a fully resident store.
    HeadTable* heads;

    WARREN_HD format::FrameEntry& frame(u64 number) const {
        return frame_table[number / format::frames_per_table_block]
            .entries[number % format::frames_per_table_block];
    }
    WARREN_HD u64 table_place(u64 frame_number) const {
        return frame_table_offset +
               frame_number / format::frames_per_table_block * format::block_size;
    }
    WARREN_HD u64 block_count() const { return size_bytes / format::block_size; }
};

/// What lies at a place of a fully resident store: a block, or an inode.
template <class T>
WARREN_HD T& block_at(const Store& store, u64 place) {
    return *reinterpret_cast<T*>(store.base + place);
}

/// Copies a block by words that other threads may read and write meanwhile. Collective.
struct CopyWords {
    template <class Team>
    WARREN_HD void operator()(const Team& team, const format::Block& from,
                              format::Block& to) const {
        for (u32 i = team.lane(); i < format::block_size / 8; i += Team::width)
            relaxed_store(to.words[i], relaxed_load(from.words[i]));
    }
};

/// Zeros a block by words that other threads may read meanwhile. Collective.
template <class Team>
WARREN_HD void clear_block(const Team& team, format::Block& block) {
    for (u32 i = team.lane(); i < format::block_size / 8; i += Team::width)
        relaxed_store(block.words[i], 0);
    team.sync();
}

/// The index of the version word that guards what lies at `place`, the byte offset of a block or an
/// inode. Several places share a word: that can cause a needless retry, never a wrong result.
WARREN_HD inline u32 stripe_of(u64 place) {
    u64 x = place / format::inode_size * 0x9e3779b97f4a7c15u;
    return static_cast<u32>(x >> 48) & (version_stripes - 1);
}

/// The version word of this place guards moves of directories in the whole volume: a move checks
/// for cycles under it.
inline constexpr u64 move_lock_place = 0;

}  // namespace warren::core

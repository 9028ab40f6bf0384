// SPDX-License-Identifier: Apache-2.0
// What an engine holds in memory for one open volume: metadata blocks, the frame table, and the
// volatile side tables that never reach the disk (versions and locks, reservations, dirty marks).
//
// `Store` is a reference: a plain value passed to every operation and to kernels. Its owner is the
// engine. All words that it points to are shared and are read and written as atomics.
#pragma once

#include "base/host_device.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren::core {

inline constexpr u32 barrier_slots = 64;
inline constexpr u32 version_stripes = 1u << 16;
/// A commit can hold at least so many metadata blocks, whatever the size of the journal and the
/// meta buffer: an operation that may dirty more would wait for journal room for ever.
inline constexpr u32 journal_room_min = 64;

/// Beside each frame: which blocks a commit holds in use, durable or being written, and which are
/// reserved by an operation that has not applied yet. A block can be taken only if it is in neither
/// and not in the frame table: a freed block is not used again before its free is durable.
struct FrameOverlay {
    u64 committed[8];
    u64 reserved[8];
};

/// One worker's place in the freeze barrier, on a cache line of its own.
struct alignas(64) BarrierSlot {
    u64 inside;
};

/// Where one worker starts its search for space, so that workers do not contend.
struct alignas(64) WorkerHint {
    u64 metadata_frame;
    u64 data_frame;
    u64 inode_frame;
};

/// The counters of an open volume.
struct StoreState {
    u64 blocks_used;  // 4 KiB blocks, as statfs counts them
    u64 inodes_used;
    u64 inode_slots;  // in all inode frames
    u64 metadata_frames_end;
    u64 data_frames_begin;
    u64 generation;        // of the inode allocated last
    u64 generation_limit;  // of the durable superblock: a generation beyond it needs a commit first
    u64 free_frames;
    u64 frames_with_memory;  // metadata lie below this frame; 0: all frames have memory

    u64 dirty_blocks;      // blocks marked dirty since the last commit
    u64 reserved_credits;  // journal room that operations which apply right now have reserved
    u64 journal_room;      // blocks that one commit can hold

    u32 gate_closed;
    u32 read_only;        // set by an I/O error: no operation applies any more
    u32 overrun_blocks;   // dirtied by an operation with fewer credits, 0: by none
    u32 overrun_credits;  // which it had
    u32 claims_metadata;  // one worker at a time takes a free frame for metadata
    BarrierSlot freeze_barrier[barrier_slots];
    WorkerHint hints[barrier_slots];
    alignas(64) u64 rights_changes;  // see note_rights_change()
};

struct HeadTable;

struct Store {
    u64 size_bytes;
    u64 frame_count;
    u64 reserve_blocks;  // only removal and commit may use the last ones
    u64 hash_key[2];
    u64 hash_mask;  // all ones; tests clear bits to force collisions
    u64 root_inode;
    u64 orphan_directory;
    u64 frame_table_offset;

    StoreState* state;
    format::FrameTableBlock* frame_table;
    FrameOverlay* overlays;    // one a frame
    u64* frames_free;          // bit per frame: kind is free
    u64* frames_with_room[5];  // by FrameKind: bit per frame: may have a free block or inode
    u64* versions;             // version_stripes words: version << 1 | locked
    u64* dirty;                // bit per block of the volume
    u64* dirty_frames;         // bit per frame with a dirty block

    // The identity map: the whole volume at one address.
    std::byte* base;
    u64* resident;  // bit per block: its contents are in memory
    // The heads map: a fixed number of blocks, looked up by hash. Null for identity.
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

/// The version word that guards what lies at `place` (a byte offset: a block's or an inode's).
/// Several places share a word; that costs a needless retry now and then and never correctness.
WARREN_HD inline u32 stripe_of(u64 place) {
    u64 x = place / format::inode_size * 0x9e3779b97f4a7c15u;
    return static_cast<u32>(x >> 48) & (version_stripes - 1);
}

/// Guards moves of directories in the whole volume: cycle checks run under it.
inline constexpr u64 move_lock_place = 0;

}  // namespace warren::core

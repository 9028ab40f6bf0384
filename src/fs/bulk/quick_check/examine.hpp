// SPDX-License-Identifier: Apache-2.0
// The quick check: tests all metadata of an unused volume in parallel. In each phase every block or
// inode is a part of its own, for all cores or for a GPU. The result is "sound" or "suspicious".
// In the latter case the full check (fs/check), which is sequential, reports what is wrong, if
// anything; so the messages do not depend on which check came first.
//
// Invariant: the quick check notices everything that the full check would report. It reads only the
// loaded frames, whatever bytes they contain.
#pragma once

#include "base/host_device.hpp"
#include "fs/core/search_keys.hpp"
#include "fs/core/shared_blocks.hpp"
#include "fs/format/check_structure.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"
#include "fs/format/superblock.hpp"
#include "fs/format/tree.hpp"
#include "team/team.hpp"

namespace warren::ops::examine {

using format::Block;
using format::block_size;
using format::BlockKind;
using format::BlockPointer;
using format::blocks_per_frame;
using format::frame_size;
using format::FrameKind;
using format::Inode;
using format::inodes_per_block;
using format::inodes_per_frame;
using format::tree_height_max;

/// No inode; no frame in memory; no block.
inline constexpr u32 nobody = ~u32{0};
/// Bit of Exam::names: the inode has a name in the orphan directory.
inline constexpr u32 is_orphan = u32{1} << 31;
inline constexpr u64 key_end = ~u64{0};
/// A run of data of at least this many blocks is divided, so that several teams claim its parts.
inline constexpr u64 run_blocks = 64 * blocks_per_frame;

/// Values from the superblock.
struct Facts {
    u64 volume;
    u64 size_bytes;
    u64 frame_count;
    u64 hash_key[2];
    u64 hash_mask;
    u64 root_inode;
    u64 orphan_directory;
    u64 blocks_used;
    u64 inodes_used;
    u64 counted_frames;  // frames with reference counts
};

/// What the pointer to a block says about the block.
struct ExpectedBlock {
    u64 owner;  // inode number; of reference counts: the frame
    u64 low;    // its keys are at least this
    u64 high;   // and below this; of a link target: its length
    u32 generation;
    u16 kind;  // BlockKind
    u16 height;
};

struct Run {
    u64 place;
    u64 blocks;
    bool is_shared = false;
};

/// A frame with reference counts.
struct CountedFrame {
    u64 frame;
    u64 pointer;  // to the block that has them
};

/// The results so far.
struct ExamState {
    u32 flaws;           // not zero: run the full check
    u32 changes;         // whether the last round of Jump changed anything
    u32 node_counts[2];  // lengths of the queues of tree nodes
    u64 run_count;
    u64 inodes;
    u64 directories;
    u64 blocks_used;
    u64 orphans;  // entries of the orphan directory
};

/// The loaded metadata and the tables of the check: a plain value that each phase gets.
struct Exam {
    Facts facts;
    std::byte* base;     // the loaded frames, one after the other, those of inodes first
    u32 inode_frames;    // number of loaded inode frames
    u32 frames;          // number of all loaded frames
    u64* frame_numbers;  // of the loaded frames
    u32* slots;          // by frame of the volume: its index among the loaded ones, or nobody
    u8* kinds;           // by frame of the volume
    u64* used;           // by frame, 8 words: the blocks in use, as in the frame table
    u64* owned;          // by frame, 8 words: blocks that were claimed by an owner
    ExpectedBlock* expected_blocks;  // by block of metadata frames
    u32* names;                      // by inode: its names; of a directory: its subdirectories
    u32* parents;                    // by inode: of a directory: its parent, nobody at first
    u64* blocks;                     // by inode: blocks that it owns
    u32* entries;                    // by inode: of a directory: its entries
    u32* nodes[2];                   // queues of tree nodes, as indices into expected_blocks
    Run* runs;                       // parts of long runs of data
    CountedFrame* counted;           // sorted by frame
    u32* references;  // by block of counted frames: extents that use it and may share it
    u64 runs_max;
    ExamState* state;

    WARREN_HD u64 inode_slots() const { return u64{inode_frames} * inodes_per_frame; }
    WARREN_HD u64 metadata_blocks() const { return u64{frames - inode_frames} * blocks_per_frame; }
    /// Block number `index` of the loaded frames.
    WARREN_HD const Block& block(u64 index) const {
        return reinterpret_cast<const Block*>(base)[index];
    }
    WARREN_HD u64 place_of(u64 index) const {
        return frame_numbers[index / blocks_per_frame] * frame_size +
               index % blocks_per_frame * block_size;
    }
    /// The index of a block among the loaded metadata blocks, or nobody.
    WARREN_HD u32 metadata_index(u64 place) const {
        if (place % block_size != 0 || place >= facts.size_bytes) return nobody;
        const u32 slot = slots[place / frame_size];
        if (slot == nobody || slot < inode_frames) return nobody;
        return (slot - inode_frames) * blocks_per_frame +
               static_cast<u32>(place % frame_size / block_size);
    }
    WARREN_HD const Block& metadata_block(u32 index) const {
        return block(u64{inode_frames} * blocks_per_frame + index);
    }
    WARREN_HD u64 metadata_place(u32 index) const {
        return place_of(u64{inode_frames} * blocks_per_frame + index);
    }

    WARREN_HD const Inode& inode(u32 ordinal) const {
        return reinterpret_cast<const Inode*>(base)[ordinal];
    }
    WARREN_HD u64 number_of(u32 ordinal) const {
        return frame_numbers[ordinal / inodes_per_frame] * inodes_per_frame +
               ordinal % inodes_per_frame;
    }
    /// The index of an inode among the loaded ones, or nobody if there is no inode of this number.
    WARREN_HD u32 ordinal_of(u64 number) const {
        const u64 frame = number / inodes_per_frame;
        const u32 at = static_cast<u32>(number % inodes_per_frame);
        if (frame >= facts.frame_count || at < inodes_per_block) return nobody;
        const u32 slot = slots[frame];
        return slot < inode_frames ? slot * inodes_per_frame + at : nobody;
    }
    WARREN_HD bool exists(u32 ordinal) const {
        const auto& bitmap = reinterpret_cast<const format::InodeBitmap&>(
            block(u64{ordinal / inodes_per_frame} * blocks_per_frame));
        const u32 bit = ordinal % inodes_per_frame;
        return (bitmap.used[bit / 64] >> bit % 64 & 1) != 0;
    }

    WARREN_HD void flaw() const { relaxed_store(state->flaws, 1); }
    /// Claims blocks [first, first + count) of a frame for an owner. A block claimed twice is a
    /// flaw; then it returns false.
    WARREN_HD bool own(u64 frame, u32 first, u32 count) const {
        bool is_first = true;
        for (u32 word = first / 64; word * 64 < first + count; ++word) {
            const u64 mask = core::run_mask(word, first, count);
            const u64 before = device_atomic<u64>(owned[frame * 8 + word])
                                   .fetch_or(mask, hd::memory_order_relaxed);
            if ((before & mask) != 0) is_first = false;
        }
        if (!is_first) flaw();
        return is_first;
    }
    /// The index of `frame` among the frames with reference counts, or nobody.
    WARREN_HD u32 counted_index(u64 frame) const {
        const u32 count = static_cast<u32>(facts.counted_frames);
        if (count == 0) return nobody;
        const u32 at = core::search_keys(ThreadTeam{}, count, frame,
                                         [this](u32 i) { return counted[i].frame; });
        return counted[at].frame == frame ? at : nobody;
    }
    /// As own(), for an extent whose blocks other such extents may share.
    WARREN_HD void own_shared(u64 frame, u32 first, u32 count) const {
        const u32 index = counted_index(frame);
        if (index == nobody) {
            own(frame, first, count);
            return;
        }
        for (u32 block = first; block < first + count; ++block) {
            if (relaxed_add(references[u64{index} * blocks_per_frame + block], 1) == 0)
                own(frame, block, 1);
        }
    }
    /// Claims the blocks of a run of data. Requires: it lies in the volume.
    WARREN_HD void own_run(Run run) const {
        core::for_each_frame_part(run.place, run.blocks, [&](u64 frame, u32 first, u32 count) {
            if (kinds[frame] != static_cast<u8>(FrameKind::data)) flaw();
            if (run.is_shared) {
                own_shared(frame, first, count);
            } else {
                own(frame, first, count);
            }
        });
    }
    /// As own_run(), but leaves the parts of a long run to ExamineRuns.
    WARREN_HD void claim_data(Run run) const {
        if (run.blocks >= run_blocks) {
            const u64 pieces = run.blocks / run_blocks;
            const u64 begin = relaxed_add(state->run_count, pieces);
            // Extents that exceed the queue overlap, unless there are shared ones. A false alarm
            // costs only a full check.
            if (begin + pieces > runs_max) return run.is_shared ? own_run(run) : flaw();
            for (u64 i = 0; i < pieces; ++i) {
                runs[begin + i] = {run.place, run_blocks, run.is_shared};
                run.place += run_blocks * block_size;
            }
            run.blocks %= run_blocks;
        }
        own_run(run);
    }
    /// Claims the block at `pointer` for the inode that `expected` names. Its index, or nobody.
    WARREN_HD u32 claim_block(BlockPointer pointer, const ExpectedBlock& expected) const {
        const bool is_indirect = expected.height > 0;
        const u32 index = metadata_index(pointer.offset());
        const bool is_good =
            format::pointer_is_sound(pointer, is_indirect, facts.size_bytes) && index != nobody;
        if (!is_good) {
            flaw();
            return nobody;
        }
        const u64 place = pointer.offset();
        const u32 bit = static_cast<u32>(place % frame_size / block_size);
        if (!own(place / frame_size, bit, 1)) return nobody;
        expected_blocks[index] = expected;
        return index;
    }
    WARREN_HD void queue_node(u32 queue, u32 index) const {
        nodes[queue][relaxed_add(state->node_counts[queue], 1)] = index;
    }
    /// Whether a block's header is as expected. Does not check the CRC.
    WARREN_HD bool keeps(const Block& found, u64 place, const ExpectedBlock& expected) const {
        const auto& header = reinterpret_cast<const format::BlockHeader&>(found);
        const format::BlockIdentity identity{static_cast<BlockKind>(expected.kind),
                                             expected.generation, expected.owner};
        return header.volume == facts.volume && header.place == place && identity.agrees(header);
    }
};

/// Lays out the frames and then the tables of `exam`, whose facts and counts of frames are set:
/// take(pointer, count) sets `pointer` to memory for `count` elements.
template <class Take>
void lay_out(Exam& exam, Take&& take) {
    const u64 inodes = exam.inode_slots();
    const u64 blocks = exam.metadata_blocks();
    exam.runs_max = exam.facts.size_bytes / block_size / run_blocks + 1;
    take(exam.base, exam.frames * frame_size);
    take(exam.frame_numbers, exam.frames);
    take(exam.slots, exam.facts.frame_count);
    take(exam.kinds, exam.facts.frame_count);
    take(exam.used, exam.facts.frame_count * 8);
    take(exam.owned, exam.facts.frame_count * 8);
    take(exam.expected_blocks, blocks);
    take(exam.names, inodes);
    take(exam.parents, inodes);
    take(exam.blocks, inodes);
    take(exam.entries, inodes);
    take(exam.nodes[0], blocks);
    take(exam.nodes[1], blocks);
    take(exam.runs, exam.runs_max);
    take(exam.counted, exam.facts.counted_frames);
    take(exam.references, exam.facts.counted_frames * blocks_per_frame);
    take(exam.state, 1);
}

}  // namespace warren::ops::examine

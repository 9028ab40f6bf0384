// SPDX-License-Identifier: Apache-2.0
// Many look-ups, creations, moves or removals at once, as plain values: what a caller packs, the
// result of each item, and the data that the phases of a batch (fs/bulk/batch/batch_run.hpp) pass
// to each other.
//
// A batch works on "ends": an item is a name in a directory, a move is two. A batch runs with
// exclusive access to the volume's metadata, so the phases take no locks and check no versions:
// millions of ends are sorted by directory and hash, and each changed directory is rewritten from
// its sorted entries.
//
// Invariant: until the last check of BatchState::status nothing has changed but dirty marks; after
// it nothing can fail.
#pragma once

#include "fs/format/directory.hpp"
#include "fs/ops/new_inode.hpp"

namespace warren::ops {

/// More items are divided into several batches.
inline constexpr u64 batch_items_max = u64{1} << 20;

enum class BatchKind : u8 { look_up, create, move, remove };

/// One name in one directory.
struct BatchEnd {
    u64 where;       // the directory's inode number, the name's length at bit 48
    u32 generation;  // of the directory
    u32 name;        // index of the name's first word; names are padded with zeros to words

    static constexpr u64 number_mask = (u64{1} << 48) - 1;
    WARREN_HD u64 directory() const { return where & number_mask; }
    WARREN_HD u32 length() const { return static_cast<u32>(where >> 48); }
};
static_assert(sizeof(BatchEnd) == 16);

/// What a batch reports of a new inode; its caller knows the rest.
struct BatchMade {
    u64 inode;
    u32 generation;
    u32 mode;
    u32 group;
    u32 zero;
};
static_assert(sizeof(BatchMade) == 24);

/// How much a batch is.
struct BatchShape {
    BatchKind kind = BatchKind::look_up;
    u64 items = 0;
    u64 name_words = 0;
    bool has_modes = false;  // each creation has a mode of its own

    WARREN_HD u32 ends_per_item() const { return kind == BatchKind::move ? 2 : 1; }
    WARREN_HD u64 ends() const { return items * ends_per_item(); }
};

/// What is the same for all items.
struct BatchHeader {
    core::Credentials caller;
    i64 now = 0;
    u64 references = 0;
    u32 mode = 0;
    u32 device = 0;
};

/// The attributes of an inode that a batch has made in the directory `parent`.
WARREN_HD inline Attributes made_attributes(const BatchMade& made, const BatchHeader& header,
                                            u64 parent) {
    Attributes out = new_attributes({made.inode, made.generation}, made.mode, header.caller.user,
                                    made.group, parent, header.now);
    out.device = header.device;
    return out;
}

/// The host's memory of a batch: the caller's input, and the results.
struct BatchMemory {
    BatchEnd* ends = nullptr;  // of a move: where it comes from, where it goes to
    u64* names = nullptr;
    u16* modes = nullptr;              // with BatchShape::has_modes
    Errc* codes = nullptr;             // one an item; Errc::retry: it has to be given as a command
    BatchMade* made = nullptr;         // of creations
    Attributes* attributes = nullptr;  // of look-ups
};

/// Some items and where their names lie.
struct BatchPart {
    u64 begin = 0;
    u64 end = 0;
    u64 words_begin = 0;
    u64 words_end = 0;
};

/// A run reports at most this many blocks that it needs.
inline constexpr u32 needed_places_max = 64;

/// The items of a run, and how far it came.
struct BatchWindow {
    u64 begin = 0;
    u64 end = 0;
    u64 done = 0;          // items [begin, done) have their codes
    u32 needed_count = 0;  // with Errc::need_block: of these
    u64 needed_places[needed_places_max] = {};
};

/// The directory of a run of ends: what is known of it, and what happens to its tree.
struct BatchDirectory {
    u64 number;
    u32 begin;  // of its ends, in order
    u32 generation;
    Errc found;    // there is such an inode
    Errc execute;  // names may be looked up
    Errc write;    // names may be changed
    u8 is_directory;
    u8 inherits;  // new inodes get more than a mode from it
    u8 is_dying;
    u8 is_chosen;     // its tree may be rewritten
    u8 is_rewritten;  // and will be, for an item is carried out there
    u32 mode;
    u32 group;
    u32 new_directories;
    u32 old_blocks;
    u32 entry_begin;  // of its future entries, among all entries
    u32 entry_end;
    u32 leaf_begin;
    u32 leaf_end;
    u32 block_begin;
    u32 nodes;    // above the leaves
    u32 parents;  // above the nodes
    u32 edits;    // removals made in place
    u32 emptied;  // leaves of several that they leave empty
};

/// A block of a tree that is rewritten.
struct BatchBlock {
    u64 place;
    u32 directory;
    u16 height;  // 0: a leaf
    u16 zero;
};

inline constexpr u32 batch_rounds = 3;  // levels of a tree that is rewritten
inline constexpr u32 batch_none = ~0u;

/// What the phases count.
struct BatchState {
    Errc status;
    u32 directories;
    u64 limit;         // items from here on wait for the next run
    u32 needed_count;  // of Batch::needed_places; may exceed needed_places_max
    u64 needed_inodes;
    u64 slots_taken;  // of leaves that may be rewritten
    u32 blocks_end;   // of the list of old blocks
    u32 round_end[batch_rounds + 1];
    u32 old_leaves;
    u32 entries;
    u32 recorded;  // entries of old leaves that were found there
    u32 leaves;
    u32 new_blocks;
    u32 created;
    u32 inode_frames;
    u32 inode_blocks;  // that new inodes dirty, or leaves that are changed in place
    u32 must_rewrite;  // it cannot be done in place, or would take longer
    u32 removed;       // files that are freed with their names
    u32 freed_tables;  // blocks of the frame table that their blocks dirty, at most
    u64 generation;    // before the first new inode's
};

/// All that the phases work on. A plain value; the pointers are good where they run.
struct Batch {
    BatchShape shape;
    BatchHeader header;
    u64 begin = 0;  // items of this run
    u64 end = 0;
    bool may_edit = false;  // moves and removals may be made in place
    bool is_small = false;  // directories for which there is no room end the run: Errc::overflow

    const BatchEnd* ends = nullptr;
    const u64* names = nullptr;
    const u16* modes = nullptr;
    Errc* codes = nullptr;
    BatchMade* made = nullptr;
    Attributes* attributes = nullptr;

    BatchState* state = nullptr;
    u64* needed_places = nullptr;  // needed_places_max; behind the state
    // One an end.
    u64* hashes = nullptr;
    u64* targets = nullptr;  // what it leads to: inode, type at 48; 0 for nothing
    u64* keys = nullptr;     // of the entry that is there or would be
    // One an end, with may_edit: its leaf, 0 for none, and its slot there. Until there are records.
    u64* leaf_places = nullptr;
    u32* slots = nullptr;
    Errc* end_codes = nullptr;
    u32* directory_of = nullptr;
    BatchDirectory* directories = nullptr;
    // One an item.
    u8* does = nullptr;   // it will be carried out
    u32* rank = nullptr;  // among the new inodes
    // To sort with: records_max of each.
    u64* sort_keys = nullptr;
    u64* sort_keys_other = nullptr;
    u32* order = nullptr;
    u32* order_other = nullptr;
    u32* flags = nullptr;
    u32* sums = nullptr;
    // The trees that are rewritten.
    BatchBlock* blocks = nullptr;       // blocks_max
    u32* leaf_blocks = nullptr;         // by leaf: which of the blocks; blocks_max
    u32* ends_in_order = nullptr;       // one an end: as they were sorted
    u64* record_keys = nullptr;         // records_max
    u32* record_directories = nullptr;  // records_max
    u32* record_slots = nullptr;        // of entries of old leaves; records_max
    u32* entries = nullptr;             // records that stay, in order; records_max
    u32* weights = nullptr;             // records_max
    u32* offsets = nullptr;             // sums of the lengths of names; records_max
    u32* leaf_of = nullptr;             // by entry; records_max
    u32* leaf_begin = nullptr;          // by leaf: its first entry; records_max
    u64* places = nullptr;              // of new blocks; places_max
    // New inodes.
    u32* frames = nullptr;   // with room; frames_max
    u64* numbers = nullptr;  // one an item
    u64 blocks_max = 0;
    u64 records_max = 0;
    u64 places_max = 0;
    u64 frames_max = 0;

    WARREN_HD u64 item_of(u64 one_end) const { return one_end / shape.ends_per_item(); }
    WARREN_HD bool is_source(u64 one_end) const {
        return shape.kind == BatchKind::remove ||
               (shape.kind == BatchKind::move && one_end % 2 == 0);
    }
    /// Whether an item belongs to this run, as far as is known yet.
    WARREN_HD bool is_in_play(u64 item) const { return item >= begin && item < end; }
    WARREN_HD u32 mode_of(u64 item) const { return modes == nullptr ? header.mode : modes[item]; }
};

}  // namespace warren::ops

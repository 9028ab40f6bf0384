// SPDX-License-Identifier: Apache-2.0
// The data of a batch, which runs many lookups, creations, clones, moves or removals at once: what
// the caller packs, the result of each item, and what the phases (batch_run.hpp) pass to each
// other.
//
// The unit of work is an operand: one name in one directory. A move has two
// operands, any other item one. A batch has exclusive access to the volume's metadata, so its
// phases take no locks and check no versions: millions of operands are sorted by directory and
// hash, and each changed directory is rewritten from its sorted entries.
//
// Invariant: until BatchState::status is checked for the last time, only reservations, free-space
// hints and dirty marks have changed in the store. After that check nothing can fail. A run that
// fails has returned the reservations and the marks.
#pragma once

#include "fs/format/directory.hpp"
#include "fs/ops/new_inode.hpp"

namespace warren::ops {

/// A call with more items runs several batches.
inline constexpr u64 batch_items_max = u64{1} << 20;

/// `clone`: creations of inodes that are copies of others.
enum class BatchKind : u8 { look_up, create, clone, move, remove };

/// An operand: one name in one directory.
struct BatchOperand {
    u64 where;       // inode number of the directory; the name's length from bit 48 on
    u32 generation;  // of the directory
    u32 name;        // index of the name's first word; names are zero-padded to 8-byte words

    static constexpr u64 number_mask = (u64{1} << 48) - 1;
    WARREN_HD u64 directory() const { return where & number_mask; }
    WARREN_HD u32 length() const { return static_cast<u32>(where >> 48); }
};
static_assert(sizeof(BatchOperand) == 16);

/// What a batch reports of a new inode; the caller knows its other attributes.
struct BatchMade {
    u64 inode;
    u32 generation;
    u32 mode;
    u32 group;
    u32 zero;
};
static_assert(sizeof(BatchMade) == 24);

/// A batch clones a file only if its contents lie in at most this many frames.
inline constexpr u32 cloned_frames_max = 2;

/// The size of a batch.
struct BatchShape {
    BatchKind kind = BatchKind::look_up;
    u64 items = 0;
    u64 name_words = 0;
    bool has_modes = false;  // each creation has a mode of its own
    u64 call_items = 0;      // of the call of which this is a part; 0: of none

    WARREN_HD bool makes_inodes() const {
        return kind == BatchKind::create || kind == BatchKind::clone;
    }
    WARREN_HD u32 operands_per_item() const { return kind == BatchKind::move ? 2 : 1; }
    WARREN_HD u64 operands() const { return items * operands_per_item(); }

    /// At most this many frames get counts of shared blocks.
    WARREN_HD u64 fresh_counts_max() const {
        return kind == BatchKind::clone ? items * cloned_frames_max : 0;
    }
    /// At most this many blocks are marked dirty ahead: those of inodes, and of counts.
    WARREN_HD u64 marks_max() const {
        if (kind == BatchKind::move) return items;
        return kind == BatchKind::clone ? items * (1 + cloned_frames_max) : 0;
    }
};

/// The arguments that all items share.
struct BatchHeader {
    core::Credentials caller;
    i64 now = 0;
    u64 references = 0;
    u32 mode = 0;
};

/// The attributes of an inode that a batch has created in the directory `parent`.
WARREN_HD inline Attributes made_attributes(const BatchMade& made, const BatchHeader& header,
                                            u64 parent) {
    return new_attributes({made.inode, made.generation}, made.mode, header.caller.user, made.group,
                          parent, header.now);
}

/// The caller's input of a batch, and the results, in host or device memory.
struct BatchMemory {
    BatchOperand* operands = nullptr;  // operands; of a move: its source, then its target
    u64* names = nullptr;
    u16* modes = nullptr;              // with BatchShape::has_modes
    Handle* sources = nullptr;         // of clones: the inode to copy
    Errc* codes = nullptr;             // per item; Errc::retry: run this item as a command
    BatchMade* made = nullptr;         // of creations and clones
    Attributes* attributes = nullptr;  // of lookups
};

/// A range of items, and the range of their names.
struct BatchPart {
    u64 begin = 0;
    u64 end = 0;
    u64 words_begin = 0;
    u64 words_end = 0;
};

/// A run reports at most this many missing blocks.
inline constexpr u32 needed_places_max = 64;

/// The items of a run, and its progress.
struct BatchWindow {
    u64 begin = 0;
    u64 end = 0;
    u64 done = 0;           // items [begin, done) have their result
    u64 wanted_blocks = 0;  // that the run would have used, as far as it came
    u32 needed_count = 0;   // with Errc::need_block: how many missing blocks
    u64 needed_places[needed_places_max] = {};
};

/// A directory with operands in the batch, and what becomes of its tree.
struct BatchDirectory {
    u64 number;
    u32 begin;  // its first operand, in sorted order
    u32 generation;
    Errc found;    // whether the inode exists
    Errc execute;  // whether the caller may look up names
    Errc write;    // whether the caller may change names
    u8 is_directory;
    u8 inherits;  // has attributes, which new inodes may inherit: left to commands
    u8 is_dying;
    u8 is_chosen;     // its tree may be rewritten
    u8 is_rewritten;  // and is, because at least one item changes it
    u32 mode;
    u32 group;
    u32 new_directories;
    u32 old_blocks;
    u32 entry_begin;  // its entries afterwards, as a range of Batch::entries
    u32 entry_end;
    u32 leaf_begin;
    u32 leaf_end;
    u32 block_begin;
    u32 nodes;    // of the new tree, of height 1
    u32 parents;  // of the new tree, of height 2
    u32 edits;    // removals made in place; after PlanEmptied: leaves still to be freed
    u32 emptied;  // leaves that these removals empty, if the directory has several
};

/// A block of a tree that is rewritten.
struct BatchBlock {
    u64 place;
    u32 directory;
    u16 height;  // 0: a leaf
    u16 zero;
};

inline constexpr u32 batch_rounds = 3;  // at most this many levels in a tree that is rewritten
inline constexpr u32 batch_none = ~0u;

/// The results and counters of the phases.
struct BatchState {
    Errc status;
    u32 directories;
    u64 limit;         // items from here on are left to the next run
    u32 needed_count;  // of Batch::needed_places; may exceed needed_places_max
    u64 needed_inodes;
    u64 slots_taken;  // of the chosen directories: entries, plus blocks of their trees << 32
    u32 blocks_end;   // end of the list of old blocks
    u32 round_end[batch_rounds + 1];
    u32 old_leaves;
    u32 entries;
    u32 recorded;  // entries of old leaves that were found
    u32 leaves;
    u32 new_blocks;
    u32 created;
    u32 inode_frames;
    u32 inode_blocks;  // blocks dirtied by new inodes, or leaves changed in place
    u32 marked;        // dirty marks that this run has set ahead, listed in Batch::marked
    u32 fresh_counts;  // frames that get counts of shared blocks, listed in Batch::fresh_counts
    u32 counts_begin;  // the first of their blocks among the new ones
    u32 must_rewrite;  // a change in place is impossible or would take longer
    u32 removed;       // files that are freed with their last name
    u32 freed_tables;  // upper bound of the blocks of the frame table that their blocks dirty
    u64 generation;    // the counter before the first new inode
};

/// Everything that the phases work on: a plain value. Its pointers are valid where the phases run.
struct Batch : BatchMemory {
    BatchShape shape;
    BatchHeader header;
    u64 begin = 0;  // the items of this run
    u64 end = 0;
    bool may_edit = false;  // whether moves and removals may be made in place
    bool is_small = false;  // directories that do not fit end the run with Errc::overflow

    BatchState* state = nullptr;
    u64* needed_places = nullptr;  // needed_places_max of them, right after the state
    // Per operand.
    u64* hashes = nullptr;
    u64* targets = nullptr;  // the inode that the name leads to, its type from bit 48 on; 0: none
    u64* keys = nullptr;     // of the entry, which exists or would be created
    // Per operand, with may_edit: its leaf (0: none) and its slot there. They share memory with the
    // records, so they are valid only until records are written.
    u64* leaf_places = nullptr;
    u32* slots = nullptr;
    Errc* operand_codes = nullptr;
    u32* directory_of = nullptr;
    BatchDirectory* directories = nullptr;
    // Per item.
    u8* does = nullptr;   // whether it is carried out
    u32* rank = nullptr;  // its number among the new inodes
    // Arrays for sorting, with records_max elements each.
    u64* sort_keys = nullptr;
    u64* sort_keys_other = nullptr;
    u32* order = nullptr;
    u32* order_other = nullptr;
    u32* flags = nullptr;
    u32* sums = nullptr;
    // The trees that are rewritten.
    BatchBlock* blocks = nullptr;       // blocks_max
    u32* leaf_blocks = nullptr;         // by leaf: its index in blocks; blocks_max
    u32* operands_in_order = nullptr;   // operands in sorted order
    u64* record_keys = nullptr;         // records_max
    u32* record_directories = nullptr;  // records_max
    u32* record_slots = nullptr;        // of entries of old leaves; records_max
    u32* entries = nullptr;             // the records that stay, in order; records_max
    u32* weights = nullptr;             // records_max
    u32* offsets = nullptr;             // running sums of the lengths of names; records_max
    u32* leaf_of = nullptr;             // by entry; records_max
    u32* leaf_begin = nullptr;          // by leaf: its first entry; records_max
    u64* places = nullptr;              // addresses of new blocks; places_max
    // New inodes.
    u32* frames = nullptr;        // inode frames with a free inode; frames_max
    u64* numbers = nullptr;       // of creations and clones; one per item
    u64* marked = nullptr;        // of moves and clones; shape.marks_max()
    u32* fresh_counts = nullptr;  // of clones; shape.fresh_counts_max()
    u64 blocks_max = 0;
    u64 records_max = 0;
    u64 places_max = 0;
    u64 frames_max = 0;

    WARREN_HD u64 item_of(u64 operand) const { return operand / shape.operands_per_item(); }
    WARREN_HD bool is_source(u64 operand) const {
        return shape.kind == BatchKind::remove ||
               (shape.kind == BatchKind::move && operand % 2 == 0);
    }
    /// Whether an item belongs to this run, as far as is known before the limit is final.
    WARREN_HD bool is_in_play(u64 item) const { return item >= begin && item < end; }
    WARREN_HD u32 mode_of(u64 item) const { return modes == nullptr ? header.mode : modes[item]; }
};

}  // namespace warren::ops

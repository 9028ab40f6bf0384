// SPDX-License-Identifier: Apache-2.0
// The first phases of a batch: hash the names, number the directories, find the entries, and decide
// the outcome of each item. Each struct is a phase; a call with an index does one part of it. The
// parts of a phase may run in any order and in parallel.
//
// Invariant: an item gets the result that a single command would have got in its place. Special
// cases (colliding hashes, a target that is replaced, inherited attributes, a file that outlives
// its name) are left to commands.
#pragma once

#include "fs/bulk/batch/batch.hpp"
#include "fs/bulk/lane_free.hpp"
#include "fs/core/acl.hpp"
#include "fs/ops/lookup.hpp"

namespace warren::ops::batch {

using LaneOperation = Operation<ThreadTeam>;

/// The base of all phases. It only refers to its batch and its store: an executor that runs a phase
/// elsewhere, as on a GPU, constructs it there over copies of both.
struct Phase {
    const Batch& b;
    const Store& store;
    u64 argument = 0;  // a parameter of some phases

    WARREN_HD bool has_failed() const { return b.state->status != Errc::ok; }
    /// Aborts the run. The caller either serves the retry reason `code` and starts the run again,
    /// or runs the items as commands.
    WARREN_HD void fail(Errc code, u64 place = 0) const {
        relaxed_store(b.state->status, code);
        if (code != Errc::need_block) return;
        const u32 index = relaxed_add(b.state->needed_count, 1);
        if (index < needed_places_max) b.needed_places[index] = place;
    }
    /// True if the run can go on after `code`; otherwise aborts it.
    WARREN_HD bool is_answer(const LaneOperation& op, Errc code) const {
        if (is_final(code) && code != Errc::corrupt) return true;
        fail(code, op.needed_place);
        return false;
    }
    WARREN_HD u64 limit() const { return b.state->limit; }
    WARREN_HD bool runs(u64 item) const { return item >= b.begin && item < limit(); }
};

/// As find_inode(), but with exclusive access, so no version has to be confirmed. Not inlined, so
/// that its code exists once for the many phases that call it.
WARREN_HD WARREN_NOINLINE inline Result<InodeRef> inode_of(LaneOperation& op, u64 number) {
    if (!is_inode_slot(op, number)) return Errc::stale;
    InodeRef inode;
    inode.number = number;
    const u64 place = number * format::inode_size;
    inode.seen = {place, relaxed_load(op.store.versions[stripe_of(place)])};
    WARREN_LET(block, op.pin(inode.block_place()));
    inode.at = reinterpret_cast<Inode*>(*block) + number % format::inodes_per_block;
    inode.generation = relaxed_load(inode.at->generation);
    if (inode.generation == 0) return Errc::stale;
    return inode;
}

template <class T>
WARREN_HD void lower_to(T& word, std::type_identity_t<T> value) {
    device_atomic<T> at(word);
    T old = at.load(hd::memory_order_relaxed);
    while (value < old && !at.compare_exchange_weak(old, value, hd::memory_order_relaxed)) {
    }
}

/// The largest value of `bits` bits: the sort key of operands outside the run, which puts them
/// last.
WARREN_HD constexpr u64 all_ones(u32 bits) {
    return bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
}
inline constexpr u32 hash_bits = 55;

/// The number of bits that hold every inode number of this volume, and all_ones() as well.
WARREN_HD inline u32 directory_bits(const Store& store) {
    return 64 - static_cast<u32>(hd::countl_zero(store.size_bytes / format::inode_size));
}

/// Per operand: computes the hash, the first sort key. An invalid name gets a hash that no name
/// has.
struct HashOperands : Phase {
    WARREN_HD void operator()(u64 e) const {
        const BatchOperand& operand = b.operands[e];
        b.order[e] = static_cast<u32>(e);
        b.operand_codes[e] = Errc::ok;
        b.directory_of[e] = batch_none;
        b.targets[e] = 0;
        u64 hash = all_ones(hash_bits);
        if (b.is_in_play(b.item_of(e))) {
            LaneOperation op(ThreadTeam{}, store);
            const auto* name = reinterpret_cast<const char*>(b.names + operand.name);
            const Result<Name> made = make_name(op, name, operand.length());
            b.operand_codes[e] = made.code();
            if (made) hash = made->hash;
        }
        b.hashes[e] = hash;
        b.sort_keys[e] = hash;
    }
};

/// Per operand, by position in the order of hashes: sets the second sort key, the directory.
struct KeyByDirectory : Phase {
    WARREN_HD void operator()(u64 p) const {
        const u64 e = b.order[p];
        const u64 last = all_ones(directory_bits(store));
        const u64 number = b.operands[e].directory();
        const bool is_in = b.is_in_play(b.item_of(e));
        b.sort_keys[p] = is_in && number < last ? number : last;
    }
};

/// Per operand, by position: marks the first operand of each directory. Also lowers the limit to
/// the first item with the same name (by hash) in the same directory as an earlier item.
struct MarkDirectories : Phase {
    WARREN_HD bool is_in(u64 p) const { return b.is_in_play(b.item_of(b.order[p])); }

    WARREN_HD void operator()(u64 p) const {
        const u64 e = b.order[p];
        const u64 number = b.operands[e].directory();
        const bool begins = is_in(p) && (p == 0 || !is_in(p - 1) ||
                                         b.operands[b.order[p - 1]].directory() != number);
        b.operands_in_order[p] = static_cast<u32>(e);
        b.flags[p] = begins ? 1 : 0;
        // The order of lookups does not matter, because they change nothing.
        const bool is_alone = b.shape.kind == BatchKind::look_up || b.operand_codes[e] != Errc::ok;
        if (!is_in(p) || begins || is_alone) return;
        for (u64 q = p; q-- > 0;) {
            const u64 before = b.order[q];
            if (b.operands[before].directory() != number || b.hashes[before] != b.hashes[e]) return;
            if (b.item_of(before) == b.item_of(e)) continue;  // the other operand of this item
            lower_to(b.state->limit, b.item_of(e));
            return;
        }
    }
};

/// Per operand, by position: notes the index of its directory, and where each directory begins.
struct NumberDirectories : Phase {
    WARREN_HD void operator()(u64 p) const {
        const u64 e = b.operands_in_order[p];
        const bool is_last = p + 1 == b.shape.operands();
        const u32 count = b.sums[p] + b.flags[p];
        if (is_last) relaxed_store(b.state->directories, count);
        if (!b.is_in_play(b.item_of(e))) return;
        b.directory_of[e] = count - 1;
        if (b.flags[p] == 0) return;
        BatchDirectory directory{};
        directory.number = b.operands[e].directory();
        directory.begin = static_cast<u32>(p);
        b.directories[count - 1] = directory;
    }
};

/// With more operands of moves in one directory, each operand would read too many neighbours.
/// Removals need no limit, because a leaf loses at most its entries.
inline constexpr u64 edits_in_place_max = 64;

/// Per directory: checks that it is one, and what the caller may do in it.
struct OpenDirectories : Phase {
    WARREN_HD void look(BatchDirectory& directory, LaneOperation& op, const InodeRef& inode) const {
        const Inode& at = *inode.at;
        directory.generation = inode.generation;
        directory.mode = relaxed_load(at.mode);
        directory.group = relaxed_load(at.group);
        directory.is_directory = format::is_directory(directory.mode) ? 1 : 0;
        directory.is_dying = (relaxed_load(at.entries) & format::entries_dying) != 0 ? 1 : 0;
        directory.inherits = relaxed_load(at.attributes.raw) != 0 ? 1 : 0;
        // A clone grows where nobody else comes: its caller needs rights only for the sources.
        if (b.shape.kind == BatchKind::clone) return;
        directory.execute = check_permission(op, inode, b.header.caller, may_execute);
        if (!is_answer(op, directory.execute)) return;
        directory.write = check_permission(op, inode, b.header.caller, may_write);
        is_answer(op, directory.write);
    }

    /// Opens the directory whose number is in `directory`.
    WARREN_HD Result<InodeRef> open(BatchDirectory& directory, LaneOperation& op) const {
        const Result<InodeRef> inode = inode_of(op, directory.number);
        directory.found = inode.code();
        if (is_answer(op, inode.code()) && inode) look(directory, op, *inode);
        return inode;
    }

    WARREN_HD void operator()(u64 s) const {
        if (s >= b.state->directories) return;
        LaneOperation op(ThreadTeam{}, store);
        op.is_alone = true;
        static_cast<void>(open(b.directories[s], op));
    }
};

/// Per operand, by position: finds the entry of its name. With may_edit, each operand also opens
/// its directory, which saves a phase; only the first operand of a directory stores what later
/// phases need.
struct LookUpOperands : Phase {
    WARREN_HD void note_size(u64 s) const {
        const u64 count = b.state->directories;
        const u64 end = s + 1 == count ? b.shape.operands() : b.directories[s + 1].begin;
        const u64 operands_there = end - b.directories[s].begin;
        if (operands_there > edits_in_place_max && b.shape.kind == BatchKind::move) {
            relaxed_store(b.state->must_rewrite, 1);
        }
    }

    /// Opens the directory of the operand at position p. `own` is memory that the result may use.
    WARREN_HD const BatchDirectory& open(u64 p, BatchDirectory& own, LaneOperation& op,
                                         Result<InodeRef>& inode) const {
        const u32 s = b.directory_of[b.operands_in_order[p]];
        BatchDirectory& listed = b.directories[s];
        if (!b.may_edit) {
            inode = inode_of(op, listed.number);
            return listed;
        }
        const bool is_first = p == listed.begin;
        if (is_first) note_size(s);
        own.number = listed.number;
        BatchDirectory& directory = is_first ? listed : own;
        inode = OpenDirectories{{b, store}}.open(directory, op);
        return directory;
    }

    WARREN_HD Errc directory_code(u64 e, const BatchDirectory& directory) const {
        WARREN_TRY(directory.found);
        if (directory.generation != b.operands[e].generation) return Errc::stale;
        if (directory.is_directory == 0) return Errc::not_directory;
        return directory.execute;
    }

    /// Stores the result of a lookup.
    WARREN_HD Errc tell(LaneOperation& op, u64 item, const Entry& entry) const {
        if (!entry.exists) return Errc::no_entry;
        const Result<InodeRef> inode = inode_of(op, entry.inode);
        if (!inode) return inode.code() == Errc::stale ? Errc::corrupt : inode.code();
        b.attributes[item] = read_attributes(*inode);
        return Errc::ok;
    }

    WARREN_HD void operator()(u64 p) const {
        const u64 e = b.operands_in_order[p];
        const u64 item = b.item_of(e);
        if (!b.is_in_play(item) || has_failed()) return;
        LaneOperation op(ThreadTeam{}, store);
        op.is_alone = true;
        BatchDirectory own{};
        Result<InodeRef> inode;
        const BatchDirectory& directory = open(p, own, op, inode);
        if (!runs(item)) return;
        const Errc of_directory = directory_code(e, directory);
        if (of_directory != Errc::ok) b.operand_codes[e] = of_directory;
        if (b.shape.kind == BatchKind::look_up) b.codes[item] = b.operand_codes[e];
        if (b.operand_codes[e] != Errc::ok) return;
        const auto* bytes = reinterpret_cast<const char*>(b.names + b.operands[e].name);
        const Name name{bytes, b.operands[e].length(), b.hashes[e]};
        const Result<Entry> entry = find_entry(op, *inode, name);
        if (!is_answer(op, entry.code())) return;
        if (b.shape.kind == BatchKind::look_up) {
            const Errc code = tell(op, item, *entry);
            if (is_answer(op, code)) b.codes[item] = code;
            return;
        }
        b.keys[e] = entry->key;
        if (b.may_edit) {
            b.leaf_places[e] = entry->leaf_seen.place;
            b.slots[e] = entry->slot;
        }
        if (entry->exists) b.targets[e] = entry->inode | u64{entry->type} << 48;
        // No key is left for another name with this hash: a command handles it.
        if (entry->is_full) b.operand_codes[e] = Errc::retry;
    }
};

/// Per item: sets its result, or decides that it is carried out.
struct Decide : Phase {
    WARREN_HD Errc creation(u64 item) const {
        WARREN_TRY(b.operand_codes[item]);
        if (b.targets[item] != 0) return Errc::exists;
        const BatchDirectory& directory = b.directories[b.directory_of[item]];
        WARREN_TRY(directory.write);
        if (directory.inherits != 0) return Errc::retry;
        return directory.is_dying != 0 ? Errc::no_entry : Errc::ok;
    }

    WARREN_HD Errc sticky(const BatchDirectory& directory, u64 target) const {
        if (b.header.caller.is_privileged()) return Errc::ok;
        LaneOperation op(ThreadTeam{}, store);
        const Result<InodeRef> parent = inode_of(op, directory.number);
        const Result<InodeRef> inode = inode_of(op, target & BatchOperand::number_mask);
        if (!is_answer(op, inode.code())) return Errc::retry;
        if (!inode || !parent) return Errc::retry;
        return check_sticky(op, *parent, b.header.caller, relaxed_load(inode->at->user));
    }

    WARREN_HD Errc move(u64 item) const {
        const u64 from = 2 * item;
        const u64 to = from + 1;
        WARREN_TRY(b.operand_codes[from]);
        const bool moves_directory = b.targets[from] >> 48 == format::directory_entry;
        if (moves_directory) {
            // Paths of other items may lead through this directory: the move runs alone, after the
            // items before it.
            lower_to(b.state->limit, item == b.begin ? item + 1 : item);
            return Errc::retry;
        }
        WARREN_TRY(b.operand_codes[to]);
        if (b.targets[from] == 0) return Errc::no_entry;
        const BatchDirectory& source = b.directories[b.directory_of[from]];
        const BatchDirectory& target = b.directories[b.directory_of[to]];
        const bool meets = source.number == target.number && b.hashes[from] == b.hashes[to];
        if (b.targets[to] != 0 || meets) return Errc::retry;
        WARREN_TRY(source.write);
        WARREN_TRY(target.write);
        WARREN_TRY(sticky(source, b.targets[from]));
        return target.is_dying != 0 ? Errc::no_entry : Errc::ok;
    }

    /// Whether the file loses its last name, and it and all its blocks can be freed at once.
    WARREN_HD Errc ending(u64 number) const {
        LaneOperation op(ThreadTeam{}, store);
        op.is_alone = true;
        const Result<InodeRef> inode = inode_of(op, number);
        if (!is_answer(op, inode.code()) || !inode) return Errc::retry;
        const InodeParts seen(*inode->at);
        const bool is_free = fate_of(store, *inode, seen, false, false) == Fate::free;
        if (seen.is_directory() || !is_free) return Errc::retry;
        const Result<Block*> bitmap = op.pin(inode_bit(number).bitmap_place);
        if (!is_answer(op, bitmap.code())) return Errc::retry;
        relaxed_add(b.state->removed, 1);
        const u32 tables = (seen.kind == AreaKind::extents ? release_tables_max : 0u) +
                           (seen.kind == AreaKind::target ? 1u : 0u) +
                           (seen.attributes != 0 ? 1u : 0u);
        if (tables > 0) relaxed_add(b.state->freed_tables, tables);
        return Errc::ok;
    }

    WARREN_HD Errc removal(u64 item) const {
        WARREN_TRY(b.operand_codes[item]);
        const u64 target = b.targets[item];
        if (target == 0) return Errc::no_entry;
        const BatchDirectory& directory = b.directories[b.directory_of[item]];
        WARREN_TRY(directory.write);
        WARREN_TRY(sticky(directory, target));
        if (target >> 48 == format::directory_entry) return Errc::is_directory;
        return ending(target & BatchOperand::number_mask);
    }

    WARREN_HD Errc code_of(u64 item) const {
        if (b.shape.kind == BatchKind::move) return move(item);
        return b.shape.kind == BatchKind::remove ? removal(item) : creation(item);
    }

    WARREN_HD bool decides(u64 item) const {
        b.does[item] = 0;
        return b.is_in_play(item) && !has_failed() && item < limit();
    }
    WARREN_HD void note(u64 item, Errc code) const {
        b.codes[item] = code;
        b.does[item] = code == Errc::ok ? 1 : 0;
    }
    WARREN_HD void operator()(u64 item) const {
        if (decides(item)) note(item, code_of(item));
    }
};

/// Per operand, by position: whether it is carried out.
struct MarkEdits : Phase {
    WARREN_HD void operator()(u64 p) const {
        const u64 item = b.item_of(b.operands_in_order[p]);
        b.flags[p] = !has_failed() && runs(item) && b.does[item] != 0 ? 1 : 0;
    }
};

/// A directory is rewritten only if it has at most this many entries per changed name, so that
/// nearly all of its leaves would change anyway.
inline constexpr u64 entries_per_edit_max = 64;

/// Per directory: whether its tree may be rewritten.
struct ChooseDirectories : Phase {
    WARREN_HD bool fits(const Inode& at, u64 edits) const {
        const u64 entries = relaxed_load(at.entries) & ~format::entries_dying;
        const u64 tree_blocks = relaxed_load(at.blocks);
        if (edits == 0 || entries > (edits + 1) * entries_per_edit_max) return false;
        if (relaxed_load(at.height) > batch_rounds || tree_blocks > entries + b.blocks_max) {
            return false;
        }
        // Both sums are limited by the size of the arrays. A directory that does not fit leaves its
        // share counted.
        const u64 taken = entries + (tree_blocks << 32);
        const u64 before = relaxed_add(b.state->slots_taken, taken);
        const u64 after = before + taken;
        const bool has_room = (after & 0xffffffff) <= b.records_max - b.shape.operands() &&
                              after >> 32 <= b.blocks_max;
        if (!has_room && b.is_small) fail(Errc::overflow);
        return has_room;
    }

    WARREN_HD void operator()(u64 s) const {
        if (s >= b.state->directories || has_failed()) return;
        BatchDirectory& directory = b.directories[s];
        const bool is_last = s + 1 == b.state->directories;
        const u64 operands = b.shape.operands();
        const u64 after = is_last ? operands : b.directories[s + 1].begin;
        const u32 end_sum =
            after == operands ? b.sums[operands - 1] + b.flags[operands - 1] : b.sums[after];
        const u64 edits = end_sum - b.sums[directory.begin];
        if (edits == 0) return;
        LaneOperation op(ThreadTeam{}, store);
        const Result<InodeRef> inode = inode_of(op, directory.number);
        if (!inode) return;
        directory.is_chosen = fits(*inode->at, edits) ? 1 : 0;
    }
};

/// The base of phases that mark blocks as dirty ahead: many inodes share a block, and only the
/// marks tell how many blocks all items together dirty.
struct MarkAhead : Phase {
    WARREN_HD void mark(LaneOperation& op, u64 place) const {
        if (!op.mark_newly_dirty(place)) return;
        const u32 index = relaxed_add(b.state->marked, 1);
        b.marked[index] = place;
    }
};

/// Per item: marks the inode that a move will change.
struct MarkMoved : MarkAhead {
    WARREN_HD void operator()(u64 item) const {
        LaneOperation op(ThreadTeam{}, store);
        const Result<InodeRef> inode =
            inode_of(op, b.targets[2 * item] & BatchOperand::number_mask);
        if (!inode)
            return fail(inode.code() == Errc::stale ? Errc::corrupt : inode.code(),
                        op.needed_place);
        mark(op, inode->block_place());
    }
};

/// Per block that was marked ahead: clears the mark, because the changes are not made. The marks of
/// a run that has failed may be more than a commit can hold.
struct Unmark : Phase {
    WARREN_HD void operator()(u64 i) const {
        LaneOperation(ThreadTeam{}, store).clear_dirty(b.marked[i]);
    }
};

/// Per item: leaves it to a command if one of its directories is not rewritten.
struct Keep : Phase {
    WARREN_HD void operator()(u64 item) const {
        b.flags[item] = 0;
        if (has_failed() || !runs(item) || b.does[item] == 0) return;
        const u32 operands = b.shape.operands_per_item();
        for (u32 i = 0; i < operands; ++i) {
            const u32 s = b.directory_of[item * operands + i];
            if (b.directories[s].is_chosen == 0) b.does[item] = 0;
        }
        if (b.does[item] == 0) {
            b.codes[item] = Errc::retry;
            return;
        }
        for (u32 i = 0; i < operands; ++i)
            relaxed_store(b.directories[b.directory_of[item * operands + i]].is_rewritten, 1);
        if (b.shape.makes_inodes()) b.flags[item] = 1;
        if (b.shape.kind == BatchKind::move) MarkMoved{{{b, store}}}(item);
    }
};

}  // namespace warren::ops::batch

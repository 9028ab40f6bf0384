// SPDX-License-Identifier: Apache-2.0
// The first half of a rebuild: locks the directory, lists the blocks of its tree, and gathers its
// entries in arrays in the order of keys.
//
// Invariant: nothing is written to the volume, so a rebuild that finds damage ends without effect.
#pragma once

#include "fs/bulk/rebuild/directory_rebuild_party.hpp"

namespace warren::bulk {

template <class Team>
class RebuildReader : protected RebuildParty<Team> {
 protected:
    using Party = RebuildParty<Team>;
    using Party::enter_barrier;
    using Party::fail;
    using Party::first_leaf_;
    using Party::for_each;
    using Party::inode;
    using Party::inode_place;
    using Party::leaf_count_;
    using Party::meet;
    using Party::number_;
    using Party::passed;
    using Party::ref_;
    using Party::scratch_;
    using Party::state_;
    using Party::store_;
    using Party::take;
    using Party::team_;

    WARREN_HD RebuildReader(const Team& team, const core::Store& store, const RebuildRef& ref,
                            RebuildScratch& scratch)
        : Party(team, store, ref, scratch) {}

    /// Runs all phases from the locked directory to the gathered entries. False if one has failed.
    WARREN_HD bool read_tree() {
        if (tree_nodes() > few_nodes) {
            for_each(tree_nodes(), [&](u64 i) { count_children(static_cast<u32>(i)); });
            if (!passed(RebuildPhase::count)) return false;
            for_each(tree_nodes(), [&](u64 i) { place_children(static_cast<u32>(i)); });
            if (!passed(RebuildPhase::place)) return false;
        }
        choose_window();
        for_each(leaf_count_, [&](u64 i) { measure(static_cast<u32>(i)); });
        if (!passed(RebuildPhase::measure)) return false;
        if (chunk_count() > 1) {
            for_each(chunk_count(), [&](u64 i) { sum(static_cast<u32>(i)); });
            meet();
        }
        for_each(leaf_count_, [&](u64 i) { gather(static_cast<u32>(i)); });
        return passed(RebuildPhase::gather);
    }

    // ---- start: clears the state of the previous rebuild (one worker)

    WARREN_HD void start() {
        constexpr u32 begin = offsetof(RebuildState, codes);
        auto* words = reinterpret_cast<u32*>(reinterpret_cast<std::byte*>(&state_) + begin);
        for (u32 i = team_.lane(); i < (sizeof(RebuildState) - begin) / 4; i += Team::width)
            relaxed_store(words[i], 0);
        const u64 chunks = ref_.block_max / chunk_leaves + 1;
        for (u64 i = team_.lane(); i < chunks; i += Team::width)
            ref_.chunks[i] = {0, 0};
        team_.sync();
    }

    // ---- open: locks the inode and lists the nodes; of a small tree also the leaves (one worker)

    WARREN_HD void open(const core::Credentials& caller, Handle directory) {
        Errc code = ask_permission(caller, directory);
        if (code == Errc::ok) code = once(team_, [&] { return lock(directory); });
        if (code == Errc::ok) code = list_upper();
        if (code == Errc::ok) code = list_few();
        if (code != Errc::ok) once(team_, [&] { fail(RebuildPhase::open, code); });
    }

    WARREN_HD WARREN_NOINLINE Errc ask_permission(const core::Credentials& caller,
                                                  Handle directory) const {
        core::Operation<Team> op(team_, store_);
        const Result<core::InodeRef> found = core::find_directory(op, directory);
        const Errc code =
            found ? core::check_permission(op, *found, caller, core::may_write) : found.code();
        if (code == Errc::need_block) {
            once(team_, [&] {
                state_.wanted_count = 1;
                ref_.wanted[0] = op.needed_place;
            });
        }
        core::finish(op);
        return code;
    }

    /// One lane.
    WARREN_HD Errc lock(Handle directory) const {
        core::JournalCredits credits;
        WARREN_TRY(enter_barrier(credits));
        u64 version = 0;
        if (!ops::lock_by_lane(store_, {}, inode_place(), version)) return Errc::retry;
        state_.share = credits.keep();
        state_.version = version;
        state_.is_open = 1;
        format::Inode& at = inode();
        state_.generation = relaxed_load(at.generation);
        const u32 mode = relaxed_load(at.mode);
        if (state_.generation != directory.generation) return Errc::stale;
        if (!format::is_directory(mode)) return Errc::not_directory;
        // A directory that is being removed is not packed: the first key of a node may be higher
        // than that of the pair that points to it.
        const bool is_dying = (relaxed_load(at.entries) & format::entries_dying) != 0;
        state_.root_count = is_dying ? 0 : relaxed_load(at.area_count);
        state_.height = is_dying ? 0 : relaxed_load(at.height);
        const u8 kind = relaxed_load(at.area_kind);
        if (!format::can_be_root(kind, state_.root_count, state_.height)) return Errc::corrupt;
        const u64 blocks = relaxed_load(at.blocks);
        if (blocks <= ref_.block_max) return Errc::ok;
        state_.blocks_wanted = blocks;
        return Errc::need_space;
    }

    /// Sets the window of leaves to pack. All workers compute the same one, because it depends only
    /// on values that no worker changes in this run.
    WARREN_HD void choose_window() {
        const u32 all = load(team_, state_.leaf_count);
        first_leaf_ = 0;
        if (ref_.from_key != 0 && all != 0) {
            first_leaf_ = core::search_keys(team_, all, ref_.from_key,
                                            [&](u32 i) { return i == 0 ? 0 : ref_.leaf_keys[i]; });
        }
        const u32 rest = all - first_leaf_;
        leaf_count_ = rest < ref_.window_max ? rest : static_cast<u32>(ref_.window_max);
    }

    /// Copies the block addresses and keys of an array of pairs.
    WARREN_HD void copy_pairs(const format::TreePair* pairs, u32 count, u64* places,
                              u64* keys) const {
        for (u32 i = team_.lane(); i < count; i += Team::width) {
            places[i] = format::BlockPointer{relaxed_load(pairs[i].child.raw)}.offset();
            keys[i] = relaxed_load(pairs[i].key);
        }
        team_.sync();
    }
    WARREN_HD void copy_leaves(const format::TreePair* pairs, u32 count, u32 begin) const {
        copy_pairs(pairs, count, ref_.leaves + begin, ref_.leaf_keys + begin);
    }
    WARREN_HD void copy_nodes(const format::TreePair* pairs, u32 count, u32 begin) const {
        copy_pairs(pairs, count, ref_.nodes + begin, ref_.node_keys + begin);
    }

    /// Lists the nodes from the root down to those of height 1, or the leaves if the root points to
    /// them.
    WARREN_HD Errc list_upper() {
        const u32 height = state_.height;
        const u32 count = state_.root_count;
        if (count == 0) return Errc::ok;
        if (height == 1) {
            copy_leaves(inode().area.pairs, count, 0);
            once(team_, [&] { state_.leaf_count = count; });
            return Errc::ok;
        }
        copy_nodes(inode().area.pairs, count, 0);
        u32 begin = 0;
        u32 end = count;
        for (u32 below = height - 1; below > 1; --below) {
            u32 next = end;
            for (u32 i = begin; i < end; ++i) {
                const u32 children = open_node(i, below, RebuildPhase::open);
                if (children == 0) return Errc::ok;
                if (next + children > ref_.block_max) return Errc::corrupt;
                copy_nodes(core::block_at<format::TreeNode>(store_, ref_.nodes[i]).pairs, children,
                           next);
                next += children;
            }
            begin = end;
            end = next;
        }
        once(team_, [&] {
            state_.upper_count = begin;
            state_.node_count = end;
        });
        return Errc::ok;
    }

    /// Lists the leaves of a tree with few nodes, which takes less time than a phase of all
    /// workers.
    WARREN_HD Errc list_few() const {
        const u32 nodes = tree_nodes();
        if (nodes > few_nodes) return Errc::ok;
        for (u32 i = 0; i < nodes; ++i)
            count_children(i);
        u32 code = load(team_, state_.codes[static_cast<u32>(RebuildPhase::count)]);
        for (u32 i = 0; i < nodes && code == 0; ++i)
            place_children(i);
        if (code == 0) code = load(team_, state_.codes[static_cast<u32>(RebuildPhase::place)]);
        return static_cast<Errc>(code);
    }

    /// Takes node `index` and returns its number of pairs, 0 if that fails the phase.
    WARREN_HD u32 open_node(u32 index, u32 height, RebuildPhase phase) const {
        return once(team_, [&] {
            const u64 place = ref_.nodes[index];
            Errc code = take(place, format::BlockKind::directory_node);
            u32 count = 0;
            if (code == Errc::ok) {
                const format::TreeNode& node = core::block_at<format::TreeNode>(store_, place);
                count = relaxed_load(node.count);
                if (relaxed_load(node.height) != height || count == 0 ||
                    count > format::node_pairs_max ||
                    relaxed_load(node.pairs[0].key) != ref_.node_keys[index]) {
                    code = Errc::corrupt;
                }
            }
            if (code == Errc::ok) return count;
            fail(phase, code);
            return u32{0};
        });
    }

 private:
    static constexpr u32 few_nodes = 2;

    // ---- from nodes of height 1 to leaves

    /// The number of nodes of height 1.
    WARREN_HD u32 tree_nodes() const {
        return load(team_, state_.node_count) - load(team_, state_.upper_count);
    }

    WARREN_HD void count_children(u32 index) const {
        const u32 upper = load(team_, state_.upper_count);
        const u32 count = open_node(upper + index, 1, RebuildPhase::count);
        once(team_, [&] { ref_.node_sizes[index] = {count, 0}; });
    }

    WARREN_HD void place_children(u32 index) const {
        const u32 upper = load(team_, state_.upper_count);
        const u32 before = sum_of(ref_.node_sizes, index).entries;
        const u32 count = ref_.node_sizes[index].entries;
        if (before + count > ref_.block_max) {
            once(team_, [&] { fail(RebuildPhase::place, Errc::corrupt); });
            return;
        }
        copy_leaves(core::block_at<format::TreeNode>(store_, ref_.nodes[upper + index]).pairs,
                    count, before);
        const bool is_last = upper + index + 1 == load(team_, state_.node_count);
        if (is_last) once(team_, [&] { state_.leaf_count = before + count; });
    }

    /// The sum of the first `count` sizes.
    WARREN_HD LeafSize sum_of(const LeafSize* sizes, u32 count) const {
        LeafSize mine{0, 0};
        for (u32 i = team_.lane(); i < count; i += Team::width)
            mine += sizes[i];
        return sum_lanes(team_, mine).all;
    }

    // ---- from leaves to entries in order

    struct KeyRange {
        u64 begin;
        u64 end;
    };

    /// The range of keys that a leaf of the window covers.
    WARREN_HD KeyRange range_of(u32 index) const {
        const u32 at = first_leaf_ + index;
        const bool is_last = at + 1 == load(team_, state_.leaf_count);
        return {at == 0 ? 0 : ref_.leaf_keys[at], is_last ? core::key_end : ref_.leaf_keys[at + 1]};
    }

    /// Whether only one pair points to the leaf. A leaf with names needs no search: its keys cannot
    /// be in two ranges.
    WARREN_HD bool is_reached_once(u32 index, u32 entries) const {
        const KeyRange range = range_of(index);
        bool is_sound = range.begin < range.end;
        const u32 at = first_leaf_ + index;
        const u32 end = entries == 0 ? load(team_, state_.leaf_count) : 0;
        for (u32 i = team_.lane(); i < end; i += Team::width)
            is_sound = is_sound && (i == at || ref_.leaves[i] != ref_.leaves[at]);
        return team_.ballot(!is_sound) == 0;
    }

    WARREN_HD void measure(u32 index) const {
        const u64 place = ref_.leaves[first_leaf_ + index];
        const Errc code =
            once(team_, [&] { return take(place, format::BlockKind::directory_leaf); });
        LeafSize size{0, 0};
        bool is_sound = code == Errc::ok;
        if (is_sound) {
            const auto& leaf = core::block_at<format::DirectoryLeaf>(store_, place);
            for (u32 i = team_.lane(); i < format::leaf_entries_max; i += Team::width) {
                const format::DirectorySlot slot = core::read_slot(leaf, i);
                if (slot.inode() == 0) continue;
                ++size.entries;
                size.words += core::padded(slot.name_length()) / 8;
                is_sound = is_sound && slot.name_offset() % 8 == 0 &&
                           slot.name_offset() + core::padded(slot.name_length()) <=
                               format::leaf_heap_bytes;
            }
        }
        const bool is_damaged = team_.ballot(!is_sound) != 0;
        const LeafSize all = sum_lanes(team_, size).all;
        const bool is_single = is_reached_once(index, all.entries);
        once(team_, [&] {
            const bool is_possible = is_single && all.words <= format::leaf_heap_bytes / 8;
            if (is_damaged || !is_possible) {
                fail(RebuildPhase::measure, code == Errc::ok ? Errc::corrupt : code);
            }
            ref_.leaf_sizes[index] = all;
            LeafSize& chunk = ref_.chunks[index / chunk_leaves];
            relaxed_add(chunk.entries, all.entries);
            relaxed_add(chunk.words, all.words);
        });
    }

    WARREN_HD u32 chunk_count() const { return (leaf_count_ + chunk_leaves - 1) / chunk_leaves; }

    /// Replaces the sizes of a chunk's leaves by the positions where their entries begin.
    WARREN_HD void sum(u32 chunk) const {
        LeafSize before = sum_of(ref_.chunks, chunk);
        const u32 begin = chunk * chunk_leaves;
        const u32 end = begin + chunk_leaves < leaf_count_ ? begin + chunk_leaves : leaf_count_;
        for (u32 base = begin; base < end; base += Team::width) {
            const u32 mine = base + team_.lane();
            const LeafSize size = mine < end ? ref_.leaf_sizes[mine] : LeafSize{0, 0};
            LaneSums<LeafSize> sums = sum_lanes(team_, size);
            sums.before += before;
            if (mine < end) ref_.leaf_sizes[mine] = sums.before;
            before += sums.all;
        }
        if (end == leaf_count_) end_at(before);
    }

    /// Stores the number of entries and words of the window.
    WARREN_HD void end_at(LeafSize all) const {
        once(team_, [&] {
            state_.entries = all.entries;
            state_.words = all.words;
            ref_.name_at[all.entries] = all.words;
        });
    }

    /// Copies the entries of a leaf to their positions in the arrays.
    WARREN_HD void gather(u32 index) const {
        LeafSize begin = ref_.leaf_sizes[index];
        if (chunk_count() == 1) {
            // With a single chunk there was no phase that computes the sums.
            const LeafSize size = begin;
            begin = sum_of(ref_.leaf_sizes, index);
            if (index + 1 == leaf_count_) {
                end_at({begin.entries + size.entries, begin.words + size.words});
            }
        }
        core::copy_words<format::block_size / 8>(
            team_, scratch_.leaf, &core::block_at<u64>(store_, ref_.leaves[first_leaf_ + index]));
        const auto& leaf = *reinterpret_cast<const format::DirectoryLeaf*>(scratch_.leaf);
        const KeyRange range = range_of(index);
        for (u32 i = team_.lane(); i < format::leaf_entries_max; i += Team::width) {
            const format::DirectorySlot slot = leaf.slots[i];
            scratch_.words[i] = 0;
            scratch_.keys[i] = core::key_end;
            if (slot.inode() == 0) continue;
            const u64 key = format::entry_key(leaf.hashes[i], slot);
            if (key < range.begin || key >= range.end) fail(RebuildPhase::gather, Errc::corrupt);
            scratch_.keys[i] = key;
        }
        team_.sync();
        constexpr u32 rounds = (format::leaf_entries_max + Team::width - 1) / Team::width;
        u32 ranks[rounds];
        for (u32 round = 0; round < rounds; ++round) {
            const u32 i = round * Team::width + team_.lane();
            ranks[round] = i < format::leaf_entries_max ? rank_of(scratch_.keys[i]) : 0;
            if (i >= format::leaf_entries_max || scratch_.keys[i] == core::key_end) continue;
            scratch_.words[ranks[round]] = core::padded(leaf.slots[i].name_length()) / 8;
        }
        team_.sync();
        sum_words();
        for (u32 round = 0; round < rounds; ++round) {
            const u32 i = round * Team::width + team_.lane();
            if (i >= format::leaf_entries_max || scratch_.keys[i] == core::key_end) continue;
            const format::DirectorySlot slot = leaf.slots[i];
            const u32 entry = begin.entries + ranks[round];
            const u32 name = begin.words + scratch_.words[ranks[round]];
            ref_.keys[entry] = scratch_.keys[i];
            ref_.targets[entry] = slot.target;
            ref_.name_at[entry] = name;
            for (u32 w = 0; w < core::padded(slot.name_length()) / 8; ++w)
                ref_.names[name + w] = leaf.heap[slot.name_offset() / 8 + w];
        }
    }

    /// How many keys of the copied leaf are lower. Fails the phase if another one is equal. One
    /// lane.
    WARREN_HD u32 rank_of(u64 key) const {
        u32 rank = 0;
        u32 same = 0;
        for (u32 i = 0; i < format::leaf_entries_max; ++i) {
            rank += scratch_.keys[i] < key ? 1u : 0u;
            same += scratch_.keys[i] == key ? 1u : 0u;
        }
        if (same > 1 && key != core::key_end) fail(RebuildPhase::gather, Errc::corrupt);
        return rank;
    }

    /// Replaces the sizes of the names, in the order of their ranks, by their offsets. Each lane
    /// handles consecutive ranks.
    WARREN_HD void sum_words() const {
        constexpr u32 each = format::leaf_entries_max / Team::width;
        static_assert(each * Team::width == format::leaf_entries_max);
        const u32 first = team_.lane() * each;
        u32 mine = 0;
        for (u32 i = first; i < first + each; ++i)
            mine += scratch_.words[i];
        u32 before = sum_lanes(team_, mine).before;
        for (u32 i = first; i < first + each; ++i) {
            const u32 words = scratch_.words[i];
            scratch_.words[i] = before;
            before += words;
        }
        team_.sync();
    }
};

}  // namespace warren::bulk

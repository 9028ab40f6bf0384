// SPDX-License-Identifier: Apache-2.0
// Rebuilds a directory by any number of workers at once. They read its leaves, gather the entries
// in the order of keys, divide them into full leaves, and write these over the first of the old
// leaves; then they write the nodes and the root. The remaining blocks are freed. No block is
// allocated, so a full volume is no obstacle.
//
// Meanwhile the directory's inode is locked, and the versions of its tree's blocks are raised:
// threads that read or change the directory retry until the rebuild is done, and then find the same
// names under the same keys. Invariant: see directory_rebuild_work.hpp. Requires a fully resident
// store.
#pragma once

#include "fs/bulk/rebuild/directory_rebuild_reader.hpp"

namespace warren::bulk {

template <class Team>
class RebuildWorker : private RebuildReader<Team> {
    using Reader = RebuildReader<Team>;
    using Party = RebuildParty<Team>;
    using Party::entries_;
    using Party::fail;
    using Party::first_leaf_;
    using Party::for_each;
    using Party::inode;
    using Party::inode_place;
    using Party::inode_ref;
    using Party::is_first;
    using Party::leaf_count_;
    using Party::leave_barrier;
    using Party::meet;
    using Party::number_;
    using Party::passed;
    using Party::ref_;
    using Party::reserve_credits;
    using Party::state_;
    using Party::store_;
    using Party::team_;
    using Reader::open;
    using Reader::read_tree;
    using Reader::start;

 public:
    /// `team.worker` numbers the workers from 0.
    WARREN_HD RebuildWorker(const Team& team, const core::Store& store, const RebuildRef& ref,
                            RebuildScratch& scratch)
        : Reader(team, store, ref, scratch) {}

    /// Collective, like all members that do not say "one lane". All workers call it.
    WARREN_HD void run(const core::Credentials& caller, Handle directory) {
        number_ = directory.inode;
        // No worker locks the directory before all workers run: its holder waits for each of them.
        meet();
        if (is_first()) {
            start();
            open(caller, directory);
        }
        if (passed(RebuildPhase::open) && read_tree()) make_tree();
        meet();
        if (is_first()) close();
    }

 private:
    WARREN_HD void make_tree() {
        entries_ = load(team_, state_.entries);
        const u32 segments = segment_count();
        if (segments > 1) {
            for_each(segments, [&](u64 i) { cut(static_cast<u32>(i)); });
            meet();
        }
        if (is_first()) {
            if (segments == 1) cut(0);
            plan();
        }
        if (passed(RebuildPhase::plan)) write_tree();
    }

    // ---- from entries to new leaves

    WARREN_HD u32 segment_count() const {
        return (entries_ + segment_entries - 1) / segment_entries;
    }
    WARREN_HD u32 segment_end(u32 segment) const {
        const u32 end = (segment + 1) * segment_entries;
        return end < entries_ ? end : entries_;
    }

    /// Finds where the leaves of a segment begin.
    WARREN_HD void cut(u32 segment) const {
        const u32 begin = segment * segment_entries;
        const u32 end = segment_end(segment);
        u32* cuts = ref_.cuts + begin;
        const u32 full = (end - begin + ops::packed_entries - 1) / ops::packed_entries;
        bool is_too_long = false;
        for (u32 i = team_.lane(); i < full; i += Team::width) {
            const u32 from = begin + i * ops::packed_entries;
            const u32 to = from + ops::packed_entries < end ? from + ops::packed_entries : end;
            cuts[i] = from;
            is_too_long = is_too_long || ref_.name_at[to] - ref_.name_at[from] > packed_heap_words;
        }
        u32 count = full;
        if (team_.ballot(is_too_long) != 0) count = cut_by_names(begin, end, cuts);
        once(team_, [&] { ref_.segment_cuts[segment] = count; });
    }

    /// The same for long names, of which fewer fit: one leaf after the other.
    WARREN_HD u32 cut_by_names(u32 begin, u32 end, u32* cuts) const {
        u32 count = 0;
        for (u32 from = begin; from < end; ++count) {
            u32 fitting = 0;
            for (u32 base = 1; base <= ops::packed_entries; base += Team::width) {
                const u32 to = from + base + team_.lane();
                const bool fits = base + team_.lane() <= ops::packed_entries && to <= end &&
                                  ref_.name_at[to] - ref_.name_at[from] <= packed_heap_words;
                fitting += static_cast<u32>(hd::popcount(team_.ballot(fits)));
            }
            once(team_, [&] { cuts[count] = from; });
            from += fitting;
        }
        return count;
    }

    /// Plans the new tree (one worker).
    WARREN_HD void plan() {
        const u32 leaves = sum_cuts();
        once(team_, [&] {
            state_.new_leaves = leaves;
            plan_nodes(state_.leaf_count - leaf_count_ + leaves);
            state_.is_changed = leaves < leaf_count_ ? 1 : 0;
            state_.next_key = next_window();
            // The leaves are as full as they may be, but nodes could be merged: left to commands.
            const bool is_loose = is_last_window() && state_.new_nodes < state_.node_count;
            Errc code = Errc::ok;
            if (state_.is_changed == 0 && is_loose) code = Errc::not_supported;
            if (code == Errc::ok) code = reserve_credits(planned_blocks());
            if (code != Errc::ok) fail(RebuildPhase::plan, code);
        });
    }

    WARREN_HD bool is_last_window() const { return first_leaf_ + leaf_count_ == state_.leaf_count; }

    /// The key at which the next window begins: that of the last leaf of this window, if that has
    /// free space. One lane.
    WARREN_HD u64 next_window() const {
        const u32 behind = first_leaf_ + leaf_count_;
        if (is_last_window()) return core::key_end;
        if (state_.new_leaves == 0) return ref_.leaf_keys[behind];
        if (state_.is_changed == 0) return ref_.leaf_keys[behind - 1];
        return new_leaf_key(state_.new_leaves - 1);
    }

    /// Replaces the segments' numbers of leaves by the number of leaves before each. Returns the
    /// total.
    WARREN_HD u32 sum_cuts() const {
        const u32 segments = segment_count();
        u32 before = 0;
        for (u32 base = 0; base < segments; base += Team::width) {
            const u32 mine = base + team_.lane();
            const u32 count = mine < segments ? ref_.segment_cuts[mine] : 0;
            const LaneSums<u32> sums = sum_lanes(team_, count);
            if (mine < segments) ref_.segment_cuts[mine] = before + sums.before;
            before += sums.all;
        }
        team_.sync();
        return before;
    }

    /// The maximum number of blocks that writing the new tree dirties: the tree itself, the inode,
    /// and the blocks of the frame table that record the freed blocks. One lane.
    WARREN_HD u64 planned_blocks() const {
        if (state_.is_changed == 0) return 1;
        const u64 gone =
            u64{leaf_count_} + state_.node_count - state_.new_leaves - state_.new_nodes;
        const u64 tables =
            relaxed_load(store_.state->metadata_frames_end) / format::frames_per_table_block + 1;
        return u64{state_.new_leaves} + state_.new_nodes + 1 + (gone < tables ? gone : tables);
    }

    /// One lane.
    WARREN_HD void plan_nodes(u32 leaves) const {
        u32 level = 0;
        u32 nodes = 0;
        state_.level_nodes[0] = leaves;
        for (u32 count = leaves; count > format::root_pairs_max;) {
            count = (count + format::node_pairs_max - 1) / format::node_pairs_max;
            ++level;
            state_.level_nodes[level] = count;
            state_.level_begin[level] = nodes;
            nodes += count;
        }
        state_.levels = level;
        state_.new_nodes = nodes;
    }

    // ---- writing the new tree

    WARREN_HD void write_tree() {
        if (load(team_, state_.is_changed) == 0) return;
        core::fence_release();  // pairs with fence_acquire() of readers that came before
        const u32 new_leaves = load(team_, state_.new_leaves);
        const u32 new_nodes = load(team_, state_.new_nodes);
        const u32 old_nodes = load(team_, state_.node_count);
        const u32 gone_leaves = leaf_count_ - new_leaves;
        const u64 all = u64{new_leaves} + new_nodes + gone_leaves + (old_nodes - new_nodes);
        for_each(all, [&](u64 task) {
            u32 i = static_cast<u32>(task);
            if (i < new_leaves) return write_leaf(i);
            i -= new_leaves;
            if (i < new_nodes) return write_node(i);
            i -= new_nodes;
            free_block(i < gone_leaves ? ref_.leaves[first_leaf_ + new_leaves + i]
                                       : ref_.nodes[new_nodes + i - gone_leaves]);
        });
        if (is_first()) write_root();
    }

    WARREN_HD WARREN_NOINLINE void mark_dirty(u64 place) const {
        core::Operation<Team> op(team_, store_);
        op.mark_dirty(place);
    }
    WARREN_HD WARREN_NOINLINE void free_block(u64 place) const {
        core::Operation<Team> op(team_, store_);
        core::free_metadata(op, place);
    }

    /// The segment of new leaf `leaf`.
    WARREN_HD u32 segment_of(u32 leaf) const {
        return core::search_keys(team_, segment_count(), leaf,
                                 [&](u32 i) { return u64{ref_.segment_cuts[i]}; });
    }
    /// The first entry of a new leaf. One lane.
    WARREN_HD u32 first_entry(u32 segment, u32 leaf) const {
        return ref_.cuts[segment * segment_entries + leaf - ref_.segment_cuts[segment]];
    }

    WARREN_HD void write_leaf(u32 index) const {
        const u32 segment = segment_of(index);
        const u32 first = first_entry(segment, index);
        const bool is_last =
            index + 1 == state_.new_leaves ||
            (segment + 1 < segment_count() && index + 1 == ref_.segment_cuts[segment + 1]);
        const u32 end = is_last ? segment_end(segment) : first_entry(segment, index + 1);
        const u32 names = ref_.name_at[first];
        const u32 words = ref_.name_at[end] - names;
        const u64 place = ref_.leaves[first_leaf_ + index];
        auto& leaf = core::block_at<format::DirectoryLeaf>(store_, place);
        for (u32 i = team_.lane(); i < format::leaf_entries_max; i += Team::width) {
            const u32 entry = first + i;
            const bool is_here = entry < end;
            const u64 key = is_here ? ref_.keys[entry] : 0;
            const u32 offset = is_here ? (ref_.name_at[entry] - names) * 8 : 0;
            core::write_slot(leaf, i, is_here ? ref_.targets[entry] : 0, key, offset);
        }
        write_names(leaf, names, words);
        once(team_, [&] {
            relaxed_store(leaf.count, end - first);
            relaxed_store(leaf.heap_used, words * 8);
            relaxed_store(leaf.heap_live, words * 8);
        });
        mark_dirty(place);
    }

    /// Writes `words` words of names, from word `names` on, to the heap of a leaf, and zeros behind
    /// them. The loads of a batch overlap.
    WARREN_HD void write_names(format::DirectoryLeaf& leaf, u32 names, u32 words) const {
        constexpr u32 all = format::leaf_heap_bytes / 8;
        constexpr u32 batch = 9;
        for (u32 begin = 0; begin < all; begin += batch * Team::width) {
            u64 held[batch];
            for (u32 i = 0; i < batch; ++i) {
                const u32 at = begin + i * Team::width + team_.lane();
                held[i] = at < words ? ref_.names[names + at] : 0;
            }
            for (u32 i = 0; i < batch; ++i) {
                const u32 at = begin + i * Team::width + team_.lane();
                if (at < all) relaxed_store(leaf.heap[at], held[i]);
            }
        }
    }

    /// The first child of node `index` of a level. The nodes of a level are equally full.
    WARREN_HD u32 first_child(u32 level, u32 index) const {
        if (index == 0) return 0;  // avoids a division: most trees have one node a level
        return static_cast<u32>(u64{index} * state_.level_nodes[level - 1] /
                                state_.level_nodes[level]);
    }

    /// The lowest key of a new leaf of the window. The first leaf keeps the key of the leaf that
    /// was there. One lane.
    WARREN_HD u64 new_leaf_key(u32 leaf) const {
        if (leaf == 0) return ref_.leaf_keys[first_leaf_];
        u32 low = 0;
        u32 end = segment_count();
        while (end - low > 1) {
            const u32 middle = (low + end) / 2;
            (ref_.segment_cuts[middle] <= leaf ? low : end) = middle;
        }
        return ref_.keys[first_entry(low, leaf)];
    }

    /// The index in the old tree of leaf `leaf` of the new tree: leaves after the window stay as
    /// they are.
    WARREN_HD u32 old_leaf(u32 leaf) const {
        const bool is_behind = leaf >= first_leaf_ + state_.new_leaves;
        return is_behind ? leaf - state_.new_leaves + leaf_count_ : leaf;
    }

    /// The pair that points to child `index` of the level below `level`. One lane.
    WARREN_HD format::TreePair pair_to(u32 level, u32 index) const {
        u32 leaf = index;
        for (u32 below = level - 1; below > 0; --below)
            leaf = first_child(below, leaf);
        const bool is_new = leaf >= first_leaf_ && leaf < first_leaf_ + state_.new_leaves;
        u64 key = 0;
        if (leaf != 0)
            key = is_new ? new_leaf_key(leaf - first_leaf_) : ref_.leaf_keys[old_leaf(leaf)];
        const bool is_node = level > 1;
        const u64 place = is_node ? ref_.nodes[state_.level_begin[level - 1] + index]
                                  : ref_.leaves[old_leaf(index)];
        return {key, format::BlockPointer::to(place, is_node)};
    }

    WARREN_HD void write_pairs(format::TreePair* pairs, u32 level, u32 begin, u32 end) const {
        for (u32 i = begin + team_.lane(); i < end; i += Team::width) {
            const format::TreePair pair = pair_to(level, i);
            core::store_pair(pairs[i - begin], pair.key, pair.child);
        }
        team_.sync();
    }

    WARREN_HD void write_node(u32 index) const {
        u32 level = state_.levels;
        while (state_.level_begin[level] > index)
            --level;
        const u32 in_level = index - state_.level_begin[level];
        const u32 begin = first_child(level, in_level);
        const u32 end = in_level + 1 == state_.level_nodes[level]
                            ? state_.level_nodes[level - 1]
                            : first_child(level, in_level + 1);
        const u64 place = ref_.nodes[index];
        format::TreeNode& node = core::block_at<format::TreeNode>(store_, place);
        write_pairs(node.pairs, level, begin, end);
        once(team_, [&] {
            relaxed_store(node.count, end - begin);
            relaxed_store(node.height, level);
        });
        mark_dirty(place);
    }

    WARREN_HD void write_root() const {
        const u32 levels = load(team_, state_.levels);
        const u32 count = load(team_, state_.level_nodes[levels]);
        format::Inode& at = inode();
        write_pairs(at.area.pairs, levels + 1, 0, count);
        const i64 gone =
            i64{leaf_count_} - state_.new_leaves + state_.node_count - state_.new_nodes;
        once(team_, [&] {
            relaxed_store(at.area_count, static_cast<u16>(count));
            relaxed_store(at.height, static_cast<u8>(count == 0 ? 0 : levels + 1));
        });
        count_blocks(gone);
        mark_dirty(inode_place() / format::block_size * format::block_size);
    }

    WARREN_HD WARREN_NOINLINE void count_blocks(i64 gone) const {
        core::Operation<Team> op(team_, store_);
        core::count_tree_blocks(op, inode_ref(), core::directory_tree, -gone);
    }

    // ---- close (one worker)

    WARREN_HD void close() const {
        once(team_, [&] {
            if (state_.is_open != 0) let_go();
            *ref_.report = state_;
        });
    }

    /// One lane.
    WARREN_HD void let_go() const {
        ops::unlock_by_lane(store_, {}, inode_place(), state_.version, 2);
        leave_barrier();
        state_.is_open = 0;
    }
};

}  // namespace warren::bulk

// SPDX-License-Identifier: Apache-2.0
// Bulk reclaim of a tree that is being removed: each task is a directory, a node of its tree, or a
// few leaves; each lane of the team frees the inode of one entry.
//
// A directory is claimed first: it loses its root under its lock. Then no other operation finds its
// leaves, so no lock is held while their entries are freed. Invariant: at the end of a step, a
// claimed directory is either freed, or has the leaves and names back that could not be freed.
// Requires a fully resident store. The tree of a claimed directory holds the state of the work:
// pairs of freed blocks have no child, and counts of unfinished parts are in fields that no reader
// uses.
#pragma once

#include "fs/bulk/remove_tree/claimed_root.hpp"
#include "fs/bulk/tree_task.hpp"

namespace warren::ops {

/// The work of one team. `Step` is shared by all teams of a step:
///   LaneRules rules;
///   bool is_full(team)                    whether to begin no further directory; collective
///   bool is_listed(number, in)            whether directory `number`, an entry of directory `in`,
///                                         has its task already and is not pushed; one lane
///   bool push(team, bool mine, TreeTask)  each lane may add a task; false if there is no room
///   void set_aside(TreeTask, bool)        a directory that outlives the step, and whether only
///                                         names of files that need operations of their own remain
///                                         in it; one lane
///   void freed(TreeTask)                  a directory that was freed; one lane
///   void emptied(TreeTask)                a directory with rooted_mark that is empty. It is freed
///                                         together with its entry in the orphan directory, which
///                                         must not name a reused inode number; one lane
///   bool want(place)                      requests a block that may not be in memory; whether it
///                                         is in memory now; one lane
///   void fail(Errc), void pause()         one lane
///   const Store& near(const Store&)       the same store; tells the compiler that it is in shared
///                                         memory, if it is
template <class Team, class Step>
class TreeReclaimer {
 public:
    WARREN_HD TreeReclaimer(const Team& team, const Store& store, Step& step)
        : team_(team), store_(store), step_(step) {}

    FreeTally tally;  // of this lane

    /// Leaves of one range task: few for warps, which need many tasks; more for threads, for which
    /// queue operations are expensive.
    static constexpr u32 range_leaves = Team::width == 1 ? 16 : 1;

    /// Executes one task. Collective, like all members that do not say "one lane".
    WARREN_HD void visit(const TreeTask& task) {
        switch (task.kind()) {
            case TreeTask::directory_kind:
                return visit_directory(task);
            case TreeTask::range_kind:
                return visit_range(task);
            default:
                return visit_node(task);
        }
    }

 private:
    /// The pairs of a claimed directory's root (place 0) or of a node of its tree.
    struct Array {
        TreePair* pairs;
        u32 count;
    };

    WARREN_HD Inode& inode_at(u64 number) const {
        return block_at<Inode>(store_, number * format::inode_size);
    }
    WARREN_HD TreeNode& node_at(u64 place) const { return block_at<TreeNode>(store_, place); }
    WARREN_HD InodeRef ref_of(u64 number) const { return core::inode_at(store_, number); }
    WARREN_HD LaneOperation lane_operation() const { return {ThreadTeam{team_.worker}, store_}; }

    /// Sets the parent of a claimed directory. One lane.
    WARREN_HD void set_parent(u64 number, u64 parent) const {
        relaxed_store(inode_at(number).parent, parent);
        note_changed(store_, ref_of(number).block_place());
    }

    /// Adds result bits to the state of a claimed directory. One lane.
    WARREN_HD void note(u64 number, u32 bits) const {
        device_atomic<u32>(inode_at(number).device).fetch_or(bits, hd::memory_order_relaxed);
    }

    WARREN_HD Array array_at(u64 number, u64 place) const {
        Inode& inode = inode_at(number);
        if (place == 0) return {inode.area.pairs, ClaimedRoot{load(team_, inode.device)}.count()};
        TreeNode& node = node_at(place);
        return {node.pairs, load(team_, node.count)};
    }

    WARREN_HD void visit_directory(const TreeTask& task) {
        const u64 number = task.number();
        marks_ = task.marks();
        if (is_full()) {
            once(team_, [&] { step_.set_aside(task, false); });
            return;
        }
        const Claim root =
            once(team_, [&] { return claim_directory<range_leaves>(store_, step_, number); });
        if (root.code != Errc::ok) {
            once(team_, [&] {
                if (root.code != Errc::need_block) step_.fail(root.code);
                step_.set_aside(task, false);
            });
            return;
        }
        if (root.count == 0) return end_directory(task, {});
        spread(number, 0, root.count, root.height);
    }

    /// Makes tasks of the children of an array that is `height` levels above the entries. A single
    /// node is processed at once, because there is nothing to do in parallel.
    WARREN_HD void spread(u64 number, u64 place, u32 count, u32 height) {
        for (; height > 1 && count == 1; --height) {
            const Array array = array_at(number, place);
            const u64 child = BlockPointer{load(team_, array.pairs[0].child.raw)}.offset();
            const TreeTask node = TreeTask::node(number, height - 1, child, place, 0);
            count = open_or_finish(node);
            if (count == 0) return;
            place = node.place();
        }
        if (height == 1) {
            spread_ranges(number, place, count);
        } else {
            spread_nodes(number, place, count, height - 1);
        }
    }

    /// Makes tasks of the leaves below an array. A thread empties the first range at once. A warp
    /// does so only if it is the only range: ranges that are never begun need no journal credits
    /// when the step ends.
    WARREN_HD void spread_ranges(u64 number, u64 place, u32 count) {
        const bool begins = Team::width == 1 || count <= range_leaves;
        const u32 first = begins ? range_leaves : 0;
        for (u32 base = first; base < count; base += range_leaves * Team::width) {
            const u32 begin = base + team_.lane() * range_leaves;
            const bool mine = begin < count;
            const TreeTask task = mark(TreeTask::range(number, place, begin));
            const bool pushed = step_.push(team_, mine, task);
            // Ranges for which the queue has no room are emptied at once.
            for (u32 left = team_.ballot(mine && !pushed); left != 0; left &= left - 1) {
                const u32 lane = static_cast<u32>(hd::countr_zero(left));
                empty_range(number, place, base + lane * range_leaves);
            }
        }
        if (begins) empty_range(number, place, 0);
    }

    /// Makes tasks of the nodes below an array.
    WARREN_HD void spread_nodes(u64 number, u64 place, u32 count, u32 height) {
        const Array above = array_at(number, place);
        for (u32 base = 0; base < count; base += Team::width) {
            const u32 index = base + team_.lane();
            const bool mine = index < count;
            const u64 child =
                mine ? BlockPointer{relaxed_load(above.pairs[index].child.raw)}.offset() : 0;
            const TreeTask task = mark(TreeTask::node(number, height, child, place, index));
            const bool pushed = step_.push(team_, mine, task);
            for (u32 left = team_.ballot(mine && !pushed); left != 0; left &= left - 1) {
                // The node stays as it is, for the next step.
                once(team_, [&] { note(number, ClaimedRoot::waiting_bit); });
                finish_part(number, place);
            }
        }
    }

    /// Tasks for ranges and nodes carry the marks of their directory.
    WARREN_HD TreeTask mark(TreeTask task) const {
        task.subject |= marks_;
        return task;
    }

    WARREN_HD bool is_full() const {
        return (marks_ & TreeTask::must_mark) == 0 && step_.is_full(team_);
    }

    WARREN_HD void visit_range(const TreeTask& task) {
        marks_ = task.marks();
        empty_range(task.number(), task.place(), task.index());
    }

    WARREN_HD void visit_node(const TreeTask& task) {
        marks_ = task.marks();
        const u32 count = open_or_finish(task);
        if (count != 0) spread(task.number(), task.place(), count, task.kind());
    }

    /// The number of pairs of the node of `task`. If the node is left to the next step, finishes
    /// this part of the array above and returns 0.
    WARREN_HD u32 open_or_finish(const TreeTask& task) {
        const u64 number = task.number();
        const u32 count = once(team_, [&] { return open_node(number, task); });
        if (count != 0) return count;
        once(team_, [&] { note(number, ClaimedRoot::waiting_bit); });
        finish_part(number, task.above());
        return 0;
    }

    /// Whether a block of the claimed directory `number` is in memory and is what it should be. If
    /// so, no other operation can change it any more. One lane.
    WARREN_HD bool open_block(u64 number, u64 place, BlockKind kind) const {
        if (place % format::block_size != 0 || place >= store_.size_bytes) {
            step_.fail(Errc::corrupt);
            return false;
        }
        if (!are_resident(store_, place, place) && !bring(step_, place, place)) return false;
        retire_by_lane(store_, step_.rules, place, [&] { step_.pause(); });
        const auto& header = block_at<format::BlockHeader>(store_, place);
        const bool sound =
            is_own_block(header, {kind, relaxed_load(inode_at(number).generation), number});
        if (!sound) step_.fail(Errc::corrupt);
        return sound;
    }

    /// The number of pairs of the node of `task`, 0 if it cannot be processed now. One lane.
    WARREN_HD u32 open_node(u64 number, const TreeTask& task) const {
        const u64 place = task.place();
        if (!open_block(number, place, BlockKind::directory_node)) return 0;
        TreeNode& node = node_at(place);
        const u32 count = relaxed_load(node.count);
        const u32 height = task.kind();
        if (relaxed_load(node.height) != height || count == 0 || count > format::node_pairs_max) {
            step_.fail(Errc::corrupt);
            return 0;
        }
        const u32 ranges = (count + range_leaves - 1) / range_leaves;
        relaxed_store(node.header.crc, height == 1 ? ranges : count);
        relaxed_store(node.header.transaction, task.above() | task.index());
        return count;
    }

    /// Not inlined: when a warp first calls it, the code is often in the instruction cache already.
    WARREN_HD WARREN_NOINLINE void empty_range(u64 number, u64 place, u32 begin) {
        const Array array = array_at(number, place);
        for (u32 i = begin; i < array.count && i < begin + range_leaves; ++i) {
            if (is_full()) {
                once(team_, [&] { note(number, ClaimedRoot::waiting_bit); });
                break;
            }
            const u64 leaf = BlockPointer{load(team_, array.pairs[i].child.raw)}.offset();
            if (!empty_leaf(number, leaf)) continue;
            once(team_, [&] { relaxed_store(array.pairs[i].child.raw, 0); });
        }
        finish_part(number, place);
    }

    /// Frees the inodes of a leaf's entries, and the leaf. False if the leaf remains.
    WARREN_HD bool empty_leaf(u64 number, u64 place) {
        const bool opened =
            once(team_, [&] { return open_block(number, place, BlockKind::directory_leaf); });
        if (!opened) {
            once(team_, [&] { note(number, ClaimedRoot::waiting_bit); });
            return false;
        }
        auto& leaf = block_at<DirectoryLeaf>(store_, place);
        constexpr u32 rounds = format::leaf_entries_max / Team::width;
        u32 gone_here[(rounds + 31) / 32] = {};  // of this lane, one bit per round
        u32 gone = 0;
        u32 leftover = 0;
        u32 waiting = 0;
        const auto target_of = [&](u32 round) {
            return relaxed_load(leaf.slots[round * Team::width + team_.lane()].target);
        };
        // A team of many lanes loads the next entries while it frees these.
        u64 next = Team::width > 1 ? target_of(0) : 0;
#if defined(__CUDA_ARCH__)
        // If unrolled, the code of each round would have to be fetched.
#pragma unroll 1
#endif
        for (u32 round = 0; round < rounds; ++round) {
            const DirectorySlot entry{Team::width > 1 ? next : target_of(round), 0};
            if (Team::width > 1 && round + 1 < rounds) next = target_of(round + 1);
            if (team_.ballot(entry.inode() != 0) == 0) continue;
            const LaneFate fate = free_entries(number, entry);
            const bool went = fate == LaneFate::gone;
            if (went) gone_here[round / 32] |= u32{1} << round % 32;
            gone += static_cast<u32>(hd::popcount(team_.ballot(went)));
            const bool stays = !went && fate != LaneFate::none;
            leftover |= team_.ballot(fate == LaneFate::keeps);
            waiting |= team_.ballot(stays && fate != LaneFate::keeps);
        }
        const bool is_kept = (leftover | waiting) != 0;
        once(team_, [&] {
            const u32 bits = (gone > 0 || !is_kept ? ClaimedRoot::changed_bit : 0) |
                             (leftover != 0 ? ClaimedRoot::leftover_bit : 0) |
                             (waiting != 0 ? ClaimedRoot::waiting_bit : 0);
            if (bits != 0) note(number, bits);
            if (gone == 0) return;
            device_atomic<u64>(inode_at(number).entries).fetch_sub(gone, hd::memory_order_relaxed);
        });
        if (is_kept) {
            if (gone > 0) keep_leaf(leaf, place, gone_here);
            return false;
        }
        free_own_block(number, place);
        return true;
    }

    /// Each lane frees the inode of its entry; directories are pushed to the queue. Never `busy`
    /// or `shares`.
    WARREN_HD LaneFate free_entries(u64 in, const DirectorySlot& entry) {
        const u64 number = entry.inode();
        const bool is_directory = entry.type() == format::directory_entry;
        LaneFate fate = LaneFate::none;
        if (number != 0 && is_directory && step_.is_listed(number, in)) {
            fate = LaneFate::gone;
        } else if (number != 0) {
            fate = free_entry(number, is_directory);
        }
        while (team_.ballot(fate == LaneFate::busy || fate == LaneFate::shares) != 0) {
            if (fate == LaneFate::shares) {
                fate = free_sharing_entry(number);
            } else if (fate == LaneFate::busy) {
                step_.pause();
                fate = free_entry(number, is_directory);
            }
        }
        const bool descends = fate == LaneFate::descends;
        if (team_.ballot(descends) == 0) return fate;
        // The inode number of `in` may soon be reused by another directory, even one below this
        // one: clear the parent.
        if (descends) set_parent(number, 0);
        const bool pushed = step_.push(team_, descends, TreeTask::directory(number));
        if (!descends) return fate;
        if (!pushed) set_parent(number, in);
        return pushed ? LaneFate::gone : LaneFate::waits;
    }

    /// One lane.
    WARREN_HD WARREN_NOINLINE LaneFate free_entry(u64 number, bool is_directory) {
        LaneFate fate = LaneFate::absent;
        const Store& store = step_.near(store_);
        do {
            fate = free_by_lane(store, number, is_directory, step_.rules, tally);
        } while (fate == LaneFate::absent &&
                 bring(step_, ref_of(number).block_place(), inode_bit(number).bitmap_place));
        if (fate == LaneFate::damaged) step_.fail(Errc::corrupt);
        return fate;
    }

    /// One lane. Apart from free_entry(), which nearly all files need: its code stays short.
    WARREN_HD WARREN_NOINLINE LaneFate free_sharing_entry(u64 number) {
        LaneFate fate = LaneFate::absent;
        const Store& store = step_.near(store_);
        u64 needed = 0;
        do {
            fate = free_sharing_by_lane(store, number, step_.rules, tally, needed);
        } while (fate == LaneFate::absent && bring(step_, needed, needed));
        return fate;
    }

    /// Erases the freed entries from a leaf that remains.
    template <u32 words>
    WARREN_HD WARREN_NOINLINE void keep_leaf(DirectoryLeaf& leaf, u64 place,
                                             const u32 (&gone_here)[words]) {
        for (u32 round = 0; round * Team::width < format::leaf_entries_max; ++round) {
            if ((gone_here[round / 32] >> round % 32 & 1) == 0) continue;
            clear_slot(leaf, round * Team::width + team_.lane());
        }
        team_.sync();
        once(team_, [&] {
            u32 count = 0;
            u32 live = 0;
            for (u32 slot = 0; slot < format::leaf_entries_max; ++slot) {
                const DirectorySlot entry = read_slot(leaf, slot);
                if (entry.inode() == 0) continue;
                ++count;
                live += padded(entry.name_length());
            }
            relaxed_store(leaf.count, count);
            relaxed_store(leaf.heap_live, live);
            LaneOperation op = lane_operation();
            op.mark_dirty(place);
        });
    }

    /// Frees a block of the tree of the claimed directory `number`.
    WARREN_HD void free_own_block(u64 number, u64 place) {
        once(team_, [&] {
            LaneOperation op = lane_operation();
            free_block(op, place, tally);
            Inode& at = inode_at(number);
            device_atomic<u64>(at.blocks).fetch_sub(1, hd::memory_order_relaxed);
            device_atomic<u64>(at.size).fetch_sub(format::block_size, hd::memory_order_relaxed);
        });
    }

    /// Finishes one part of the array at `place`. The worker that finishes the last part ends the
    /// array, which is a part of the array above.
    WARREN_HD void finish_part(u64 number, u64 place) {
        for (;;) {
            team_.sync();
            const bool is_last = once(team_, [&] {
                u32& unfinished = place == 0 ? inode_at(number).device : node_at(place).header.crc;
                const u32 one = place == 0 ? ClaimedRoot::one_part : 1;
                // Acquire and release: the worker of the last part sees what all others did.
                const u32 before =
                    device_atomic<u32>(unfinished).fetch_sub(one, hd::memory_order_acq_rel);
                return before / one == 1;
            });
            if (!is_last) return;
            if (place == 0) {
                const ClaimedRoot root{load(team_, inode_at(number).device)};
                return end_directory(mark(TreeTask::directory(number)), root);
            }
            place = end_node(number, place);
        }
    }

    /// Frees a node without children, or compacts it. Returns the address of the node above.
    WARREN_HD u64 end_node(u64 number, u64 place) {
        TreeNode& node = node_at(place);
        const u64 up = load(team_, node.header.transaction);
        const u64 above = up / format::block_size * format::block_size;
        const u32 index = static_cast<u32>(up % format::block_size);
        const u32 count = load(team_, node.count);
        const bool has_kept = ClaimedRoot{load(team_, inode_at(number).device)}.keeps_some();
        const u32 kept = once(team_, [&] {
            const u32 left = has_kept ? compact_pairs(node.pairs, count) : 0;
            LaneOperation op = lane_operation();
            if (left == 0) {
                TreePair* pairs = above == 0 ? inode_at(number).area.pairs : node_at(above).pairs;
                relaxed_store(pairs[index].child.raw, 0);
            } else if (left < count) {
                relaxed_store(node.count, left);
                op.mark_dirty(place);
            }
            return left;
        });
        if (kept == 0) free_own_block(number, place);
        return above;
    }

    /// Frees a claimed directory whose parts are finished, or restores it with what is left. `root`
    /// is its state when claimed, with the results.
    WARREN_HD void end_directory(const TreeTask& task, ClaimedRoot root) {
        const u64 number = task.number();
        once(team_, [&] {
            const u32 count = root.count();
            const u32 kept =
                root.keeps_some() ? compact_pairs(inode_at(number).area.pairs, count) : 0;
            if (kept == 0 && task.is_rooted()) {
                if (count != 0) restore_directory(store_, step_, number, root, 0);
                return step_.emptied(task);
            }
            LaneFate fate = LaneFate::keeps;
            if (kept == 0) {
                do {
                    fate = free_entry(number, true);
                    if (fate == LaneFate::busy) step_.pause();
                } while (fate == LaneFate::busy);
            }
            if (fate == LaneFate::gone) return step_.freed(task);
            if (count != 0) restore_directory(store_, step_, number, root, kept);
            step_.set_aside(task, root.has_leftovers_only());
        });
    }

    const Team team_;
    const Store& store_;
    Step& step_;
    u64 marks_ = 0;  // of the current directory
};

}  // namespace warren::ops

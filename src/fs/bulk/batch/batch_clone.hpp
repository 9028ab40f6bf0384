// SPDX-License-Identifier: Apache-2.0
// The phases of clones in a batch: copies of inodes, whose contents share their blocks.
//
// Invariant: from ClaimShared until StartCounts or UnclaimShared, the frame table has the mark
// `counts_claimed` for frames that get counts. Only ClaimShared reads these meanwhile.
#pragma once

#include "fs/bulk/batch/batch_write.hpp"
#include "fs/ops/clone.hpp"

namespace warren::ops::batch {

/// Stands for the pointer to counts that a run will add.
inline constexpr u64 counts_claimed = ~u64{0};

/// Per item of clones: as Decide.
struct DecideClones : Decide {
    /// Whether a batch can copy the source as ops::clone() does.
    WARREN_HD Errc copying(u64 item) const {
        LaneOperation op(ThreadTeam{}, store);
        op.is_alone = true;
        const Result<InodeRef> source = inode_of(op, b.sources[item].inode);
        if (!is_answer(op, source.code())) return Errc::retry;
        if (!source || source->generation != b.sources[item].generation) return Errc::stale;
        CopyPlan copy;
        const Errc planned = plan_copy(op, *source, copy);
        if (!is_answer(op, planned)) return Errc::retry;
        WARREN_TRY(planned);
        const Errc allowed = may_copy(op, b.header.caller, *source, copy.old);
        if (!is_answer(op, allowed)) return Errc::retry;
        WARREN_TRY(allowed);
        if (copy.lacks_contents || copy.lacks_attributes || copy.lacks_target) return Errc::retry;
        return copy.contents.has_extent() ? sharing(op, copy.contents.from) : Errc::ok;
    }

    /// Whether the blocks can get as many references as a batch may add.
    WARREN_HD Errc sharing(LaneOperation& op, const Spot& spot) const {
        const u64 end = spot.place + spot.blocks * format::block_size;
        const u64 frames = (end - 1) / format::frame_size - spot.place / format::frame_size + 1;
        if (frames > cloned_frames_max) return Errc::retry;
        Errc code = Errc::ok;
        for_each_frame_part(spot.place, spot.blocks, [&](u64 frame, u32 first, u32 count) {
            if (code != Errc::ok) return;
            const Result<format::ReferenceBlock*> counts = find_counts(op, frame);
            code = counts.code();
            if (!is_answer(op, code) || !counts || *counts == nullptr) return;
            for (u32 i = first; i < first + count; ++i) {
                if (load_extra(**counts, i) > references_max - batch_items_max) code = Errc::retry;
            }
        });
        return code;
    }

    WARREN_HD Errc cloning(u64 item) const {
        WARREN_TRY(copying(item));
        WARREN_TRY(b.operand_codes[item]);
        if (b.targets[item] != 0) return Errc::exists;
        return b.directories[b.directory_of[item]].is_dying != 0 ? Errc::no_entry : Errc::ok;
    }

    WARREN_HD void operator()(u64 item) const {
        if (decides(item)) note(item, cloning(item));
    }
};

/// The source of `item`. Requires: DecideClones has accepted it.
WARREN_HD inline InodeRef source_of(LaneOperation& op, const Batch& b, u64 item) {
    op.is_alone = true;
    return *inode_of(op, b.sources[item].inode);
}

/// Per item: marks the blocks that get references or the flag extent_shared, and lists the frames
/// that need counts.
struct ClaimShared : MarkAhead {
    WARREN_HD void claim(LaneOperation& op, u64 frame) const {
        device_atomic<u64> references(store.frame(frame).references);
        u64 seen = references.load(hd::memory_order_relaxed);
        if (seen == 0 &&
            references.compare_exchange_strong(seen, counts_claimed, hd::memory_order_relaxed)) {
            const u32 index = relaxed_add(b.state->fresh_counts, 1);
            b.fresh_counts[index] = static_cast<u32>(frame);
            return;
        }
        if (seen != counts_claimed) mark(op, BlockPointer{seen}.offset());
    }

    WARREN_HD void operator()(u64 item) const {
        if (has_failed() || !runs(item) || b.does[item] == 0) return;
        LaneOperation op(ThreadTeam{}, store);
        const InodeRef source = source_of(op, b, item);
        CopyPlan copy;
        const Errc planned = plan_copy(op, source, copy);
        if (planned != Errc::ok) return fail(Errc::corrupt);
        if (!copy.contents.has_extent()) return;
        const Spot& spot = copy.contents.from;
        if (!spot.is_shared) mark(op, source.block_place());
        for_each_frame_part(spot.place, spot.blocks,
                            [&](u64 frame, u32, u32) { claim(op, frame); });
    }
};

/// Per claimed frame: takes the mark back, because the clones are not made.
struct UnclaimShared : Phase {
    WARREN_HD void operator()(u64 i) const {
        relaxed_store(store.frame(b.fresh_counts[i]).references, 0);
    }
};

/// Once: adds the blocks of counts to the new blocks.
struct DealCounts : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        b.state->counts_begin = b.state->new_blocks;
        b.state->new_blocks += b.state->fresh_counts;
    }
};

/// Per claimed frame: adds its counts, which are 0. Their block is clear, in use and dirty.
struct StartCounts : Phase {
    WARREN_HD void operator()(u64 i) const {
        const u64 frame = b.fresh_counts[i];
        const u64 place = b.places[b.state->counts_begin + i];
        auto& counts = block_at<format::ReferenceBlock>(store, place);
        start_header(counts.header, counts_identity(frame));
        relaxed_store(store.frame(frame).references, BlockPointer::to(place).raw);
        LaneOperation op(ThreadTeam{}, store);
        op.mark_dirty(store.table_place(frame));
    }
};

/// Per item: writes its new inode, the copy of its source, and adds references to the blocks.
struct CopyInodes : WriteInodes {
    WARREN_HD void operator()(u64 item) const {
        if (!runs(item) || b.does[item] == 0) return;
        LaneOperation op(ThreadTeam{}, store);
        const InodeRef source = source_of(op, b, item);
        CopyPlan copy;
        static_cast<void>(plan_copy(op, source, copy));
        u32 user = 0;
        u32 group = 0;
        u32 mode = 0;
        take_owner(b.header.caller, copy.old, user, group, mode);
        BatchDirectory& parent = b.directories[b.directory_of[item]];
        const Handle handle = handle_of(item);
        b.made[item] = {handle.inode, handle.generation, mode, group, 0};
        Attributes made = new_attributes(handle, mode, user, group, parent.number, b.header.now);
        made.device = copy.old.device;
        write(item, parent, made);
        apply_copy(op, inode_at(store, handle.inode), copy, {});
        if (!copy.contents.has_extent()) return;
        const Spot& spot = copy.contents.from;
        change_version(store, spot.home.seen.place);
        for_each_frame_part(spot.place, spot.blocks, [&](u64 frame, u32, u32) {
            change_version(store, frame * format::frame_size);
        });
    }
};

}  // namespace warren::ops::batch

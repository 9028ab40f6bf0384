// SPDX-License-Identifier: Apache-2.0
// Journal credits. An operation gets them here, and only here: it passes the freeze barrier,
// reserves journal room, and gives both up when it ends. A commit can hold a bounded number of
// blocks, so an operation reserves the greatest number that it may mark dirty before it writes the
// first one; and no commit takes its snapshot while an operation applies.
//
// Invariant: an operation that has marked more blocks than it had credits makes the volume
// read-only, and records that in StoreState, before it leaves the barrier. The committer checks
// this with the barrier closed, so no commit contains such an operation.
#pragma once

#include "fs/core/fence.hpp"
#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::core {

/// The greatest number of blocks that an operation may mark dirty, and the expression for it in the
/// code.
struct Credits {
    u32 blocks;
    const char* name;  // null: of a bulk step, whose workers mark the blocks
};
/// `limit` is a constant beside the code that marks the blocks, or a function of the plan.
#define WARREN_CREDITS(limit) \
    ::warren::core::Credits { \
        (limit), #limit       \
    }

/// Observes all marks of operations that run on one lane on the host. Tests install one. Its
/// functions are called by any thread and must not fail.
class JournalAudit {
 public:
    virtual ~JournalAudit() = default;
    WARREN_HD virtual void begin(const void* operation, const Credits& credits) = 0;
    WARREN_HD virtual void mark(const void* operation, u64 block) = 0;
    WARREN_HD virtual void end(const void* operation) = 0;
};
/// Null except in tests, which set it while no volume is open.
inline JournalAudit* journal_audit = nullptr;

/// The journal's room, and what is reserved of it or used.
struct JournalRoom {
    u64 ahead = 0;  // credits reserved by other operations
    u64 dirty = 0;
    u64 room = ~u64{0};
    u32 read_only = 0;

    /// The current state; nothing is reserved. One lane.
    static WARREN_HD JournalRoom now(const StoreState& state) {
        return {relaxed_load(state.reserved_credits), relaxed_load(state.dirty_blocks),
                relaxed_load(state.journal_room), relaxed_load(state.read_only)};
    }

    /// Whether an operation with `blocks` credits may apply. Errc::need_commit if the journal has
    /// no room for them; Errc::retry if it has no room only because of other operations' credits:
    /// most of these dirty fewer blocks, and they end soon. Errc::read_only on a read-only volume.
    WARREN_HD Errc verdict(u64 blocks) const {
        // An operation without credits changes only references to inodes, which a read-only volume
        // allows.
        if (blocks != 0 && read_only != 0) return Errc::read_only;
        if (dirty + blocks + ahead <= room) return Errc::ok;
        return dirty + blocks > room ? Errc::need_commit : Errc::retry;
    }
    /// How many credits can be reserved now.
    WARREN_HD u64 left() const { return dirty + ahead < room ? room - dirty - ahead : 0; }
};

/// Makes the volume read-only if an operation has dirtied more blocks than it had credits. The
/// operation calls this before it leaves the barrier. One lane.
WARREN_HD inline void check_credits(StoreState& state, u64 dirtied, u64 credits) {
    if (dirtied <= credits) return;
    relaxed_store(state.overrun_credits, static_cast<u32>(credits));
    relaxed_store(state.overrun_blocks, static_cast<u32>(dirtied));
    relaxed_store(state.read_only, 1u);
}

/// As above for a bulk step, whose workers do not count what they dirty: checks that one commit can
/// hold all dirty blocks. One lane.
WARREN_HD inline void check_step_credits(StoreState& state) {
    check_credits(state, relaxed_load(state.dirty_blocks), relaxed_load(state.journal_room));
}

/// The worker as which bulk steps on a GPU pass the barrier, whichever lane begins or ends them.
inline constexpr u32 step_worker = 0;

/// The barrier and the journal room that one operation or bulk step holds; it releases both when it
/// ends. The members are called by one lane; in the other lanes of a team the object holds nothing.
class JournalCredits {
 public:
    WARREN_HD JournalCredits() {}
    WARREN_HD ~JournalCredits() { leave(); }
    JournalCredits(const JournalCredits&) = delete;
    JournalCredits& operator=(const JournalCredits&) = delete;

    /// Passes the freeze barrier. Errc::retry, holding nothing, while a commit takes its snapshot.
    /// Not needed where no snapshot can be taken meanwhile. Requires: this object holds nothing.
    WARREN_HD Errc pass_barrier(StoreState& state, u32 worker) {
        state_ = &state;
        inside_ = &state.freeze_barrier[worker % barrier_slots].inside;
        // Sequentially consistent: pairs with Committer::close_barrier(), which sets barrier_closed
        // and then reads the slots. So either the committer sees this operation in its slot, or
        // this operation sees the barrier closed.
        device_atomic<u64>(*inside_).fetch_add(1, hd::memory_order_seq_cst);
        const bool is_closed =
            device_atomic<u32>(state.barrier_closed).load(hd::memory_order_seq_cst) != 0;
        if (!is_closed) return Errc::ok;
        leave();
        return Errc::retry;
    }

    /// Reserves `blocks` more blocks of journal room, whether they fit or not; the caller then asks
    /// for the verdict(). On a GPU the caller requests its locks before that, so that the loads
    /// overlap.
    WARREN_HD JournalRoom reserve(StoreState& state, u64 blocks) {
        state_ = &state;
        blocks_ += blocks;
        const u64 ahead =
            device_atomic<u64>(state.reserved_credits).fetch_add(blocks, hd::memory_order_relaxed);
        return {ahead, relaxed_load(state.dirty_blocks), relaxed_load(state.journal_room),
                relaxed_load(state.read_only)};
    }
    /// JournalRoom::verdict() on the `blocks` that reserve() has reserved of `room`. If the journal
    /// is nearly full, it counts the dirty blocks again: reserve() may have loaded their number
    /// before it reserved, and the blocks of an operation that ended in between are in neither sum.
    /// Otherwise they fit in any case: far fewer than an eighth of the journal's room are dirtied
    /// between two accesses of one lane.
    WARREN_HD Errc verdict(JournalRoom room, u64 blocks) const {
        if (room.dirty + blocks + room.ahead > room.room - room.room / 8) {
            fence_acquire();  // pairs with the release in give_back()
            room.dirty = relaxed_load(state_->dirty_blocks);
        }
        return room.verdict(blocks);
    }
    /// Releases `blocks` of them. Requires: at least that many are held.
    WARREN_HD void give_back(u64 blocks) {
        // Release: pairs with the fence in verdict(), so that the blocks which were marked dirty
        // with these credits are counted.
#if defined(__CUDA_ARCH__)
        // Operation::unlock() and leave_step() end with such a fence.
        constexpr auto order = hd::memory_order_relaxed;
#else
        constexpr auto order = hd::memory_order_release;
#endif
        blocks_ -= blocks;
        device_atomic<u64>(state_->reserved_credits).fetch_sub(blocks, order);
    }

    /// Releases everything.
    WARREN_HD void leave() {
        if (state_ == nullptr) return;
        if (blocks_ != 0) give_back(blocks_);
        // Release: pairs with the load in close_barrier(), so that the commit sees all that this
        // operation wrote.
        if (inside_ != nullptr) {
            device_atomic<u64>(*inside_).fetch_sub(1, hd::memory_order_release);
        }
        forget();
    }

    /// Detaches what is held from this object, which then holds nothing. Returns the number of
    /// blocks, for resume().
    WARREN_HD u64 keep() {
        const u64 blocks = blocks_;
        forget();
        return blocks;
    }
    /// Takes over what keep() detached, for a bulk step that has passed the barrier as `worker`.
    static WARREN_HD JournalCredits resume(StoreState& state, u32 worker, u64 blocks) {
        return {&state, &state.freeze_barrier[worker % barrier_slots].inside, blocks};
    }

 private:
    WARREN_HD JournalCredits(StoreState* state, u64* inside, u64 blocks)
        : state_(state), inside_(inside), blocks_(blocks) {}

    WARREN_HD void forget() {
        state_ = nullptr;
        inside_ = nullptr;
        blocks_ = 0;
    }

    StoreState* state_ = nullptr;  // null: nothing is held
    u64* inside_ = nullptr;        // the slot in which this passed the barrier, if it did
    u64 blocks_ = 0;
};

}  // namespace warren::core

// SPDX-License-Identifier: Apache-2.0
// Journal credits: the only way to pass the freeze barrier, reserve journal room and leave. A
// commit holds a bounded number of blocks, so an operation reserves as many as it marks dirty at
// most before it writes the first; and while it applies, no commit takes its snapshot.
//
// Invariant: an operation that has marked more blocks than its credits has made the volume
// read-only, and said so in StoreState, before it leaves the barrier. The committer checks this
// with the barrier closed, so no commit contains such an operation.
#pragma once

#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::core {

/// How many blocks an operation marks dirty at most, and what the code calls that number.
struct Credits {
    u32 blocks;
    const char* name;  // null: of a bulk step, whose workers mark the blocks
};
/// `limit` is a constant beside the code that marks the blocks, or a function of what is planned.
#define WARREN_CREDITS(limit) \
    ::warren::core::Credits { \
        (limit), #limit       \
    }

/// Sees all marks of operations of one lane on the host. Tests install one; calls come from any
/// thread and must not fail.
class JournalAudit {
 public:
    virtual ~JournalAudit() = default;
    WARREN_HD virtual void begin(const void* operation, const Credits& credits) = 0;
    WARREN_HD virtual void mark(const void* operation, u64 block) = 0;
    WARREN_HD virtual void end(const void* operation) = 0;
};
/// Null but in tests. Set while no volume is open.
inline JournalAudit* journal_audit = nullptr;

/// The journal's room and the other operations that want it.
struct JournalRoom {
    u64 ahead = 0;  // reserved by others
    u64 dirty = 0;
    u64 room = ~u64{0};
    u32 read_only = 0;

    /// As it is now. One lane.
    static WARREN_HD JournalRoom now(const StoreState& state) {
        return {relaxed_load(state.reserved_credits), relaxed_load(state.dirty_blocks),
                relaxed_load(state.journal_room), relaxed_load(state.read_only)};
    }

    /// Errc::retry if `blocks` would fit but for the credits of other operations, which mostly
    /// dirty less and end soon.
    WARREN_HD Errc verdict(u64 blocks) const {
        // References to inodes change even where nothing may be written.
        if (blocks != 0 && read_only != 0) return Errc::read_only;
        if (dirty + blocks + ahead <= room) return Errc::ok;
        return dirty + blocks > room ? Errc::need_commit : Errc::retry;
    }
};

/// Makes the volume read-only if an operation has dirtied more blocks than it has credits. Called
/// before it leaves the barrier. One lane.
WARREN_HD inline void check_credits(StoreState& state, u64 dirtied, u64 credits) {
    if (dirtied <= credits) return;
    relaxed_store(state.overrun_credits, static_cast<u32>(credits));
    relaxed_store(state.overrun_blocks, static_cast<u32>(dirtied));
    relaxed_store(state.read_only, 1u);
}

/// As above for a bulk step, whose workers do not count what they dirty: one commit must hold all
/// that is dirty. One lane.
WARREN_HD inline void check_step_credits(StoreState& state) {
    check_credits(state, relaxed_load(state.dirty_blocks), relaxed_load(state.journal_room));
}

/// Bulk steps of a GPU pass the barrier as this worker, whichever lane opens or ends them.
inline constexpr u32 step_worker = 0;

/// What one operation or bulk step holds of the barrier and of the journal's room; it leaves both
/// when it ends. Members are for one lane: the other lanes of a team have one that holds nothing.
class JournalCredits {
 public:
    WARREN_HD JournalCredits() {}
    WARREN_HD JournalCredits(JournalCredits&& from) noexcept
        : state_(from.state_), inside_(from.inside_), blocks_(from.blocks_) {
        from.forget();
    }
    WARREN_HD JournalCredits& operator=(JournalCredits&& from) noexcept {
        if (this == &from) return *this;
        leave();
        state_ = from.state_;
        inside_ = from.inside_;
        blocks_ = from.blocks_;
        from.forget();
        return *this;
    }
    WARREN_HD ~JournalCredits() { leave(); }

    /// Passes the freeze barrier; Errc::retry, holding nothing, while a commit takes its snapshot.
    /// Not needed where the engine starts no commit meanwhile. Requires: holds nothing.
    WARREN_HD Errc pass_barrier(StoreState& state, u32 worker) {
        state_ = &state;
        inside_ = &state.freeze_barrier[worker % barrier_slots].inside;
        // Sequentially consistent: pairs with close_barrier(), which closes, then reads the slots.
        // One of the two sees the other.
        device_atomic<u64>(*inside_).fetch_add(1, hd::memory_order_seq_cst);
        const bool is_closed =
            device_atomic<u32>(state.gate_closed).load(hd::memory_order_seq_cst) != 0;
        if (!is_closed) return Errc::ok;
        leave();
        return Errc::retry;
    }

    /// Reserves `blocks` more blocks of the journal's room. They are held whether they fit or not:
    /// the caller then asks verdict() of the result; on a GPU it requests its locks first, so that
    /// the loads overlap.
    WARREN_HD JournalRoom reserve(StoreState& state, u64 blocks) {
        state_ = &state;
        blocks_ += blocks;
        const u64 ahead =
            device_atomic<u64>(state.reserved_credits).fetch_add(blocks, hd::memory_order_relaxed);
        return {ahead, relaxed_load(state.dirty_blocks), relaxed_load(state.journal_room),
                relaxed_load(state.read_only)};
    }
    /// Gives `blocks` of them back. Requires: that many are held.
    WARREN_HD void give_back(u64 blocks) {
        blocks_ -= blocks;
        device_atomic<u64>(state_->reserved_credits).fetch_sub(blocks, hd::memory_order_relaxed);
    }

    /// Gives back all that is held.
    WARREN_HD void leave() {
        if (state_ == nullptr) return;
        if (blocks_ != 0) give_back(blocks_);
        // Release: pairs with the acquire in close_barrier(): the commit sees all that apply wrote.
        if (inside_ != nullptr) {
            device_atomic<u64>(*inside_).fetch_sub(1, hd::memory_order_release);
        }
        forget();
    }

    /// Keeps what is held beyond this object: the number of blocks, for resume().
    WARREN_HD u64 keep() {
        const u64 blocks = blocks_;
        forget();
        return blocks;
    }
    /// What keep() has kept, of a bulk step that has passed the barrier as `worker`.
    static WARREN_HD JournalCredits resume(StoreState& state, u32 worker, u64 blocks) {
        JournalCredits credits;
        credits.state_ = &state;
        credits.inside_ = &state.freeze_barrier[worker % barrier_slots].inside;
        credits.blocks_ = blocks;
        return credits;
    }

 private:
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

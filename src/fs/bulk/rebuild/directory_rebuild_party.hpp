// SPDX-License-Identifier: Apache-2.0
// The base of a worker of a rebuild: waits for the other workers at the end of a phase, locks the
// directory for all of them, takes blocks of its tree.
//
// Invariant: the first error of a phase is stored for that phase, so all workers that check it
// after the phase see the same error.
#pragma once

#include "fs/bulk/lane_free.hpp"
#include "fs/bulk/rebuild/directory_rebuild_work.hpp"

namespace warren::bulk {

/// Members are collective unless they say "one lane".
template <class Team>
class RebuildParty {
 protected:
    WARREN_HD RebuildParty(const Team& team, const core::Store& store, const RebuildRef& ref,
                           RebuildScratch& scratch)
        : team_(team), store_(store), ref_(ref), state_(*ref.state), scratch_(scratch) {}

    static constexpr u32 patience = 1u << 17;  // looks at a lock before the rebuild gives up

    // ---- phases

    WARREN_HD bool is_first() const { return team_.worker == 0; }

    template <class Action>
    WARREN_HD void for_each(u64 count, const Action& action) const {
        for (u64 i = team_.worker; i < count; i += ref_.workers)
            action(i);
    }

    /// Waits until all workers have arrived. Terminates: all of them run at the same time (the
    /// launch is cooperative), and each calls every meet(), whatever has failed.
    WARREN_HD void meet() const {
        team_.sync();
        once(team_, [&] {
            device_atomic<u32> round(state_.round);
            const u32 before = round.load(hd::memory_order_relaxed);
            // Acquire and release: each worker that continues sees what all others did before.
            const u32 arrived =
                device_atomic<u32>(state_.arrived).fetch_add(1, hd::memory_order_acq_rel);
            if (arrived + 1 == ref_.workers) {
                relaxed_store(state_.arrived, 0);
                round.store(before + 1, hd::memory_order_release);
                return;
            }
            while (round.load(hd::memory_order_acquire) == before)
                pause_briefly();
        });
    }

    /// Ends a phase. True if it has succeeded for all workers.
    WARREN_HD bool passed(RebuildPhase phase) const {
        meet();
        return load(team_, state_.codes[static_cast<u32>(phase)]) == 0;
    }
    /// One lane.
    WARREN_HD void fail(RebuildPhase phase, Errc code) const {
        u32 none = 0;
        device_atomic<u32>(state_.codes[static_cast<u32>(phase)])
            .compare_exchange_strong(none, static_cast<u32>(code), hd::memory_order_relaxed);
    }

    // ---- locks

    WARREN_HD u64 inode_place() const { return number_ * format::inode_size; }
    WARREN_HD format::Inode& inode() const {
        return core::block_at<format::Inode>(store_, inode_place());
    }
    WARREN_HD core::InodeRef inode_ref() const {
        core::InodeRef inode = core::inode_at(store_, number_);
        inode.generation = load(team_, state_.generation);
        return inode;
    }

    /// Passes the freeze barrier. One lane.
    WARREN_HD Errc enter_barrier(core::JournalCredits& credits) const {
        core::StoreState& all = *store_.state;
        WARREN_TRY(credits.pass_barrier(all, core::step_worker));
        return relaxed_load(all.read_only) != 0 ? Errc::read_only : Errc::ok;
    }

    /// Reserves `share` journal credits. Errc::overflow if that is more than the journal's
    /// capacity, so a smaller window is needed. One lane, after enter_barrier().
    WARREN_HD Errc reserve_credits(u64 share) const {
        core::StoreState& all = *store_.state;
        const u64 room = relaxed_load(all.journal_room);
        state_.room = room;
        if (share > room) return Errc::overflow;
        auto credits = core::JournalCredits::resume(all, core::step_worker, state_.share);
        const Errc code = credits.verdict(credits.reserve(all, share), share);
        if (code != Errc::ok) credits.give_back(share);
        state_.share = credits.keep();
        return code;
    }

    /// Waits until `place` is unlocked and raises its version, so everything read there before is
    /// stale. False if it stays locked for too long. One lane.
    WARREN_HD bool retire(u64 place) const {
        // Addresses that share the inode's version word are locked together with it.
        if (core::stripe_of(place) == core::stripe_of(inode_place())) return true;
        device_atomic<u64> word(store_.versions[core::stripe_of(place)]);
        u64 version = word.load(hd::memory_order_relaxed);
        for (u32 look = 0; look < patience; ++look) {
            // Acquire and release: pairs with the release by the previous holder, and with
            // observe().
            if ((version & 1) == 0 &&
                word.compare_exchange_weak(version, version + 2, hd::memory_order_acq_rel,
                                           hd::memory_order_relaxed)) {
                return true;
            }
            pause_briefly();
            version = word.load(hd::memory_order_relaxed);
        }
        return false;
    }

    /// Prepares a block of the tree for the rebuild; the locked inode hides it from other
    /// operations. One lane.
    WARREN_HD Errc take(u64 place, format::BlockKind kind) const {
        if (place % format::block_size != 0 || place >= store_.size_bytes) return Errc::corrupt;
        if (!ops::are_resident(store_, place, place)) {
            const u32 index = relaxed_add(state_.wanted_count, 1);
            if (index < ref_.wanted_max) ref_.wanted[index] = place;
            return Errc::need_block;
        }
        if (!retire(place)) return Errc::retry;
        const auto& header = core::block_at<format::BlockHeader>(store_, place);
        const bool is_ours =
            core::is_own_block(header, {kind, relaxed_load(state_.generation), number_});
        return is_ours ? Errc::ok : Errc::corrupt;
    }

    /// One lane.
    WARREN_HD void leave_barrier() const {
        core::check_step_credits(*store_.state);
        core::JournalCredits::resume(*store_.state, core::step_worker, state_.share).leave();
    }

    const Team team_;
    const core::Store& store_;
    const RebuildRef& ref_;
    RebuildState& state_;
    RebuildScratch& scratch_;
    u64 number_ = 0;
    u32 first_leaf_ = 0;  // of the window
    u32 leaf_count_ = 0;  // of the window
    u32 entries_ = 0;
};

}  // namespace warren::bulk

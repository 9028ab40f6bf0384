// SPDX-License-Identifier: Apache-2.0
// One running operation: what it has looked at, what it has reserved, what it will lock.
//
// Operations are optimistic. `plan` reads under versions and takes no lock: it notes each place
// that apply will write with the version it saw, pins the blocks and reserves the space.
// `begin_apply` then tries all locks at exactly these versions; if one has moved on, everything is
// let go and the operation starts again. Nobody waits while holding a lock, so there is no deadlock
// and no order to keep. Between begin_apply and end_apply nothing can fail, and no commit can fall.
//
// Every member is collective (see team/team.hpp): all lanes call it and hold the same values.
#pragma once

#include "base/check.hpp"
#include "fs/core/fence.hpp"
#include "fs/core/head_table.hpp"
#include "fs/core/store.hpp"
#include "fs/format/inode.hpp"
#include "team/team.hpp"

namespace warren::core {

inline constexpr u32 locks_max = 24;
inline constexpr u32 pins_max = 48;
inline constexpr u32 reservations_max = 24;

/// A run of blocks that this operation may take into use in apply.
struct Reservation {
    u64 place;
    u32 blocks;
};

/// A place and the version at which it was read.
struct Seen {
    u64 place = 0;
    u64 version = 0;
};

template <class Team>
class Operation {
 public:
    WARREN_HD Operation(const Team& by, const Store& of) : team(by), store(of) {}

    const Team team;
    const Store& store;
    u64 reserved_inode = 0;  // number held by reserve_inode(), 0 for none
    u64 needed_place = 0;    // with Errc::need_block
    u64 needed_inode = 0;    // with need_split, need_prune: the tree's inode
    u64 needed_key = 0;      // and the key whose path is meant
    bool may_use_reserve = false;
    bool gate_is_held = false;  // part of a bulk step, which passed the gate for all of its parts

    /// Reads the version of `place`. Errc::retry if a writer is at work there.
    WARREN_HD Errc observe(u64 place, Seen& seen) {
        seen.place = place;
        // Acquire: pairs with the release of end_apply().
        seen.version = once(team, [&] {
            return device_atomic<u64>(store.versions[stripe_of(place)])
                .load(hd::memory_order_acquire);
        });
        return (seen.version & 1) != 0 ? Errc::retry : Errc::ok;
    }

    /// Whether nothing was written at `seen.place` since observe().
    WARREN_HD bool unchanged(const Seen& seen) const {
        return once(team, [&] {
            fence_acquire();  // pairs with fence_release() in begin_apply()
            return device_atomic<u64>(store.versions[stripe_of(seen.place)])
                       .load(hd::memory_order_relaxed) == seen.version;
        });
    }

    /// Errc::retry unless nothing was written there since observe().
    WARREN_HD Errc confirm(const Seen& seen) const {
        return unchanged(seen) ? Errc::ok : Errc::retry;
    }

    /// The metadata block at `place`, resident until release_pins(). Errc::need_block if it is not
    /// in memory, Errc::corrupt if there can be no block. Requires: what the place was read from
    /// has been confirmed since.
    WARREN_HD Result<format::Block*> pin(u64 place) {
        if (place % format::block_size != 0 || place >= store.size_bytes) return Errc::corrupt;
        const u64 block = place / format::block_size;
        if (store.heads == nullptr) {
            // Acquire: pairs with the release of the loader that filled the block.
            const u64 bits = once(team, [&] {
                return device_atomic<u64>(store.resident[block / 64])
                    .load(hd::memory_order_acquire);
            });
            if ((bits >> block % 64 & 1) == 0) return need_block(place);
            return reinterpret_cast<format::Block*>(store.base + place);
        }
        WARREN_CHECK(pin_count_ < pins_max);
        const u32 head = once(team, [&] { return link_head(*store.heads, place); });
        if (head == head_none) return need_block(place);
        pins_[pin_count_++] = head;
        return &store.heads->blocks[head];
    }

    /// Marks where the pins are now; release_pins(mark) lets go of those taken later.
    WARREN_HD u32 pin_mark() const { return pin_count_; }
    WARREN_HD void release_pins(u32 mark = 0) {
        while (pin_count_ > mark) {
            const u32 head = pins_[--pin_count_];
            once(team, [&] { unlink_head(*store.heads, head); });
        }
    }
    /// Keeps the newest pin of `place` beyond this operation: volatile state lives in the block.
    WARREN_HD void leave_pinned(u64 place) {
        if (store.heads == nullptr) return;
        once(team, [&] {
            const u32 head = link_head(*store.heads, place);
            WARREN_CHECK(head != head_none);
        });
    }
    /// Gives back what leave_pinned() kept.
    WARREN_HD void drop_pinned(u64 place) {
        if (store.heads == nullptr) return;
        once(team, [&] {
            const u32 head = link_head(*store.heads, place);
            WARREN_CHECK(head != head_none);
            unlink_head(*store.heads, head);
            unlink_head(*store.heads, head);
        });
    }

    /// Notes that apply will write what lies at `seen.place`.
    WARREN_HD Errc will_write(const Seen& seen) {
        const u32 stripe = stripe_of(seen.place);
        for (u32 i = 0; i < lock_count_; ++i) {
            if (locks_[i].stripe != stripe) continue;
            return locks_[i].version == seen.version ? Errc::ok : Errc::retry;
        }
        WARREN_CHECK(lock_count_ < locks_max);
        locks_[lock_count_++] = {stripe, seen.version};
        return Errc::ok;
    }

    /// Whether `count` more places can be noted.
    WARREN_HD bool has_lock_room(u32 count) const { return lock_count_ + count <= locks_max; }

    /// Notes a reservation, to be taken into use in apply or given back by finish().
    WARREN_HD void add_reservation(u64 place, u32 blocks) {
        WARREN_CHECK(reservation_count_ < reservations_max);
        reservations_[reservation_count_++] = {place, blocks};
    }
    WARREN_HD u32 reservation_count() const { return reservation_count_; }
    WARREN_HD bool has_reservation_room() const { return reservation_count_ < reservations_max; }
    WARREN_HD Reservation reservation(u32 index) const { return reservations_[index]; }
    WARREN_HD void forget_reservations() { reservation_count_ = 0; }

    /// Enters apply: passes the gate, takes the journal room for `blocks_dirtied` blocks and all
    /// locks. Errc::retry, need_commit or read_only; then nothing is held and nothing has changed.
    WARREN_HD Errc begin_apply(u32 blocks_dirtied) {
        promised_ = blocks_dirtied;
        WARREN_TRY(once(team, [&] { return enter_gate(); }));
        const bool locked = once(team, [&] { return try_locks(); });
        if (!locked) {
            once(team, [&] { leave_gate(); });
            return Errc::retry;
        }
        applying_ = true;
        return Errc::ok;
    }

    /// Lets go of an apply that found in its last check that it cannot go on. Nothing was written.
    WARREN_HD void cancel_apply() { close_apply(0); }
    /// Publishes what was written and leaves apply.
    WARREN_HD void end_apply() { close_apply(2); }

    /// Locks one more place at once, if it is still at the version seen. For bulk steps, which lock
    /// as they go: false means to come back later, never to wait.
    WARREN_HD bool lock_now(const Seen& seen) {
        return once(team, [&] {
            u64 expected = seen.version;
            // Acquire: pairs with the release of the holder before us.
            const bool won =
                device_atomic<u64>(store.versions[stripe_of(seen.place)])
                    .compare_exchange_strong(expected, seen.version | 1, hd::memory_order_acquire,
                                             hd::memory_order_relaxed);
            fence_release();  // pairs with fence_acquire() in unchanged()
            return won;
        });
    }
    WARREN_HD void unlock_now(const Seen& seen) {
        team.sync();
        once(team, [&] {
            // Release: pairs with the acquire in observe(), try_locks() and lock_now().
            device_atomic<u64>(store.versions[stripe_of(seen.place)])
                .store(seen.version + 2, hd::memory_order_release);
        });
    }
    /// Lets all that was read at `place` so far prove stale: what lay there is being freed.
    /// Requires: the caller holds no lock.
    WARREN_HD void retire_place(u64 place) {
        once(team, [&] {
            device_atomic<u64> word(store.versions[stripe_of(place)]);
            u64 version = word.load(hd::memory_order_relaxed);
            // Release: pairs with the acquire in observe(). A holder finishes without waiting.
            while ((version & 1) != 0 ||
                   !word.compare_exchange_weak(version, version + 2, hd::memory_order_release,
                                               hd::memory_order_relaxed)) {
                version = word.load(hd::memory_order_relaxed);
            }
        });
    }

    /// Marks the metadata block at `place` for the next commit. Only within apply.
    WARREN_HD void mark_dirty(u64 place) {
        once(team, [&] {
            const u64 block = place / format::block_size;
            const u64 bit = u64{1} << block % 64;
            device_atomic<u64> word(store.dirty[block / 64]);
            if ((word.load(hd::memory_order_relaxed) & bit) != 0) return;
            if ((word.fetch_or(bit, hd::memory_order_relaxed) & bit) != 0) return;
            device_atomic<u64>(store.state->dirty_blocks).fetch_add(1, hd::memory_order_relaxed);
            const u64 frame = place / format::frame_size;
            device_atomic<u64> frames(store.dirty_frames[frame / 64]);
            const u64 frame_bit = u64{1} << frame % 64;
            if ((frames.load(hd::memory_order_relaxed) & frame_bit) == 0) {
                frames.fetch_or(frame_bit, hd::memory_order_relaxed);
            }
        });
    }

    /// Takes a freed block out of the next commit: its place may hold something else soon.
    WARREN_HD void clear_dirty(u64 place) {
        once(team, [&] {
            const u64 block = place / format::block_size;
            const u64 bit = u64{1} << block % 64;
            device_atomic<u64> word(store.dirty[block / 64]);
            if ((word.load(hd::memory_order_relaxed) & bit) == 0) return;
            if ((word.fetch_and(~bit, hd::memory_order_relaxed) & bit) == 0) return;
            device_atomic<u64>(store.state->dirty_blocks).fetch_sub(1, hd::memory_order_relaxed);
        });
    }

    WARREN_HD bool is_applying() const { return applying_; }

    /// The answer for the driver: `place` has to be loaded before the operation starts again.
    WARREN_HD Errc need_block(u64 place) {
        needed_place = place;
        return Errc::need_block;
    }
    /// The answer for the driver: change the tree of `inode` at `key` first.
    WARREN_HD Errc need_structure(Errc what, u64 inode, u64 key) {
        needed_inode = inode;
        needed_key = key;
        return what;
    }

    /// Forgets what a failed plan noted (locks to take). Reservations stay until finish().
    WARREN_HD void forget_locks() { lock_count_ = 0; }

 private:
    struct Lock {
        u32 stripe;
        u64 version;
    };

    WARREN_HD Errc enter_gate() {
        if (gate_is_held) return Errc::ok;
        StoreState& state = *store.state;
        device_atomic<u64> inside(state.gate[team.worker % gate_slots].inside);
        // Sequentially consistent: pairs with close_gate(), which closes, then looks inside. One of
        // the two sees the other.
        inside.fetch_add(1, hd::memory_order_seq_cst);
        if (device_atomic<u32>(state.gate_closed).load(hd::memory_order_seq_cst) != 0) {
            inside.fetch_sub(1, hd::memory_order_release);
            return Errc::retry;
        }
        // References to inodes change even where nothing may be written.
        if (promised_ != 0 && relaxed_load(state.read_only) != 0) {
            inside.fetch_sub(1, hd::memory_order_release);
            return Errc::read_only;
        }
        const Errc promised = promise_blocks();
        if (promised != Errc::ok) inside.fetch_sub(1, hd::memory_order_release);
        return promised;
    }

    /// Takes journal room for what apply will dirty at most. Errc::retry if there is room but for
    /// the promises of others, who mostly dirty less and are done soon.
    WARREN_HD Errc promise_blocks() {
        StoreState& state = *store.state;
        device_atomic<u64> promised(state.promised_blocks);
        u64 ahead = promised.load(hd::memory_order_relaxed);
        const u64 wanted = relaxed_load(state.dirty_blocks) + promised_;
        if (wanted + ahead <= state.journal_room) {
            ahead = promised.fetch_add(promised_, hd::memory_order_relaxed);
            if (relaxed_load(state.dirty_blocks) + promised_ + ahead <= state.journal_room) {
                return Errc::ok;
            }
            promised.fetch_sub(promised_, hd::memory_order_relaxed);
        }
        return wanted > state.journal_room ? Errc::need_commit : Errc::retry;
    }

    WARREN_HD void leave_gate() {
        if (gate_is_held) return;
        StoreState& state = *store.state;
        device_atomic<u64>(state.promised_blocks).fetch_sub(promised_, hd::memory_order_relaxed);
        // Release: pairs with the acquire in close_gate(): the commit sees all that apply wrote.
        device_atomic<u64>(state.gate[team.worker % gate_slots].inside)
            .fetch_sub(1, hd::memory_order_release);
    }

    WARREN_HD bool try_locks() {
        for (u32 i = 0; i < lock_count_; ++i) {
            u64 expected = locks_[i].version;
            device_atomic<u64> word(store.versions[locks_[i].stripe]);
            // Acquire: pairs with the release of the holder before us.
            if (word.compare_exchange_strong(expected, locks_[i].version | 1,
                                             hd::memory_order_acquire, hd::memory_order_relaxed)) {
                continue;
            }
            unlock(i, 0);
            return false;
        }
        fence_release();  // pairs with fence_acquire() in unchanged()
        return true;
    }

    WARREN_HD void unlock(u32 count, u64 step) {
        for (u32 i = 0; i < count; ++i) {
            // Release: pairs with the acquire in observe() and try_locks().
            device_atomic<u64>(store.versions[locks_[i].stripe])
                .store(locks_[i].version + step, hd::memory_order_release);
        }
    }

    WARREN_HD void close_apply(u64 step) {
        WARREN_CHECK(applying_);
        team.sync();
        once(team, [&] {
            unlock(lock_count_, step);
            leave_gate();
        });
        applying_ = false;
        lock_count_ = 0;
    }

    Lock locks_[locks_max];
    u32 pins_[pins_max];
    Reservation reservations_[reservations_max];
    u32 lock_count_ = 0;
    u32 pin_count_ = 0;
    u32 reservation_count_ = 0;
    u32 promised_ = 0;
    bool applying_ = false;
};

}  // namespace warren::core

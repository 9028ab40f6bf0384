// SPDX-License-Identifier: Apache-2.0
// One running operation: what it has read, what it has reserved, what it will lock.
//
// Operations are optimistic. `plan` reads under versions and takes no lock: it notes each place
// that apply will write with the version it saw, pins the blocks and reserves the space.
// `begin_apply` then tries all locks at exactly these versions; if one has changed, everything is
// released and the operation starts again. Nobody waits while holding a lock, so there is no
// deadlock and no lock order. Between begin_apply and end_apply nothing can fail, and no commit
// takes its snapshot.
//
// Every member is collective (see team/team.hpp): all lanes call it and hold the same values.
#pragma once

#include "base/check.hpp"
#include "fs/core/fence.hpp"
#include "fs/core/gather.hpp"
#include "fs/core/head_table.hpp"
#include "fs/core/journal_credits.hpp"
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
    u64 needed_key = 0;      // and the key on whose path
    bool may_use_reserve = false;
    bool barrier_is_held = false;  // part of a bulk step, which has passed the freeze barrier
    bool is_alone = false;         // no other operation runs: reads need no validation
    bool commits_wait = false;     // the engine starts no commit meanwhile: no barrier is used

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

    /// Whether `seen.place` is unchanged since observe().
    WARREN_HD bool unchanged(const Seen& seen) const {
        if (is_alone) return true;
        return once(team, [&] {
            fence_acquire();  // pairs with fence_release() in begin_apply()
            return device_atomic<u64>(store.versions[stripe_of(seen.place)])
                       .load(hd::memory_order_relaxed) == seen.version;
        });
    }

    /// Errc::retry unless `seen.place` is unchanged since observe().
    WARREN_HD Errc confirm(const Seen& seen) const {
        return unchanged(seen) ? Errc::ok : Errc::retry;
    }

    /// The metadata block at `place`, resident until release_pins(). Errc::need_block if it is not
    /// in memory, Errc::corrupt if `place` cannot be one. Requires: the source of `place` was
    /// confirmed after it was read.
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

    /// The memory of the block at `place` if it is resident: so it is if this operation pins it.
    WARREN_HD format::Block* resident(u64 place) const {
        return once(team, [&]() -> format::Block* {
            const u64 block = place / format::block_size;
            if (store.heads == nullptr) {
                // Acquire: pairs with the release of the loader that filled the block.
                const u64 bits =
                    device_atomic<u64>(store.resident[block / 64]).load(hd::memory_order_acquire);
                if ((bits >> block % 64 & 1) == 0) return nullptr;
                return reinterpret_cast<format::Block*>(store.base + place);
            }
            const u32 head = link_head(*store.heads, place);
            if (head == head_none) return nullptr;
            unlink_head(*store.heads, head);
            return &store.heads->blocks[head];
        });
    }

    /// observe() of `guard` and pin() of the block at `place`, both at once.
    WARREN_HD Result<format::Block*> observe_and_pin(u64 guard, u64 place, Seen& seen) {
        if (Team::width == 1 || store.heads != nullptr || place >= store.size_bytes) {
            WARREN_TRY(observe(guard, seen));
            return pin(place);
        }
        const u64 block = place / format::block_size;
        Gathered<Team, u64, 2> words;
        words.read(team, [&](u32 i) {
            return i == 0 ? &store.versions[stripe_of(guard)] : &store.resident[block / 64];
        });
        seen = {guard, words.tell(team, 0, [](u64 word) { return word; })};
        const u64 resident = words.tell(team, 1, [](u64 word) { return word; });
        if ((seen.version & 1) != 0) return Errc::retry;
        if ((resident >> block % 64 & 1) == 0) return need_block(place);
        return reinterpret_cast<format::Block*>(store.base + place);
    }

    /// The number of pins now; release_pins(mark) releases those taken later.
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

    /// Notes that apply will lock and write `seen.place`.
    WARREN_HD Errc will_write(const Seen& seen) {
        const u32 stripe = stripe_of(seen.place);
        for (u32 row = 0; row < lock_rows && row * Team::width < lock_count_; ++row) {
            const bool is_same =
                row * Team::width + team.lane() < lock_count_ && locks_[row].stripe == stripe;
            if (team.ballot(is_same) == 0) continue;
            const bool differs = is_same && locks_[row].version != seen.version;
            return team.ballot(differs) == 0 ? Errc::ok : Errc::retry;
        }
        WARREN_CHECK(lock_count_ < locks_max);
        const u32 row = lock_rows == 1 ? 0 : lock_count_ / Team::width;
        if (lock_count_ % Team::width == team.lane()) locks_[row] = {stripe, seen.version};
        ++lock_count_;
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
    WARREN_HD Reservation reservation(u32 index) const { return reservations_[index]; }
    WARREN_HD void forget_reservations() { reservation_count_ = 0; }

    /// Enters apply: passes the freeze barrier, reserves journal room for what it dirties at most
    /// and takes all locks. Errc::retry, need_commit or read_only; then nothing is held and nothing
    /// has changed.
    WARREN_HD Errc begin_apply(Credits credits) {
        WARREN_TRY(enter_apply(credits));
        open_locked();
        return Errc::ok;
    }
    /// begin_apply() in two parts, for callers with work between them that no lock guards: what a
    /// lock guards may be written only after open_locked().
    WARREN_HD void open_locked() const {
        fence_release();  // pairs with fence_acquire() in unchanged()
    }
    WARREN_HD Errc enter_apply(Credits credits) {
        credits_ = credits.blocks;
        dirtied_ = 0;
        if (!commits_wait) WARREN_TRY(once(team, [&] { return pass_barrier(); }));
        // Journal room and locks are requested together, so that the atomics overlap on a GPU.
        JournalRoom room;
        if (team.is_leader() && !barrier_is_held) room = held_.reserve(*store.state, credits_);
        const bool locked = try_locks();
        const Errc fits = once(team, [&] { return room.verdict(credits_); });
        if (locked && fits == Errc::ok) {
            applying_ = true;
            tell_audit([&](JournalAudit& audit) {
                if (credits.name != nullptr) audit.begin(this, credits);
            });
            return Errc::ok;
        }
        if (locked) unlock(0);
        once(team, [&] { held_.leave(); });
        return locked ? fits : Errc::retry;
    }

    /// Ends an apply whose last check failed. Nothing was written.
    WARREN_HD void cancel_apply() { close_apply(0); }
    /// Publishes what was written and leaves apply.
    WARREN_HD void end_apply() { close_apply(2); }

    /// Marks the metadata block at `place` for the next commit. Only within apply.
    WARREN_HD void mark_dirty(u64 place) {
        once(team, [&] { mark_dirty_alone(place); });
    }
    /// Marks the `count` blocks at place_of(i), one a lane at a time.
    template <class PlaceOf>
    WARREN_HD void mark_dirty_all(u32 count, const PlaceOf& place_of) {
        for (u32 i = team.lane(); i < count; i += Team::width)
            mark_dirty_alone(place_of(i));
        team.sync();
    }
    /// As above, and sets bit `bit` of the shared bitmap `words` at the same time.
    template <class PlaceOf>
    WARREN_HD void mark_dirty_all(u32 count, const PlaceOf& place_of, u64* words, u64 bit) {
        for (u32 i = team.lane(); i <= count; i += Team::width) {
            // One call for all lanes, so that their loads overlap.
            const u64 place = i < count ? place_of(i) : 0;
            u64* const bitmap = i < count ? store.dirty : words;
            const u64 index = i < count ? place / format::block_size : bit;
            if (i < count) audit_mark(place);
            if (set_shared_bit(bitmap, index) && i < count) count_dirty(place);
        }
        team.sync();
    }

    /// Removes a freed block from the next commit: its place may be reused soon.
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

    /// Sets a bit; true if it was clear. One lane.
    static WARREN_HD bool set_shared_bit(u64* words, u64 index) {
        const u64 bit = u64{1} << index % 64;
        device_atomic<u64> word(words[index / 64]);
        return (word.load(hd::memory_order_relaxed) & bit) == 0 &&
               (word.fetch_or(bit, hd::memory_order_relaxed) & bit) == 0;
    }
    WARREN_HD void mark_dirty_alone(u64 place) {
        audit_mark(place);
        if (set_shared_bit(store.dirty, place / format::block_size)) count_dirty(place);
    }
    WARREN_HD void count_dirty(u64 place) {
        ++dirtied_;
        device_atomic<u64>(store.state->dirty_blocks).fetch_add(1, hd::memory_order_relaxed);
        const u64 frame = place / format::frame_size;
        device_atomic<u64> frames(store.dirty_frames[frame / 64]);
        const u64 frame_bit = u64{1} << frame % 64;
        if ((frames.load(hd::memory_order_relaxed) & frame_bit) == 0) {
            frames.fetch_or(frame_bit, hd::memory_order_relaxed);
        }
    }

    /// Passes the freeze barrier if there is journal room. One lane.
    WARREN_HD Errc pass_barrier() {
        if (barrier_is_held) return Errc::ok;
        WARREN_TRY(held_.pass_barrier(*store.state, team.worker));
        const Errc code = JournalRoom::now(*store.state).verdict(credits_);
        if (code != Errc::ok) held_.leave();
        return code;
    }

    /// How many blocks all lanes have newly dirtied in this apply.
    WARREN_HD u32 dirtied_by_all() const {
        if constexpr (Team::width == 1) {
            return dirtied_;
        } else {
            u32 sum = 0;
            for (u32 bit = 0; team.ballot(dirtied_ >> bit != 0) != 0; ++bit) {
                const u32 lanes = team.ballot((dirtied_ >> bit & 1) != 0);
                sum += static_cast<u32>(hd::popcount(lanes)) << bit;
            }
            return sum;
        }
    }

    /// Calls `action` with the audit, if there is one.
    template <class Action>
    WARREN_HD void tell_audit([[maybe_unused]] const Action& action) const {
#if !defined(__CUDA_ARCH__)
        if constexpr (Team::width == 1) {
            if (journal_audit != nullptr) action(*journal_audit);
        }
#endif
    }
    WARREN_HD void audit_mark(u64 place) const {
        tell_audit([&](JournalAudit& audit) { audit.mark(this, place / format::block_size); });
    }

    /// Takes all locks, each lane its own. False if one could not be taken: then none is held.
    WARREN_HD bool try_locks() {
        bool lost = false;
        locks_held_ = 0;
        // A warp has a lane for each: the second bound tells the compiler so.
        for (u32 row = 0; row < lock_rows && !lost; ++row) {
            if (row * Team::width + team.lane() >= lock_count_) break;
            const Lock& lock = locks_[row];
            u64 expected = lock.version;
            // Acquire: pairs with the release of the holder before us.
            lost =
                !device_atomic<u64>(store.versions[lock.stripe])
                     .compare_exchange_strong(expected, lock.version | 1, hd::memory_order_acquire,
                                              hd::memory_order_relaxed);
            if (!lost) ++locks_held_;
        }
        if (team.ballot(lost) != 0) {
            unlock(0);
            return false;
        }
        return true;
    }

    /// Gives back the locks that the lane holds.
    WARREN_HD void unlock(u64 step) {
        // With the stores a release, for all lanes: pairs with the acquire in observe() and
        // try_locks(). For one lane the stores are that themselves.
        if constexpr (Team::width > 1) fence_release();
        constexpr auto order =
            Team::width > 1 ? hd::memory_order_relaxed : hd::memory_order_release;
        for (u32 row = 0; row < lock_rows && locks_held_ != 0; ++row, --locks_held_) {
            device_atomic<u64>(store.versions[locks_[row].stripe])
                .store(locks_[row].version + step, order);
        }
    }

    WARREN_HD void close_apply(u64 step) {
        WARREN_CHECK(applying_);
        team.sync();
        unlock(step);
        team.sync();
        const u32 dirtied = dirtied_by_all();
        once(team, [&] {
            check_credits(*store.state, dirtied, credits_);
            held_.leave();
        });
        tell_audit([&](JournalAudit& audit) { audit.end(this); });
        applying_ = false;
        lock_count_ = 0;
    }

    // Lock i with lane i % W: a warp keeps all of them in registers.
    static constexpr u32 lock_rows = (locks_max + Team::width - 1) / Team::width;
    Lock locks_[lock_rows];
    u32 pins_[pins_max];
    Reservation reservations_[reservations_max];
    u32 lock_count_ = 0;
    u32 locks_held_ = 0;  // by this lane
    u32 pin_count_ = 0;
    u32 reservation_count_ = 0;
    u32 credits_ = 0;  // blocks that this apply may dirty
    u32 dirtied_ = 0;  // by this lane, newly
    bool applying_ = false;
    JournalCredits held_;
};

}  // namespace warren::core

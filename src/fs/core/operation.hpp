// SPDX-License-Identifier: Apache-2.0
// One running operation: the versions that it has read, the space it has reserved, the locks it
// will take.
//
// Operations are optimistic. `plan` takes no lock: it reads under versions, notes each place that
// apply will write together with the version it saw there, pins the blocks and reserves space.
// `begin_apply` then tries to take all locks at exactly these versions. If a version has changed,
// the operation releases everything and starts again. No thread waits while it holds a lock, so
// there is no deadlock and no lock order. Between begin_apply and end_apply nothing can fail, and
// no commit takes its snapshot.
//
// Every member is collective (see team/team.hpp): all lanes call it with the same values.
#pragma once

#include "base/check.hpp"
#include "fs/core/change_marks.hpp"
#include "fs/core/fence.hpp"
#include "fs/core/frame_bits.hpp"
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
    u64 reserved_inode = 0;  // inode number that reserve_inode() holds, 0 for none
    u64 needed_place = 0;    // with Errc::need_block
    u64 needed_inode = 0;    // with need_split, need_prune: the inode of the tree
    u64 needed_key = 0;      // likewise: the key on whose path
    bool may_use_reserve = false;
    bool barrier_is_held = false;  // this is part of a bulk step that has passed the barrier
    bool is_alone = false;         // no other operation runs, so reads need no validation
    bool commits_wait = false;     // no snapshot can be taken meanwhile, so no barrier is needed

    /// Reads the version of `place`. Errc::retry while a writer holds its lock.
    WARREN_HD Errc observe(u64 place, Seen& seen) {
        seen.place = place;
        // Acquire: pairs with the release in unlock(), which ends each apply.
        seen.version = once(team, [&] {
            return device_atomic<u64>(store.versions[stripe_of(place)])
                .load(hd::memory_order_acquire);
        });
        return (seen.version & 1) != 0 ? Errc::retry : Errc::ok;
    }

    /// Whether the version of `seen.place` has not changed since observe().
    WARREN_HD bool unchanged(const Seen& seen) const {
        if (is_alone) return true;
        return once(team, [&] {
            fence_acquire();  // pairs with fence_release() in open_locked()
            return device_atomic<u64>(store.versions[stripe_of(seen.place)])
                       .load(hd::memory_order_relaxed) == seen.version;
        });
    }

    /// Errc::retry unless `seen.place` is unchanged since observe().
    WARREN_HD Errc confirm(const Seen& seen) const {
        return unchanged(seen) ? Errc::ok : Errc::retry;
    }

    /// The metadata block at `place`, which stays resident until release_pins(). Errc::need_block
    /// if it is not in memory, Errc::corrupt if no metadata block can be at `place`. Requires:
    /// `place` was confirmed, that is, the version that guards the pointer to it has not changed
    /// since the pointer was read.
    WARREN_HD Result<format::Block*> pin(u64 place) {
        if (place % format::block_size != 0 || place >= store.size_bytes) return Errc::corrupt;
        if (store.heads == nullptr) {
            if (!once(team, [&] { return is_resident(store, place); })) return need_block(place);
            return reinterpret_cast<format::Block*>(store.base + place);
        }
        WARREN_CHECK(pin_count_ < pins_max);
        const u32 head = once(team, [&] { return link_head(*store.heads, place); });
        if (head == head_none) return need_block(place);
        pins_[pin_count_++] = head;
        return &store.heads->blocks[head];
    }

    /// The memory of the block at `place` if this operation has pinned it; null if it has not, or,
    /// in a fully resident store, if the block is not in memory.
    WARREN_HD format::Block* pinned(u64 place) const {
        return once(team, [&]() -> format::Block* {
            if (store.heads == nullptr) {
                if (!is_resident(store, place)) return nullptr;
                return reinterpret_cast<format::Block*>(store.base + place);
            }
            for (u32 i = 0; i < pin_count_; ++i) {
                if (store.heads->heads[pins_[i]].place == place)
                    return &store.heads->blocks[pins_[i]];
            }
            return nullptr;
        });
    }

    /// observe() of `guard` and pin() of the block at `place`, with both loads in flight at the
    /// same time.
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

    /// The number of pins so far; release_pins(mark) releases those taken later.
    WARREN_HD u32 pin_mark() const { return pin_count_; }
    WARREN_HD void release_pins(u32 mark = 0) {
        while (pin_count_ > mark) {
            const u32 head = pins_[--pin_count_];
            once(team, [&] { unlink_head(*store.heads, head); });
        }
    }
    /// Adds a pin of the block at `place` that outlives this operation, because the block holds
    /// state that is not on disk. Requires: the block is pinned.
    WARREN_HD void leave_pinned(u64 place) {
        if (store.heads == nullptr) return;
        once(team, [&] {
            const u32 head = link_head(*store.heads, place);
            WARREN_CHECK(head != head_none);
        });
    }
    /// Releases the pin that leave_pinned() added. Requires: the block is resident.
    WARREN_HD void drop_pinned(u64 place) {
        if (store.heads != nullptr) once(team, [&] { drop_link(*store.heads, place); });
    }

    /// Notes that apply will lock and write `seen.place`. Errc::retry if a place with the same
    /// version word was noted at another version.
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

    /// Whether `count` more places can be noted for writing.
    WARREN_HD bool has_lock_room(u32 count) const { return lock_count_ + count <= locks_max; }

    /// Notes a reservation, which apply may take into use; finish() releases it in any case.
    WARREN_HD void add_reservation(Run run) {
        WARREN_CHECK(reservation_count_ < reservations_max);
        reservations_[reservation_count_++] = run;
    }
    /// Releases all reservations, whether apply used their blocks or not.
    WARREN_HD void release_reservations() {
        while (reservation_count_ > 0) {
            const Run run = reservations_[--reservation_count_];
            once(team, [&] { unreserve(store, run.place, run.blocks); });
        }
    }

    /// Enters apply: passes the freeze barrier, reserves journal credits for the blocks it may
    /// dirty, and takes all locks. On Errc::retry, need_commit or read_only it holds nothing and
    /// has changed nothing.
    WARREN_HD Errc begin_apply(Credits credits) {
        WARREN_TRY(enter_apply(credits));
        open_locked();
        return Errc::ok;
    }
    /// begin_apply() in two parts: between enter_apply() and open_locked() the caller may change
    /// what no lock guards. It may write what a lock guards only after open_locked().
    WARREN_HD void open_locked() const {
        fence_release();  // pairs with fence_acquire() in unchanged()
    }
    WARREN_HD Errc enter_apply(Credits credits) {
        credits_ = credits.blocks;
        dirtied_ = 0;
        if (!commits_wait) WARREN_TRY(once(team, [&] { return pass_barrier(); }));
        // Credits and locks are requested together, so that on a GPU the atomics overlap.
        JournalRoom room;
        if (team.is_leader() && !barrier_is_held) room = held_.reserve(*store.state, credits_);
        const bool locked = try_locks();
        const Errc fits = once(team, [&] { return held_.verdict(room, credits_); });
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

    /// Ends an apply in which a last check failed. Requires: nothing that a lock guards was
    /// written.
    WARREN_HD void cancel_apply() { close_apply(0); }
    /// Publishes what was written under new versions and leaves apply.
    WARREN_HD void end_apply() { close_apply(2); }

    /// Marks the metadata block at `place` dirty: the next commit will contain it. Only within
    /// apply.
    WARREN_HD void mark_dirty(u64 place) {
        once(team, [&] { mark_newly_dirty(place); });
    }
    /// Marks the `count` blocks at place_of(i) dirty; the lanes share the work.
    template <class PlaceOf>
    WARREN_HD void mark_dirty_all(u32 count, const PlaceOf& place_of) {
        for (u32 i = team.lane(); i < count; i += Team::width)
            mark_newly_dirty(place_of(i));
        team.sync();
    }
    /// As above, and also sets bit `bit` of the shared bitmap `words`.
    template <class PlaceOf>
    WARREN_HD void mark_dirty_all(u32 count, const PlaceOf& place_of, u64* words, u64 bit) {
        static_assert(Team::width > 1);  // for a GPU, which keeps no marks for a replica
        for (u32 i = team.lane(); i <= count; i += Team::width) {
            // The same code for all lanes, so that their loads overlap.
            const u64 place = i < count ? place_of(i) : 0;
            u64* const bitmap = i < count ? store.dirty : words;
            const u64 index = i < count ? place / format::block_size : bit;
            if (i < count) audit_mark(place);
            if (set_bit(bitmap, index) && i < count) count_dirty(place);
        }
        team.sync();
    }

    /// As mark_dirty(), by one lane. False if the block was dirty already.
    WARREN_HD bool mark_newly_dirty(u64 place) {
        note_changed(store, place);
        audit_mark(place);
        if (!set_bit(store.dirty, place / format::block_size)) return false;
        count_dirty(place);
        return true;
    }

    /// Marks the blocks of the bits `blocks` of word `word` dirty, without telling a replica, which
    /// has them as they are. By one lane.
    WARREN_HD void mark_word_dirty(u64 word, u64 blocks) {
        const u64 newly = set_bits(store.dirty, word, blocks);
        if (newly == 0) return;
        count_dirty(word * 64 * format::block_size, static_cast<u32>(hd::popcount(newly)));
    }

    /// Takes a freed block out of the next commit, because its place may be reused for something
    /// else.
    WARREN_HD void clear_dirty(u64 place) {
        once(team, [&] {
            if (!clear_bit(store.dirty, place / format::block_size)) return;
            device_atomic<u64>(store.state->dirty_blocks).fetch_sub(1, hd::memory_order_relaxed);
        });
    }

    /// Returns Errc::need_block: the driver has to load `place` before it starts the operation
    /// again.
    WARREN_HD Errc need_block(u64 place) {
        needed_place = place;
        return Errc::need_block;
    }
    /// Returns `what`: the driver has to change the tree of `inode` at `key` first.
    WARREN_HD Errc need_structure(Errc what, u64 inode, u64 key) {
        needed_inode = inode;
        needed_key = key;
        return what;
    }

    /// Forgets the locks that a failed plan noted. Reservations stay until finish().
    WARREN_HD void forget_locks() { lock_count_ = 0; }

    /// Marks a block that has changed and need not be committed. Only within apply.
    WARREN_HD void mark_changed([[maybe_unused]] u64 place) {
#if !defined(__CUDA_ARCH__)
        // Nothing is marked on a GPU, so the lanes need not meet there.
        once(team, [&] { note_changed(store, place); });
#endif
    }

 private:
    struct Lock {
        u32 stripe;
        u64 version;
    };

    /// Counts `blocks` newly dirty blocks of the frame at `place`.
    WARREN_HD void count_dirty(u64 place, u32 blocks = 1) {
        dirtied_ += blocks;
        device_atomic<u64>(store.state->dirty_blocks).fetch_add(blocks, hd::memory_order_relaxed);
        set_bit(store.dirty_frames, place / format::frame_size);
    }

    /// Passes the freeze barrier if the journal has room for the credits. Called by one lane.
    WARREN_HD Errc pass_barrier() {
        if (barrier_is_held) return Errc::ok;
        WARREN_TRY(held_.pass_barrier(*store.state, team.worker));
        const Errc code = JournalRoom::now(*store.state).verdict(credits_);
        if (code != Errc::ok) held_.leave();
        return code;
    }

    /// The number of blocks that all lanes together have newly dirtied in this apply.
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

    /// Takes all locks; each lane takes its own. If one cannot be taken, releases the others and
    /// returns false.
    WARREN_HD bool try_locks() {
        bool lost = false;
        locks_held_ = 0;
        // lock_rows is 1 for a warp, which has a lane for each lock: this bound tells the compiler
        // that the loop runs at most once.
        for (u32 row = 0; row < lock_rows && !lost; ++row) {
            if (row * Team::width + team.lane() >= lock_count_) break;
            const Lock& lock = locks_[row];
            u64 expected = lock.version;
            // Acquire: pairs with the release in unlock() by the previous holder.
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

    /// Releases the locks that this lane holds; their versions grow by `step`.
    WARREN_HD void unlock(u64 step) {
        // Several lanes: this fence makes their relaxed stores releases. One lane: release stores.
        // Pairs with the acquire in observe() and try_locks().
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

    // Lane i % W holds lock i: a warp keeps all locks in registers.
    static constexpr u32 lock_rows = (locks_max + Team::width - 1) / Team::width;
    Lock locks_[lock_rows];
    u32 pins_[pins_max];
    Run reservations_[reservations_max];
    u32 lock_count_ = 0;
    u32 locks_held_ = 0;  // by this lane
    u32 pin_count_ = 0;
    u32 reservation_count_ = 0;
    u32 credits_ = 0;  // the number of blocks that this apply may dirty
    u32 dirtied_ = 0;  // newly dirtied by this lane
    bool applying_ = false;
    JournalCredits held_;
};

}  // namespace warren::core

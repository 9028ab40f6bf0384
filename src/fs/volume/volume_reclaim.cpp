// SPDX-License-Identifier: Apache-2.0
// The work after names are removed: prunes empty leaves and frees inodes without names, files step
// by step, directories with everything below them.
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/volume/listed_removal.hpp"
#include "fs/volume/tree_remover.hpp"
#include "fs/volume/tree_unlinker.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds closing_reclaim_time{1000};

/// Frees an inode without names, a directory by remove_directory().
template <class Remove>
Errc reclaim_inode(VolumeImplementation& volume, Handle handle, const Remove& remove_directory) {
    const Result<Attributes> found = volume.attributes(handle);
    if (!found) return found.code() == Errc::stale ? Errc::ok : found.code();
    return format::is_directory(found->mode) ? remove_directory() : volume.reclaim_by_steps(handle);
}

/// Frees a directory in the orphan directory. Requires: the caller has the turn for it.
Errc remove_in_turn(VolumeImplementation& volume, Handle root, Removal& removal,
                    const ProgressCallback& progress) {
    if (BulkCommands* const bulk = volume.engine().bulk()) {
        const Errc removed = bulk->remove_tree(root.inode, removal);
        if (removed != Errc::not_supported) return removed;
    }
    if (volume.works_on_host() && volume.store().heads == nullptr) {
        const auto on_cpu = [&] {
            return TreeRemover(volume, progress).remove(root.inode, removal);
        };
        return volume.replica() == nullptr ? on_cpu()
                                           : remove_listed_tree(volume, root, removal, on_cpu);
    }
    return volume.remove_by_commands(root.inode, removal);
}

}  // namespace

Errc VolumeImplementation::settle(const ops::Removed& removed) {
    if (removed.prune_inode != 0) {
        // Optional: the removal itself has succeeded.
        static_cast<void>(
            serve_structure({Errc::need_prune, 0, removed.prune_inode, removed.prune_key, true}));
    }
    if (removed.reclaim.inode == 0) return Errc::ok;
    // A directory that has lost its name has no names in it. The caller may be part of a bulk
    // removal, so it must neither start another nor wait for one.
    return reclaim_inode(*this, removed.reclaim,
                         [&] { return reclaim_unless_taken(removed.reclaim, false); });
}

Errc VolumeImplementation::settle_soon(const ops::Removed& removed) {
    ops::Removed rest = removed;
    if (rest.prune_inode != 0 && pending_prunes_.add({{}, rest.prune_inode, rest.prune_key})) {
        rest.prune_inode = 0;
    }
    return settle(rest);
}

void VolumeImplementation::prune_pending() {
    PendingPrunes::List list;
    const u64 count = pending_prunes_.take(list);
    for (u64 i = 0; i < count; ++i)
        static_cast<void>(settle(list[i]));
}

Errc VolumeImplementation::reclaim(Handle handle) {
    return reclaim_inode(*this, handle, [&] {
        Removal removal;
        return remove_detached(handle, removal);
    });
}

Errc VolumeImplementation::reclaim_by_steps(Handle handle, bool although_open,
                                            std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(data_lock(handle.inode), std::defer_lock);
    const bool is_reclaimer = reclaimer_ != nullptr && reclaimer_->is_own_thread();
    // A thread that holds the lock may wait for space, and so for the reclaimer.
    if (is_reclaimer && !lock.try_lock()) return Errc::busy;
    if (!is_reclaimer) lock.lock();
    ops::Command step = command_on(handle);
    step.how = although_open ? 1 : 0;
    for (;;) {
        if (must_stop_reclaiming()) return Errc::busy;
        step.now = now_nanoseconds();
        const Result<ops::Reclaimed> done = ask<Verb::reclaim_step>(step);
        if (!done) return done.code() == Errc::stale ? Errc::ok : done.code();
        if (done->is_done) return settle(done->removed);
        if (Clock::now() > deadline) return Errc::ok;
    }
}

Errc VolumeImplementation::remove_detached(Handle root, Removal& removal,
                                           const ProgressCallback& progress) {
    return or_no_memory([&]() -> Errc {
        const RemovalTurns::Turn turn(removal_turns_, root);
        const Result<Attributes> found = attributes(root);
        if (!found) return found.code() == Errc::stale ? Errc::ok : found.code();
        return remove_in_turn(*this, root, removal, progress);
    });
}

Errc VolumeImplementation::reclaim_unless_taken(Handle directory, bool although_open) {
    return or_no_memory([&] {
        const RemovalTurns::Turn turn(removal_turns_, directory, std::try_to_lock);
        return turn.is_taken() ? reclaim_by_steps(directory, although_open) : Errc::ok;
    });
}

Errc VolumeImplementation::remove_by_commands(u64 directory, Removal& removal) {
    return count_freed(removal, [&] { return remove_by_names(directory, removal); });
}

Errc VolumeImplementation::count_freed(Removal& removal, const std::function<Errc()>& remove) {
    u64& used = store().state->blocks_used;
    WARREN_TRY(refresh_counters());
    const u64 before = relaxed_load(used);
    const Errc removed = or_no_memory(remove);
    const Errc counted = refresh_counters();
    const u64 after = relaxed_load(used);
    removal.blocks += before > after ? before - after : 0;
    return removed == Errc::ok ? counted : removed;
}

Errc VolumeImplementation::remove_by_names(u64 directory, Removal& removal) {
    WARREN_LET(handle, handle_of(directory));
    WARREN_TRY(ask<Verb::start_dying>(command_on(*handle)));
    return TreeUnlinker(*this, removal).remove(*handle);
}

Errc VolumeImplementation::remove_leftovers(u64 directory, u64& files) {
    return or_no_memory([&]() -> Errc {
        WARREN_LET(handle, handle_of(directory));
        Removal removal;
        const Errc removed = TreeUnlinker(*this, removal).remove_files(*handle);
        files += removal.files;
        return removed;
    });
}

void VolumeImplementation::reclaim_at_close() {
    const Clock::time_point deadline = Clock::now() + closing_reclaim_time;
    static_cast<void>(or_no_memory([&] {
        WARREN_LET(directory, handle_of(store().orphan_directory));
        std::vector<u64> orphans;
        WARREN_TRY(read_directory(*directory, 0, [&](const DirectoryEntry& entry) {
            orphans.push_back(entry.inode);
            return true;
        }));
        for (const u64 orphan : orphans) {
            const Result<Attributes> found = attributes_of(orphan);
            // In a damaged volume it may have a name.
            if (!found || found->links != 0) continue;
            const Result<u64> names = ask<Verb::count_names>(command_on(found->handle));
            if (names && *names != 0) continue;
            // An orphan that cannot be freed does not stop the others.
            static_cast<void>(reclaim_by_steps(found->handle, true, deadline));
            if (Clock::now() > deadline) break;
        }
        return Errc::ok;
    }));
}

void VolumeImplementation::start_reclaimer(const std::string& name) {
    reclaimer_ = std::make_unique<OrphanReclaimer>(*this, name);
    reclaimer_->start();
}

void VolumeImplementation::finish_reclaiming() {
    if (reclaimer_ != nullptr) reclaimer_->finish();
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// What is left to do when names have gone: empty leaves are pruned, and inodes without names are
// freed, files step by step, directories with all that hangs on them.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/core/tree.hpp"
#include "fs/volume/tree_remover.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;

Errc VolumeImplementation::settle(const ops::Removed& removed) {
    if (removed.prune_inode != 0) {
        // Only tidiness: the removal itself has succeeded.
        static_cast<void>(
            serve_structure({Errc::need_prune, 0, removed.prune_inode, removed.prune_key, true}));
    }
    return removed.reclaim.inode != 0 ? reclaim(removed.reclaim) : Errc::ok;
}

Errc VolumeImplementation::reclaim(Handle handle) {
    const Result<Attributes> found = ask<Verb::get_attributes>(command_on(handle));
    if (!found) return found.code() == Errc::stale ? Errc::ok : found.code();
    if ((found->mode & format::type_mask) != format::type_directory) {
        return reclaim_by_steps(handle);
    }
    Removal removal;
    return remove_detached(handle, removal);
}

Errc VolumeImplementation::reclaim_by_steps(Handle handle, bool although_open) {
    std::unique_lock lock(data_lock(handle.inode));
    ops::Command step = command_on(handle);
    step.how = although_open ? 1 : 0;
    for (;;) {
        step.now = now_nanoseconds();
        const Result<ops::Reclaimed> done = ask<Verb::reclaim_step>(step);
        if (!done) return done.code() == Errc::stale ? Errc::ok : done.code();
        if (done->is_done) return settle(done->removed);
    }
}

namespace {

/// Permission was asked for when the tree was detached.
constexpr Caller nobody{.check = false};

constexpr u32 meddled_max = 1000;  // times that others may change a tree that goes

/// Takes a detached tree apart name by name: for engines that know no faster way, and for a meta
/// buffer of fixed size, where blocks come and go. Directories come to the orphan directory as well
/// before they are looked into, so nobody can move them away or add to them, and what a cut leaves
/// is freed by the next opening. Those that find no room there go as by rm(1), the lowest first.
class TreeUnlinker {
 public:
    TreeUnlinker(VolumeImplementation& volume, Removal& removal)
        : volume_(volume), removal_(removal) {}

    /// Removes the files of a directory and leaves its directories where they are.
    Errc remove_files(Handle directory) {
        detaches_ = false;
        return empty(directory);
    }

    Errc remove(Handle root) {
        detached_.push_back(root);
        while (!detached_.empty()) {
            const Handle directory = detached_.back();
            detached_.pop_back();
            const Errc emptied = empty(directory);
            // Whoever closed it last came to free it too, and was faster.
            if (emptied == Errc::stale) continue;
            WARREN_TRY(emptied);
            WARREN_TRY(volume_.reclaim_by_steps(directory, true));
            ++removal_.directories;
        }
        return Errc::ok;
    }

 private:
    /// Removes the files of a directory and detaches its directories.
    Errc empty(Handle directory) {
        ops::Command read = command_on(directory);
        read.buffer = leaf_.get();
        read.buffer_bytes = sizeof *leaf_;
        while (read.from != core::key_end) {
            const Result<u64> next = volume_.ask<Verb::read_leaf>(read);
            if (!next) return next.code();
            WARREN_TRY(empty_leaf(directory, read.from));
            read.from = *next;
        }
        return Errc::ok;
    }

    Errc empty_leaf(Handle directory, u64 from) {
        const char* heap = reinterpret_cast<const char*>(leaf_->heap);
        ops::Removed emptied;
        for (u32 i = 0; i < format::leaf_entries_max; ++i) {
            const format::DirectorySlot slot = leaf_->slots[i];
            const u64 key = format::entry_key(leaf_->hashes[i], slot);
            if (slot.inode() == 0 || key < from) continue;
            if (slot.name_offset() + slot.name_length() > format::leaf_heap_bytes) {
                return Errc::corrupt;
            }
            const std::string_view name(heap + slot.name_offset(), slot.name_length());
            const bool is_directory = slot.type() == format::entry_type(format::type_directory);
            if (is_directory && !detaches_) continue;
            Errc removed =
                is_directory ? detach(directory, name) : volume_.unlink(nobody, directory, name);
            if (is_directory && removed == Errc::no_space) removed = take_apart(directory, name);
            // Somebody else was faster.
            if (removed == Errc::no_entry) continue;
            WARREN_TRY(removed);
            if (is_directory) {
                emptied.prune_inode = directory.inode;
                emptied.prune_key = key;
            } else {
                ++removal_.files;
            }
        }
        return volume_.settle(emptied);
    }

    Errc detach(Handle parent, std::string_view name) {
        ops::Command command = command_on(parent);
        set_name(command, name);
        command.now = now_nanoseconds();
        const Result<Handle> detached = volume_.ask<Verb::detach_tree>(command);
        if (detached) detached_.push_back(*detached);
        return detached.code();
    }

    /// A directory that still has its name, and how far it has been read.
    struct Level {
        Handle parent;
        std::string name;
        Handle directory;
        u64 from = 0;
    };

    /// Removes the directory (parent, name) after what is below it.
    Errc take_apart(Handle parent, std::string_view name) {
        if (below_ == nullptr) below_ = std::make_unique<format::DirectoryLeaf>();
        std::vector<Level> levels;
        WARREN_TRY(go_down(levels, parent, name));
        for (u32 meddled = 0; !levels.empty();) {
            if (levels.back().from != core::key_end) {
                const Errc emptied = empty_level(levels);
                if (emptied == Errc::ok) continue;
                if (emptied != Errc::stale) return emptied;
            }
            const Level& lowest = levels.back();
            const Errc removed = volume_.remove_directory(nobody, lowest.parent, lowest.name);
            if (removed == Errc::ok) {
                ++removal_.directories;
                levels.pop_back();
                continue;
            }
            // Somebody else is at work here. The level above is read again.
            const bool is_gone = removed == Errc::no_entry || removed == Errc::stale ||
                                 removed == Errc::not_directory;
            if (++meddled == meddled_max || (!is_gone && removed != Errc::not_empty)) {
                return removed;
            }
            levels.back().from = 0;
            if (is_gone) levels.pop_back();
        }
        return Errc::ok;
    }

    Errc go_down(std::vector<Level>& levels, Handle parent, std::string_view name) {
        ops::Command find = command_on(parent);
        set_name(find, name);
        const Result<Attributes> found = volume_.ask<Verb::lookup>(find);
        if (!found) return found.code();
        levels.push_back({parent, std::string(name), found->handle});
        return Errc::ok;
    }

    /// Unlinks the files of one leaf of the lowest level, and goes down to a directory if it names
    /// one.
    Errc empty_level(std::vector<Level>& levels) {
        const Handle directory = levels.back().directory;
        ops::Command read = command_on(directory);
        read.from = levels.back().from;
        read.buffer = below_.get();
        read.buffer_bytes = sizeof *below_;
        const Result<u64> next = volume_.ask<Verb::read_leaf>(read);
        if (!next) return next.code();
        const char* heap = reinterpret_cast<const char*>(below_->heap);
        for (u32 i = 0; i < format::leaf_entries_max; ++i) {
            const format::DirectorySlot slot = below_->slots[i];
            if (slot.inode() == 0) continue;
            if (slot.name_offset() + slot.name_length() > format::leaf_heap_bytes) {
                return Errc::corrupt;
            }
            const std::string_view name(heap + slot.name_offset(), slot.name_length());
            const bool is_directory = slot.type() == format::entry_type(format::type_directory);
            const Errc done = is_directory ? go_down(levels, directory, name)
                                           : volume_.unlink(nobody, directory, name);
            if (done == Errc::no_entry) continue;
            if (done != Errc::ok || is_directory) return done;
            ++removal_.files;
        }
        levels.back().from = *next;
        return Errc::ok;
    }

    VolumeImplementation& volume_;
    Removal& removal_;
    bool detaches_ = true;
    std::vector<Handle> detached_;
    std::unique_ptr<format::DirectoryLeaf> leaf_ = std::make_unique<format::DirectoryLeaf>();
    std::unique_ptr<format::DirectoryLeaf> below_;  // for directories that keep their names
};

}  // namespace

Errc VolumeImplementation::remove_detached(Handle root, Removal& removal) {
    return or_no_memory([&]() -> Errc {
        const RemovalTurns::Turn turn(removal_turns_, root.inode);
        const Result<Attributes> found = ask<Verb::get_attributes>(command_on(root));
        if (!found) return found.code() == Errc::stale ? Errc::ok : found.code();
        return remove_in_turn(root, removal);
    });
}

Errc VolumeImplementation::remove_in_turn(Handle root, Removal& removal) {
    const Errc removed = engine_->remove_tree(root.inode, removal);
    if (removed != Errc::not_supported) return removed;
    if (works_on_host() && store().heads == nullptr) {
        return TreeRemover(*this).remove(root.inode, removal);
    }
    const u64& used = store().state->blocks_used;
    WARREN_TRY(engine_->refresh_counters());
    const u64 before = relaxed_load(used);
    WARREN_TRY(remove_by_names(root.inode, removal));
    WARREN_TRY(engine_->refresh_counters());
    const u64 after = relaxed_load(used);
    removal.blocks += before > after ? before - after : 0;
    return Errc::ok;
}

Errc VolumeImplementation::remove_by_names(u64 directory, Removal& removal) {
    ops::Command find;
    find.from = directory;
    WARREN_TRY(ask<Verb::start_dying>(find));
    const Result<Handle> handle = ask<Verb::handle_of>(find);
    if (!handle) return handle.code();
    return TreeUnlinker(*this, removal).remove(*handle);
}

Errc VolumeImplementation::remove_leftovers(u64 directory, u64& files) {
    return or_no_memory([&]() -> Errc {
        ops::Command find;
        find.from = directory;
        const Result<Handle> handle = ask<Verb::handle_of>(find);
        if (!handle) return handle.code();
        Removal removal;
        const Errc removed = TreeUnlinker(*this, removal).remove_files(*handle);
        files += removal.files;
        return removed;
    });
}

Errc VolumeImplementation::reclaim_orphans() {
    return or_no_memory([&]() -> Errc {
        ops::Command find;
        find.from = store().orphan_directory;
        const Result<Handle> directory = ask<Verb::handle_of>(find);
        if (!directory) return directory.code();
        std::vector<u64> orphans;
        const auto leaf = std::make_unique<format::DirectoryLeaf>();
        ops::Command read = command_on(*directory);
        read.buffer = leaf.get();
        read.buffer_bytes = sizeof *leaf;
        while (read.from != core::key_end) {
            const Result<u64> next = ask<Verb::read_leaf>(read);
            if (!next) return next.code();
            for (const format::DirectorySlot& slot : leaf->slots) {
                if (slot.inode() == 0) continue;
                orphans.push_back(slot.inode());
                if (slot.type() != format::entry_type(format::type_directory)) continue;
                // Of those that a cut removal left, not all know that they are going.
                find.from = slot.inode();
                WARREN_TRY(ask<Verb::start_dying>(find));
            }
            read.from = *next;
        }
        for (const u64 orphan : orphans) {
            find.from = orphan;
            const Result<Handle> handle = ask<Verb::handle_of>(find);
            if (!handle) return handle.code();
            WARREN_TRY(reclaim(*handle));
        }
        return Errc::ok;
    });
}

}  // namespace warren

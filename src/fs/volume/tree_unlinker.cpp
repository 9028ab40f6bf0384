// SPDX-License-Identifier: Apache-2.0
// All names of the next leaves of several directories are one call of the engine: on a GPU each is
// run by a warp, and commands that lack a block wait for it while the others continue.
#include "fs/volume/tree_unlinker.hpp"

#include <algorithm>
#include <utility>

#include "fs/check/directory_entries.hpp"

namespace warren {

using ops::Verb;

namespace {

/// Permission was checked when the tree was detached.
constexpr Caller nobody{.check = false};

constexpr u32 meddled_max = 1000;        // times that other processes may change a tree during its
                                         // removal
constexpr u64 directories_at_once = 64;  // more do not increase an engine's parallelism

/// Commands that run in parallel must leave each other room in a meta buffer.
u64 wave_for(VolumeImplementation& volume) {
    if (volume.works_on_host()) return 1;
    const u64 buffer_blocks = volume.engine().meta_buffer_blocks();
    if (buffer_blocks == 0) return directories_at_once;
    return std::clamp<u64>(buffer_blocks / format::leaf_entries_max, 1, directories_at_once);
}

/// The replies to `commands`.
std::vector<ops::Reply> replies_to(VolumeImplementation& volume,
                                   const std::vector<ops::Command>& commands) {
    std::vector<ops::Reply> replies(commands.size());
    volume.execute_many(commands, replies);
    return replies;
}

void keep_first(Errc& first, Errc code) {
    if (first == Errc::ok) first = code;
}

}  // namespace

TreeUnlinker::TreeUnlinker(VolumeImplementation& volume, Removal& removal)
    : volume_(volume), removal_(removal), wave_max_(wave_for(volume)) {}

Errc TreeUnlinker::remove_files(Handle directory) {
    detaches_ = false;
    std::vector<Emptied> wave = {{directory}};
    WARREN_TRY(empty(wave));
    return wave.empty() ? Errc::stale : Errc::ok;
}

Errc TreeUnlinker::remove(Handle root) {
    detached_.push_back(root);
    while (!detached_.empty()) {
        std::vector<Emptied> wave;
        while (!detached_.empty() && wave.size() < wave_max_) {
            wave.push_back({detached_.back()});
            detached_.pop_back();
        }
        WARREN_TRY(empty(wave));
        for (const Emptied& one : wave) {
            WARREN_TRY(volume_.reclaim_by_steps(one.directory, true));
            ++removal_.directories;
        }
    }
    return Errc::ok;
}

/// Removes the files of all directories of the wave and detaches their directories. Directories
/// that are gone leave the wave.
Errc TreeUnlinker::empty(std::vector<Emptied>& wave) {
    const auto is_over = [](const Emptied& one) {
        return one.is_gone || one.from == core::key_end;
    };
    while (!std::ranges::all_of(wave, is_over)) {
        if (volume_.must_stop_reclaiming()) return Errc::busy;
        WARREN_TRY(read_leaves(wave));
        WARREN_TRY(remove_names());
    }
    std::erase_if(wave, [](const Emptied& one) { return one.is_gone; });
    return Errc::ok;
}

/// Reads the next leaf of each directory and lists its names.
Errc TreeUnlinker::read_leaves(std::vector<Emptied>& wave) {
    leaves_.resize(wave.size());
    std::vector<std::size_t> read;
    std::vector<ops::Command> commands;
    for (std::size_t i = 0; i < wave.size(); ++i) {
        if (wave[i].is_gone || wave[i].from == core::key_end) continue;
        ops::Command& command = commands.emplace_back(command_on(wave[i].directory));
        command.verb = Verb::read_leaf;
        command.from = wave[i].from;
        command.buffer = &leaves_[i];
        command.buffer_bytes = sizeof leaves_[i];
        read.push_back(i);
    }
    const std::vector<ops::Reply> replies = replies_to(volume_, commands);
    names_.clear();
    for (std::size_t k = 0; k < read.size(); ++k) {
        Emptied& one = wave[read[k]];
        const u64 from = one.from;
        one.is_gone = replies[k].code == Errc::stale;
        if (one.is_gone) continue;
        WARREN_TRY(replies[k].code);
        one.from = replies[k].value;
        WARREN_TRY(for_each_entry(leaves_[read[k]], from, [&](const EntryView& entry) {
            const bool is_directory = entry.type == format::entry_type(format::type_directory);
            if (is_directory && !detaches_) return;
            names_.push_back({&one, entry.key, entry.name, is_directory});
        }));
    }
    return Errc::ok;
}

/// Unlinks the listed files and detaches the directories. Returns the first error, after finishing
/// the other removals.
Errc TreeUnlinker::remove_names() {
    std::vector<ops::Command> commands;
    commands.reserve(names_.size());
    detached_.reserve(detached_.size() + names_.size());
    const i64 now = now_nanoseconds();
    for (const Named& one : names_) {
        ops::Command& command = commands.emplace_back(command_on(one.in->directory));
        command.verb = one.is_directory ? Verb::detach_tree : Verb::unlink;
        set_name(command, one.name);
        command.now = now;
    }
    const std::vector<ops::Reply> replies = replies_to(volume_, commands);
    Errc first = Errc::ok;
    ops::Removed emptied;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        const Named& one = names_[i];
        keep_first(first, finish(one, replies[i]));
        // A detach does not report leaves that become empty: each is checked once.
        if (emptied.prune_inode != 0 && emptied.prune_inode != one.in->directory.inode) {
            keep_first(first, volume_.settle(std::exchange(emptied, {})));
        }
        if (!one.is_directory) continue;
        emptied.prune_inode = one.in->directory.inode;
        emptied.prune_key = one.key;
    }
    keep_first(first, volume_.settle(emptied));
    return first;
}

/// Finishes the removal of a name.
Errc TreeUnlinker::finish(const Named& one, const ops::Reply& reply) {
    // Another process has removed this name, or the whole directory.
    if (reply.code == Errc::stale) one.in->is_gone = true;
    if (reply.code == Errc::no_entry || reply.code == Errc::stale) return Errc::ok;
    if (!one.is_directory) {
        WARREN_TRY(reply.code);
        ++removal_.files;
        return volume_.settle(reply.removed);
    }
    if (reply.code == Errc::no_space) return take_apart(one.in->directory, one.name);
    WARREN_TRY(reply.code);
    detached_.push_back(reply.attributes.handle);  // there is room
    return Errc::ok;
}

/// Removes the directory (parent, name) after what is below it.
Errc TreeUnlinker::take_apart(Handle parent, std::string_view name) {
    if (below_ == nullptr) below_ = std::make_unique<format::DirectoryLeaf>();
    std::vector<Level> levels;
    WARREN_TRY(go_down(levels, parent, name));
    for (u32 meddled = 0; !levels.empty();) {
        if (levels.back().from != core::key_end) {
            const Errc emptied = empty_level(levels);
            if (emptied == Errc::ok) continue;
            // The last two: a file and a directory were exchanged since they were read.
            const bool is_meddled = emptied == Errc::stale || emptied == Errc::is_directory ||
                                    emptied == Errc::not_directory;
            if (!is_meddled) return emptied;
        }
        const Level& lowest = levels.back();
        const Errc removed = volume_.remove_directory(nobody, lowest.parent, lowest.name);
        if (removed == Errc::ok) {
            ++removal_.directories;
            levels.pop_back();
            continue;
        }
        // Another process changes this directory: read the level above again.
        const bool is_gone =
            removed == Errc::no_entry || removed == Errc::stale || removed == Errc::not_directory;
        if (++meddled == meddled_max || (!is_gone && removed != Errc::not_empty)) {
            return removed;
        }
        levels.back().from = 0;
        if (is_gone) levels.pop_back();
    }
    return Errc::ok;
}

Errc TreeUnlinker::go_down(std::vector<Level>& levels, Handle parent, std::string_view name) {
    ops::Command find = command_on(parent);
    set_name(find, name);
    const Result<Attributes> found = volume_.ask<Verb::lookup>(find);
    if (!found) return found.code();
    levels.push_back({parent, std::string(name), found->handle});
    return Errc::ok;
}

/// Unlinks the files of one leaf of the lowest level, and descends into a directory if there is
/// one.
Errc TreeUnlinker::empty_level(std::vector<Level>& levels) {
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

}  // namespace warren

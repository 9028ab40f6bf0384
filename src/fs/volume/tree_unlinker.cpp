// SPDX-License-Identifier: Apache-2.0
// All names in the next leaves of several directories are removed by one call of the engine: on a
// GPU each by a warp, and commands that lack a block wait for it while the others continue.
#include "fs/volume/tree_unlinker.hpp"

#include <algorithm>
#include <utility>

#include "fs/check/directory_entries.hpp"
#include "fs/volume/remove_as_rm.hpp"

namespace warren {

using ops::Verb;

namespace {

constexpr u32 meddled_max = 1000;        // retries after changes of the tree by other processes
constexpr u64 directories_at_once = 64;  // more do not increase an engine's parallelism

/// The number of directories to empty in parallel: their commands must all fit in a meta buffer.
u64 wave_for(VolumeImplementation& volume) {
    if (volume.works_on_host()) return 1;
    const MetaBuffer* const buffer = volume.engine_buffer();
    if (buffer == nullptr) return directories_at_once;
    return std::clamp<u64>(buffer->meta_buffer_blocks() / format::leaf_entries_max, 1,
                           directories_at_once);
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
            WARREN_TRY(one.directory == root ? volume_.reclaim_by_steps(root, true)
                                             : volume_.reclaim_unless_taken(one.directory, true));
            ++removal_.directories;
        }
    }
    return Errc::ok;
}

/// Removes the files of all directories of the wave, and detaches their subdirectories. Erases
/// directories that are gone from the wave.
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
    const std::vector<ops::Reply> replies = volume_.execute_many(commands);
    names_.clear();
    for (std::size_t k = 0; k < read.size(); ++k) {
        Emptied& one = wave[read[k]];
        const u64 from = one.from;
        one.is_gone = replies[k].code == Errc::stale;
        if (one.is_gone) continue;
        WARREN_TRY(replies[k].code);
        one.from = replies[k].value;
        WARREN_TRY(for_each_entry(leaves_[read[k]], from, [&](const EntryView& entry) {
            const bool is_directory = entry.type == format::directory_entry;
            if (is_directory && !detaches_) return;
            names_.push_back({&one, entry.key, entry.name, is_directory});
        }));
    }
    return Errc::ok;
}

/// Unlinks the listed files and detaches the listed directories. Finishes all removals before it
/// returns the first error.
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
    const std::vector<ops::Reply> replies = volume_.execute_many(commands);
    Errc first = Errc::ok;
    ops::Removed emptied;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        const Named& one = names_[i];
        keep_first(first, finish(one, replies[i]));
        // A detach does not report a leaf that becomes empty, so each leaf is checked once.
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
    detached_.push_back(reply.attributes.handle);  // memory was reserved
    return Errc::ok;
}

/// Removes the directory (parent, name) name by name, with everything below it.
Errc TreeUnlinker::take_apart(Handle parent, std::string_view name) {
    for (u32 meddled = 0;; ++meddled) {
        // Permission was checked when the tree was detached.
        const Errc removed = remove_as_rm(volume_, unchecked, parent, name, removal_);
        if (removed == Errc::no_entry || removed == Errc::stale) return Errc::ok;
        // Another process has added a name, or exchanged a file and a directory, since the names
        // were read: try again.
        const bool is_meddled = removed == Errc::not_empty || removed == Errc::is_directory ||
                                removed == Errc::not_directory;
        if (!is_meddled || meddled == meddled_max) return removed;
    }
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The public calls on names: each is one command, and the work that follows a removal.
#include <algorithm>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/check/directory_entries.hpp"
#include "fs/core/tree.hpp"
#include "fs/volume/name_commands.hpp"

namespace warren {

using ops::Verb;

Result<Attributes> Volume::lookup(const Caller& caller, Handle directory, std::string_view name,
                                  Hold hold) {
    VolumeImplementation& volume = *implementation_;
    return volume.ask<Verb::lookup>([&](ops::Command& command) {
        set_named(command, directory, name, caller);
        command.references = volume.references_for(hold, false);
    });
}

Result<Attributes> Volume::create(const Caller& caller, Handle directory, std::string_view name,
                                  const CreateOptions& options) {
    VolumeImplementation& volume = *implementation_;
    return volume.ask<Verb::create>([&](ops::Command& command) {
        set_creation(command, volume, caller, directory, name, options);
    });
}

Result<Attributes> Volume::create_unnamed(const Caller& caller, Handle directory,
                                          const CreateOptions& options) {
    VolumeImplementation& volume = *implementation_;
    return volume.ask<Verb::create_unnamed>([&](ops::Command& command) {
        set_creation(command, volume, caller, directory, "", options);
        command.references |= ops::one_open;
    });
}

Result<Attributes> Volume::link(const Caller& caller, Handle file, Handle directory,
                                std::string_view name, Hold hold) {
    VolumeImplementation& volume = *implementation_;
    return volume.ask<Verb::link>([&](ops::Command& command) {
        set_subject(command, file, caller);
        command.target = directory;
        set_name(command, name);
        command.references = volume.references_for(hold, false);
        command.now = now_nanoseconds();
    });
}

Errc Volume::unlink(const Caller& caller, Handle directory, std::string_view name) {
    return implementation_->remove_name<Verb::unlink>(caller, directory, name);
}

Errc Volume::remove_directory(const Caller& caller, Handle directory, std::string_view name) {
    return implementation_->remove_name<Verb::remove_directory>(caller, directory, name);
}

Errc Volume::rename(const Caller& caller, Handle from, std::string_view name, Handle to,
                    std::string_view new_name, Rename how) {
    VolumeImplementation& volume = *implementation_;
    ops::MoveWalk walk;
    const Result<ops::Removed> removed = volume.ask<Verb::rename>([&](ops::Command& command) {
        set_move(command, caller, {from, name, to, new_name}, how);
        command.walk = &walk;
    });
    return removed ? volume.settle(*removed) : removed.code();
}

namespace {

/// Cookies are higher than keys, so that "." and ".." come before the first key.
constexpr u64 cookie_of_key(u64 key) {
    return key + 3;
}

}  // namespace

Errc Volume::read_directory(Handle directory, u64 cookie,
                            const std::function<bool(const DirectoryEntry&)>& emit) {
    return implementation_->read_directory(directory, cookie, emit);
}

Errc VolumeImplementation::read_directory(Handle directory, u64 cookie,
                                          const std::function<bool(const DirectoryEntry&)>& emit) {
    return or_no_memory([&]() -> Errc {
        const auto leaf = std::make_unique<format::DirectoryLeaf>();
        ops::Command command = command_on(directory);
        command.buffer = leaf.get();
        command.buffer_bytes = sizeof *leaf;
        std::vector<EntryView> entries;
        entries.reserve(format::leaf_entries_max);
        command.from = cookie < 3 ? 0 : cookie - 3 + 1;
        for (;;) {
            WARREN_LET(next, ask<Verb::read_leaf>(command));
            entries.clear();
            WARREN_TRY(for_each_entry(*leaf, command.from,
                                      [&](const EntryView& entry) { entries.push_back(entry); }));
            std::ranges::sort(entries, {}, &EntryView::key);
            for (const EntryView& at : entries) {
                DirectoryEntry entry;
                entry.name = at.name;
                entry.inode = at.inode;
                entry.type = at.type;
                entry.cookie = cookie_of_key(at.key);
                if (!emit(entry)) return Errc::ok;
            }
            if (*next == core::key_end) return Errc::ok;
            command.from = *next;
        }
    });
}

Result<std::string> Volume::read_link(Handle link) {
    return or_no_memory([&]() -> Result<std::string> {
        char target[format::target_length_max + 1];
        ops::Command command = command_on(link);
        command.buffer = target;
        command.buffer_bytes = sizeof target;
        WARREN_LET(length, implementation_->ask<Verb::read_link>(command));
        return std::string(target, *length);
    });
}

}  // namespace warren

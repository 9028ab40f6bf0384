// SPDX-License-Identifier: Apache-2.0
// Calls for many items, run as commands. Consecutive items that change different names are one call
// of the engine. The move of a directory runs alone, because the paths of other items may depend on
// it; a directory is removed after its entries.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "fs/volume/item_parts.hpp"
#include "fs/volume/name_commands.hpp"
#include "fs/volume/volume_batches.hpp"

namespace warren {
namespace {

using ops::Verb;

/// Runs `count` commands, which `fill(i, command)` sets, and returns their replies.
template <class Fill>
std::vector<ops::Reply> replies_to(VolumeImplementation& volume, u64 count, const Fill& fill) {
    std::vector<ops::Command> commands(count);
    for (u64 i = 0; i < count; ++i)
        fill(i, commands[i]);
    return volume.execute_many(commands);
}

/// The result of a removal or a move, which this settles.
Errc settled(VolumeImplementation& volume, const ops::Reply& reply) {
    return reply.code == Errc::ok ? volume.settle(reply.removed) : reply.code;
}

/// Runs moves of different names.
void move_row(VolumeImplementation& volume, const Caller& caller, std::span<const Move> moves,
              std::span<Errc> results) {
    const auto found = replies_to(volume, moves.size(), [&](u64 i, ops::Command& command) {
        set_named(command, moves[i].from, moves[i].name, caller);
        command.verb = Verb::lookup;
    });
    const auto is_directory = [&](std::size_t i) {
        return found[i].code == Errc::ok && format::is_directory(found[i].attributes.mode);
    };
    for (std::size_t begin = 0; begin < moves.size();) {
        std::size_t end = begin + 1;
        while (!is_directory(begin) && end < moves.size() && !is_directory(end))
            ++end;
        ops::MoveWalk walk;
        const auto moved = replies_to(volume, end - begin, [&](u64 i, ops::Command& command) {
            set_move(command, caller, moves[begin + i], Rename::replace);
            command.verb = Verb::rename;
            if (is_directory(begin)) command.walk = &walk;  // it is the only one
        });
        for (std::size_t i = begin; i < end; ++i)
            results[i] = settled(volume, moved[i - begin]);
        begin = end;
    }
}

/// The end of the removals of directories, from `begin` on, that may run in parallel: none of the
/// directories is in another. `found` holds the lookup of each name.
std::size_t independent_end(std::span<const Unlink> names, const std::vector<ops::Reply>& found,
                            std::size_t begin) {
    std::unordered_set<u64> parents;
    std::unordered_set<u64> removed;
    std::size_t end = begin;
    for (; end < names.size(); ++end) {
        const u64 parent = names[end].directory.inode;
        const bool exists = found[end].code == Errc::ok;
        const u64 inode = exists ? found[end].attributes.handle.inode : 0;
        if (removed.contains(parent) || (exists && parents.contains(inode))) break;
        parents.insert(parent);
        if (exists) removed.insert(inode);
    }
    return end;
}

/// Runs removals of different names, all of directories or all of other files.
void remove_row(VolumeImplementation& volume, const Caller& caller, std::span<const Unlink> names,
                std::span<Errc> results) {
    const bool of_directories = names[0].is_directory;
    const auto fill = [&](u64 item, Verb verb, ops::Command& command) {
        set_named(command, names[item].directory, names[item].name, caller);
        command.verb = verb;
        command.now = now_nanoseconds();
    };
    std::vector<ops::Reply> found;
    if (of_directories) {
        found = replies_to(volume, names.size(),
                           [&](u64 i, ops::Command& command) { fill(i, Verb::lookup, command); });
    }
    const Verb verb = of_directories ? Verb::remove_directory : Verb::unlink;
    for (std::size_t begin = 0; begin < names.size();) {
        const std::size_t end =
            of_directories ? independent_end(names, found, begin) : names.size();
        const auto removed = replies_to(volume, end - begin, [&](u64 i, ops::Command& command) {
            fill(begin + i, verb, command);
        });
        for (std::size_t i = begin; i < end; ++i)
            results[i] = settled(volume, removed[i - begin]);
        begin = end;
    }
}

}  // namespace

void create_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Creation> creations,
                        std::span<Result<Attributes>> results) {
    for_each_distinct(creations, [&](u64 begin, u64 count) {
        const auto made = replies_to(volume, count, [&](u64 i, ops::Command& command) {
            const Creation& one = creations[begin + i];
            set_creation(command, volume, caller, one.directory, one.name, one.options);
            command.verb = Verb::create;
        });
        for (u64 i = 0; i < count; ++i)
            ops::get_answer(made[i], results[begin + i]);
    });
}

void move_by_commands(VolumeImplementation& volume, const Caller& caller,
                      std::span<const Move> moves, std::span<Errc> results) {
    for_each_distinct(moves, [&](u64 begin, u64 count) {
        move_row(volume, caller, moves.subspan(begin, count), results.subspan(begin));
    });
}

void remove_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Unlink> names, std::span<Errc> results) {
    for_each_kind(names, [&](u64 first, u64 alike) {
        for_each_distinct(names.subspan(first, alike), [&](u64 begin, u64 count) {
            remove_row(volume, caller, names.subspan(first + begin, count),
                       results.subspan(first + begin));
        });
    });
}

void look_up_by_commands(VolumeImplementation& volume, const Caller& caller,
                         std::span<const Lookup> lookups, std::span<Result<Attributes>> results) {
    constexpr u64 given_max = 65536;
    for (u64 begin = 0; begin < lookups.size(); begin += given_max) {
        const u64 count = std::min(given_max, lookups.size() - begin);
        const auto found = replies_to(volume, count, [&](u64 i, ops::Command& command) {
            set_named(command, lookups[begin + i].directory, lookups[begin + i].name, caller);
            command.verb = Verb::lookup;
        });
        for (u64 i = 0; i < count; ++i)
            ops::get_answer(found[i], results[begin + i]);
    }
}

}  // namespace warren

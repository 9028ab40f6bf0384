// SPDX-License-Identifier: Apache-2.0
// Many items as commands, wave by wave: those of a wave touch different names and are given to the
// engine at once. A directory moves alone, for where others lead may depend on it; it is removed
// behind what was removed in it.
#include <unordered_set>
#include <vector>

#include "fs/volume/item_waves.hpp"
#include "fs/volume/volume_batches.hpp"

namespace warren {
namespace {

using ops::Verb;

/// What an engine gets at once.
constexpr u64 wave_items_max = 65536;

/// The answers of `count` commands that `fill(i, command)` writes.
template <class Fill>
std::vector<ops::Reply> replies_to(VolumeImplementation& volume, u64 count, const Fill& fill) {
    std::vector<ops::Command> commands(count);
    std::vector<ops::Reply> replies(count);
    for (u64 i = 0; i < count; ++i)
        fill(i, commands[i]);
    volume.execute_many(commands, replies);
    return replies;
}

Result<Attributes> attributes_in(const ops::Reply& reply) {
    return reply.code == Errc::ok ? Result<Attributes>(reply.attributes)
                                  : Result<Attributes>(reply.code);
}

/// The moves of one wave.
void move_wave(VolumeImplementation& volume, const Caller& caller, std::span<const Move> moves,
               const std::vector<u64>& items, std::span<Errc> results) {
    const auto found = replies_to(volume, items.size(), [&](u64 i, ops::Command& command) {
        set_subject(command, moves[items[i]].from, caller);
        command.verb = Verb::lookup;
        set_name(command, moves[items[i]].name);
    });
    const auto is_directory = [&](std::size_t i) {
        return found[i].code == Errc::ok &&
               (found[i].attributes.mode & format::type_mask) == format::type_directory;
    };
    for (std::size_t begin = 0; begin < items.size();) {
        std::size_t end = begin + 1;
        while (!is_directory(begin) && end < items.size() && !is_directory(end))
            ++end;
        ops::MoveWalk walk;
        const auto moved = replies_to(volume, end - begin, [&](u64 i, ops::Command& command) {
            set_move(command, caller, moves[items[begin + i]], Rename::replace);
            command.verb = Verb::rename;
            if (is_directory(begin)) command.walk = &walk;  // it is alone
        });
        for (std::size_t i = begin; i < end; ++i) {
            const ops::Reply& reply = moved[i - begin];
            const bool is_moved = reply.code == Errc::ok;
            results[items[i]] = is_moved ? volume.settle(reply.removed) : reply.code;
        }
        begin = end;
    }
}

/// How far the removals of directories from `begin` on may run at once: none is in another.
/// `found` is what each name leads to.
std::size_t independent_end(std::span<const Unlink> names, const std::vector<u64>& items,
                            const std::vector<ops::Reply>& found, std::size_t begin) {
    std::unordered_set<u64> parents;
    std::unordered_set<u64> removed;
    std::size_t end = begin;
    for (; end < items.size(); ++end) {
        const u64 parent = names[items[end]].directory.inode;
        const bool exists = found[end].code == Errc::ok;
        const u64 inode = exists ? found[end].attributes.handle.inode : 0;
        if (removed.contains(parent) || (exists && parents.contains(inode))) break;
        parents.insert(parent);
        if (exists) removed.insert(inode);
    }
    return end;
}

/// The removals of one wave, all of directories or none.
void remove_wave(VolumeImplementation& volume, const Caller& caller, std::span<const Unlink> names,
                 const std::vector<u64>& items, std::span<Errc> results) {
    if (items.empty()) return;
    const bool of_directories = names[items[0]].is_directory;
    const auto fill = [&](u64 item, Verb verb, ops::Command& command) {
        set_subject(command, names[item].directory, caller);
        set_name(command, names[item].name);
        command.verb = verb;
        command.now = now_nanoseconds();
    };
    std::vector<ops::Reply> found;
    if (of_directories) {
        found = replies_to(volume, items.size(), [&](u64 i, ops::Command& command) {
            fill(items[i], Verb::lookup, command);
        });
    }
    const Verb verb = of_directories ? Verb::remove_directory : Verb::unlink;
    for (std::size_t begin = 0; begin < items.size();) {
        const std::size_t end =
            of_directories ? independent_end(names, items, found, begin) : items.size();
        const auto removed = replies_to(volume, end - begin, [&](u64 i, ops::Command& command) {
            fill(items[begin + i], verb, command);
        });
        for (std::size_t i = begin; i < end; ++i) {
            const ops::Reply& reply = removed[i - begin];
            const bool is_removed = reply.code == Errc::ok;
            results[items[i]] = is_removed ? volume.settle(reply.removed) : reply.code;
        }
        begin = end;
    }
}

}  // namespace

void create_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Creation> creations,
                        std::span<Result<Attributes>> results) {
    const auto run_wave = [&](const std::vector<u64>& items) {
        const auto made = replies_to(volume, items.size(), [&](u64 i, ops::Command& command) {
            const Creation& one = creations[items[i]];
            set_creation(command, volume, caller, one.directory, one.name, one.options);
            command.verb = Verb::create;
        });
        for (std::size_t i = 0; i < items.size(); ++i)
            results[items[i]] = attributes_in(made[i]);
    };
    run_in_waves(creations.size(), wave_items_max, keys_of(creations), run_wave);
}

void move_by_commands(VolumeImplementation& volume, const Caller& caller,
                      std::span<const Move> moves, std::span<Errc> results) {
    const auto keys = [&](u64 i) {
        return std::pair(name_key(moves[i].from.inode, moves[i].name),
                         name_key(moves[i].to.inode, moves[i].new_name));
    };
    run_in_waves(moves.size(), wave_items_max, keys, [&](const std::vector<u64>& items) {
        move_wave(volume, caller, moves, items, results);
    });
}

void remove_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Unlink> names, std::span<Errc> results) {
    for_each_kind(names, [&](u64 begin, u64 count) {
        const auto alike = names.subspan(begin, count);
        const auto run_wave = [&](const std::vector<u64>& items) {
            remove_wave(volume, caller, alike, items, results.subspan(begin));
        };
        run_in_waves(count, wave_items_max, keys_of(alike), run_wave);
    });
}

void look_up_by_commands(VolumeImplementation& volume, const Caller& caller,
                         std::span<const Lookup> lookups, std::span<Result<Attributes>> results) {
    for (u64 begin = 0; begin < lookups.size(); begin += wave_items_max) {
        const u64 count = std::min(wave_items_max, lookups.size() - begin);
        const auto found = replies_to(volume, count, [&](u64 i, ops::Command& command) {
            set_subject(command, lookups[begin + i].directory, caller);
            set_name(command, lookups[begin + i].name);
            command.verb = Verb::lookup;
        });
        for (u64 i = 0; i < count; ++i)
            results[begin + i] = attributes_in(found[i]);
    }
}

}  // namespace warren

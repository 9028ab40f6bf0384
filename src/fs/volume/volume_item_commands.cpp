// SPDX-License-Identifier: Apache-2.0
// Many items as commands, wave by wave: those of a wave touch different names and are given to the
// engine at once. A directory moves alone, for where others lead may depend on it.
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
        const auto moved = replies_to(volume, end - begin, [&](u64 i, ops::Command& command) {
            set_move(command, caller, moves[items[begin + i]], Rename::replace);
            command.verb = Verb::rename;
        });
        for (std::size_t i = begin; i < end; ++i) {
            const ops::Reply& reply = moved[i - begin];
            const bool is_moved = reply.code == Errc::ok;
            results[items[i]] = is_moved ? volume.settle(reply.removed) : reply.code;
        }
        begin = end;
    }
}

}  // namespace

void create_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Creation> creations,
                        std::span<Result<Attributes>> results) {
    const auto keys = [&](u64 i) {
        const u64 key = name_key(creations[i].directory.inode, creations[i].name);
        return std::pair(key, key);
    };
    run_in_waves(creations.size(), wave_items_max, keys, [&](const std::vector<u64>& items) {
        const auto made = replies_to(volume, items.size(), [&](u64 i, ops::Command& command) {
            const Creation& one = creations[items[i]];
            set_creation(command, volume, caller, one.directory, one.name, one.options);
            command.verb = Verb::create;
        });
        for (std::size_t i = 0; i < items.size(); ++i)
            results[items[i]] = attributes_in(made[i]);
    });
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

// SPDX-License-Identifier: Apache-2.0
// Bulk operations: one call, all workers.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "fs/core/tree.hpp"
#include "fs/volume/tree_scanner.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;

Errc Volume::remove_tree(const Caller& caller, Handle directory, std::string_view name,
                         Removal& removal) {
    VolumeImplementation& volume = *implementation_;
    const Result<Attributes> target = lookup(caller, directory, name);
    if (!target) return target.code();
    if ((target->mode & format::type_mask) != format::type_directory) {
        const Errc removed = unlink(caller, directory, name);
        if (removed == Errc::ok) ++removal.files;
        return removed;
    }
    if (caller.check && caller.user != 0) {
        WARREN_TRY(volume.check_removable(credentials_of(caller), target->handle));
    }
    ops::Command detach = command_on(directory, caller);
    set_name(detach, name);
    detach.now = now_nanoseconds();
    const Result<Handle> detached = volume.ask<Verb::detach_tree>(detach);
    if (!detached) return detached.code();
    return volume.remove_detached(*detached, removal);
}

namespace {

/// Fewer items than this are done one after the other: waking workers would take longer.
constexpr u64 shared_items_min = 1024;
/// A wave's blocks stay in the processors' caches between looking at its items and doing them.
constexpr u64 wave_items_max = 2048;
/// What an engine gets at once that has memory of its own.
constexpr u64 batch_items_max = 65536;

/// Stands for a name in a directory, as items of a batch depend on each other by it. Two names may
/// have one key; then a wave ends early, no more.
u64 name_key(u64 directory, std::string_view name) {
    constexpr u64 odd_factor = 0x9e37'79b9'7f4a'7c15;
    return std::hash<std::string_view>{}(name) ^ (directory + 1) * odd_factor;
}

/// Cuts a batch into waves: items of one wave touch different names, so their order does not
/// matter.
class Waves {
 public:
    explicit Waves(u64 items_max) : items_max_(items_max) {}

    /// Whether an item on these names may join the wave; if not, the wave must run first.
    bool admits(std::initializer_list<u64> keys) const {
        return items_.size() < items_max_ && std::none_of(keys.begin(), keys.end(), [&](u64 key) {
                   return taken_.contains(key);
               });
    }
    void add(u64 item, std::initializer_list<u64> keys) {
        taken_.insert(keys);
        items_.push_back(item);
    }
    /// The items of the wave; the next one starts empty.
    std::vector<u64> take() {
        taken_.clear();
        return std::exchange(items_, {});
    }

 private:
    const u64 items_max_;
    std::unordered_set<u64> taken_;
    std::vector<u64> items_;
};

/// Cuts items into waves and runs each; `keys(i)` are the two names that item i touches.
template <class Keys, class RunWave>
void run_in_waves(u64 count, u64 items_max, const Keys& keys, const RunWave& run_wave) {
    Waves wave(items_max);
    for (u64 i = 0; i < count; ++i) {
        const auto [first, second] = keys(i);
        if (!wave.admits({first, second})) run_wave(wave.take());
        wave.add(i, {first, second});
    }
    run_wave(wave.take());
}

/// The moves of one wave. Where others lead may depend on the move of a directory, so that runs
/// alone, between the files before and behind it.
template <class MoveOne>
void run_moves(Crew& crew, std::span<const Move> moves, const std::vector<u64>& items,
               const std::vector<u8>& moves_directory, const MoveOne& move) {
    for (std::size_t begin = 0; begin < items.size();) {
        if (moves_directory[begin] != 0) {
            move(items[begin++]);
            continue;
        }
        std::size_t end = begin;
        while (end < items.size() && moves_directory[end] == 0)
            ++end;
        // Neighbours in one directory share leaves: let one worker have them together.
        std::vector<u64> files(items.begin() + static_cast<std::ptrdiff_t>(begin),
                               items.begin() + static_cast<std::ptrdiff_t>(end));
        std::stable_sort(files.begin(), files.end(), [&](u64 a, u64 b) {
            return std::pair(moves[a].from.inode, moves[a].to.inode) <
                   std::pair(moves[b].from.inode, moves[b].to.inode);
        });
        crew.for_each(files.size(), [&](const ThreadTeam&, u64 i) { move(files[i]); });
        begin = end;
    }
}

/// As run_moves(), by batches of commands.
void run_move_batches(VolumeImplementation& volume, const Caller& caller,
                      std::span<const Move> moves, const std::vector<u64>& items,
                      std::span<Errc> results) {
    std::vector<ops::Command> commands(items.size());
    std::vector<ops::Reply> replies(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        commands[i] = command_on(moves[items[i]].from, caller);
        commands[i].verb = Verb::lookup;
        set_name(commands[i], moves[items[i]].name);
    }
    volume.execute_many(commands, replies);
    const auto is_directory = [&](std::size_t i) {
        return replies[i].code == Errc::ok &&
               (replies[i].attributes.mode & format::type_mask) == format::type_directory;
    };
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < items.size(); ++i) {
        commands[i] = {};
        commands[i].verb = Verb::rename;
        set_move(commands[i], caller, moves[items[i]], Rename::replace);
        const bool is_last = i + 1 == items.size();
        if (is_last || is_directory(i) || is_directory(i + 1)) ends.push_back(i + 1);
    }
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        const auto batch = std::span(replies).subspan(begin, end - begin);
        volume.execute_many(std::span(commands).subspan(begin, end - begin), batch);
        for (std::size_t i = begin; i < end; ++i) {
            const Errc moved = replies[i].code;
            results[items[i]] = moved == Errc::ok ? volume.settle(replies[i].removed) : moved;
        }
        begin = end;
    }
}

}  // namespace

void Volume::move_many(const Caller& caller, std::span<const Move> moves, std::span<Errc> results) {
    VolumeImplementation& volume = *implementation_;
    const auto move = [&](u64 i) {
        results[i] = rename(caller, moves[i].from, moves[i].name, moves[i].to, moves[i].new_name);
    };
    const bool is_host = volume.works_on_host();
    if (is_host && moves.size() < shared_items_min) {
        for (u64 i = 0; i < moves.size(); ++i)
            move(i);
        return;
    }
    const auto keys = [&](u64 i) {
        return std::pair(name_key(moves[i].from.inode, moves[i].name),
                         name_key(moves[i].to.inode, moves[i].new_name));
    };
    run_in_waves(moves.size(), is_host ? wave_items_max : batch_items_max, keys,
                 [&](const std::vector<u64>& items) {
                     if (!is_host) return run_move_batches(volume, caller, moves, items, results);
                     std::vector<u8> moves_directory(items.size());
                     volume.crew().for_each(items.size(), [&](const ThreadTeam&, u64 i) {
                         const Move& one = moves[items[i]];
                         const Result<Attributes> source = lookup(caller, one.from, one.name);
                         moves_directory[i] =
                             source && (source->mode & format::type_mask) == format::type_directory;
                     });
                     run_moves(volume.crew(), moves, items, moves_directory, move);
                 });
}

void Volume::create_many(const Caller& caller, std::span<const Creation> creations,
                         std::span<Result<Attributes>> results) {
    VolumeImplementation& volume = *implementation_;
    const auto make = [&](u64 i) {
        const Creation& one = creations[i];
        results[i] = create(caller, one.directory, one.name, one.options);
    };
    const bool is_host = volume.works_on_host();
    if (is_host && creations.size() < shared_items_min) {
        for (u64 i = 0; i < creations.size(); ++i)
            make(i);
        return;
    }
    const auto keys = [&](u64 i) {
        const u64 key = name_key(creations[i].directory.inode, creations[i].name);
        return std::pair(key, key);
    };
    const auto make_batch = [&](const std::vector<u64>& items) {
        std::vector<ops::Command> commands;
        std::vector<ops::Reply> replies(items.size());
        commands.reserve(items.size());
        for (const u64 i : items) {
            const Creation& one = creations[i];
            ops::Command& command = commands.emplace_back();
            command.verb = Verb::create;
            set_creation(command, volume, caller, one.directory, one.name, one.options);
        }
        volume.execute_many(commands, replies);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const Errc code = replies[i].code;
            results[items[i]] = code == Errc::ok ? Result<Attributes>(replies[i].attributes)
                                                 : Result<Attributes>(code);
        }
    };
    run_in_waves(creations.size(), is_host ? wave_items_max : batch_items_max, keys,
                 [&](const std::vector<u64>& items) {
                     if (!is_host) return make_batch(items);
                     volume.crew().for_each(items.size(),
                                            [&](const ThreadTeam&, u64 i) { make(items[i]); });
                 });
}

namespace {

/// Packs a part of a directory's tree, step by step.
class Packing {
 public:
    Packing(VolumeImplementation& volume, const Caller& caller, Handle directory)
        : volume_(volume), command_(command_on(directory, caller)) {}

    /// Packs what lies at `height` for keys in [begin, end).
    Errc pack_range(u64 begin, u64 end, u32 height) const {
        ops::Command command = command_;
        command.how = static_cast<u8>(height == 0 ? ops::Pack::leaves : ops::Pack::nodes);
        command.mode = height;
        for (command.from = begin; command.from < end;) {
            const Result<ops::Packed> step = volume_.ask<Verb::pack>(command);
            if (!step) return step.code();
            if (step->is_done) break;
            command.from = step->next_key;
        }
        return Errc::ok;
    }

    /// Packs the levels above the leaves and notes that all is packed.
    Errc finish() const {
        for (u32 height = 1; height < core::tree_height_max; ++height) {
            WARREN_TRY(pack_range(0, core::key_end, height));
        }
        ops::Command command = command_;
        command.how = static_cast<u8>(ops::Pack::root);
        for (bool is_done = false; !is_done;) {
            const Result<ops::Packed> step = volume_.ask<Verb::pack>(command);
            if (!step) return step.code();
            is_done = step->is_done;
        }
        command.how = static_cast<u8>(ops::Pack::counter);
        return volume_.ask<Verb::pack>(command).code();
    }

 private:
    VolumeImplementation& volume_;
    const ops::Command command_;
};

Errc rebuild_by_commands(VolumeImplementation& volume, const Caller& caller, Handle directory) {
    const Packing packing(volume, caller, directory);
    const Result<std::vector<u64>> begins = TreeScanner(volume).ranges(directory);
    if (!begins) return begins.code();
    std::vector<Errc> errors(begins->size(), Errc::ok);
    volume.crew().for_each(begins->size(), [&](const ThreadTeam&, u64 i) {
        const u64 end = i + 1 < begins->size() ? (*begins)[i + 1] : core::key_end;
        errors[i] = packing.pack_range((*begins)[i], end, 0);
    });
    for (const Errc error : errors)
        WARREN_TRY(error);
    return packing.finish();
}

}  // namespace

Errc Volume::rebuild(const Caller& caller, Handle directory, Rebuilt& rebuilt) {
    VolumeImplementation& volume = *implementation_;
    const Result<Attributes> before = attributes(directory);
    if (!before) return before.code();
    rebuilt.blocks_before = before->blocks;
    Errc packed = volume.engine().rebuild(credentials_of(caller), directory);
    if (packed == Errc::not_supported) packed = rebuild_by_commands(volume, caller, directory);
    WARREN_TRY(packed);
    const Result<Attributes> after = attributes(directory);
    if (!after) return after.code();
    rebuilt.blocks_after = after->blocks;
    const Result<u64> entries = volume.ask<Verb::count_names>(command_on(directory));
    if (!entries) return entries.code();
    rebuilt.entries = *entries;
    return Errc::ok;
}

Errc VolumeImplementation::check_removable(const core::Credentials& caller, Handle root) {
    const Errc checked = engine_->check_removable(caller, root);
    if (checked != Errc::not_supported) return checked;
    return TreeScanner(*this).check_removable(caller, root);
}

Errc Volume::scan(const Caller& caller, Handle directory,
                  const std::function<bool(const Scanned&)>& visit) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const Errc scanned = volume.engine().scan(who, directory, visit);
    if (scanned != Errc::not_supported) return scanned;
    return TreeScanner(volume).scan(who, directory, visit);
}

}  // namespace warren

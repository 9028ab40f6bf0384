// SPDX-License-Identifier: Apache-2.0
// Bulk operations: one call, all workers.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "fs/ops/rebuild.hpp"
#include "fs/volume/tree_remover.hpp"
#include "fs/volume/tree_scanner.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

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
    const core::Credentials who = credentials_of(caller);
    if (who.check && !who.is_root()) {
        WARREN_TRY(TreeScanner(volume).check_removable(who, target->handle));
    }
    const u32 length =
        static_cast<u32>(std::min<std::size_t>(name.size(), format::name_length_max + 1));
    const Result<Handle> detached = volume.run([&](CpuOperation& op) {
        return ops::detach_tree(op, who, directory, name.data(), length, now_nanoseconds());
    });
    if (!detached) return detached.code();
    return TreeRemover(volume).remove(detached->inode, removal);
}

namespace {

/// Fewer items than this are done one after the other: waking workers would take longer.
constexpr u64 shared_items_min = 1024;
/// A wave's blocks stay in the processors' caches between looking at its items and doing them.
constexpr u64 wave_items_max = 2048;

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
    /// Whether an item on these names may join the wave; if not, the wave must run first.
    bool admits(std::initializer_list<u64> keys) const {
        return items_.size() < wave_items_max &&
               std::none_of(keys.begin(), keys.end(),
                            [&](u64 key) { return taken_.contains(key); });
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
    std::unordered_set<u64> taken_;
    std::vector<u64> items_;
};

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

}  // namespace

void Volume::move_many(const Caller& caller, std::span<const Move> moves, std::span<Errc> results) {
    Crew& crew = implementation_->crew();
    const auto move = [&](u64 i) {
        results[i] = rename(caller, moves[i].from, moves[i].name, moves[i].to, moves[i].new_name);
    };
    if (moves.size() < shared_items_min) {
        for (u64 i = 0; i < moves.size(); ++i)
            move(i);
        return;
    }
    Waves wave;
    const auto run_wave = [&] {
        const std::vector<u64> items = wave.take();
        std::vector<u8> moves_directory(items.size());
        crew.for_each(items.size(), [&](const ThreadTeam&, u64 i) {
            const Move& one = moves[items[i]];
            const Result<Attributes> source = lookup(caller, one.from, one.name);
            moves_directory[i] =
                source && (source->mode & format::type_mask) == format::type_directory;
        });
        run_moves(crew, moves, items, moves_directory, move);
    };
    for (u64 i = 0; i < moves.size(); ++i) {
        const u64 from = name_key(moves[i].from.inode, moves[i].name);
        const u64 to = name_key(moves[i].to.inode, moves[i].new_name);
        if (!wave.admits({from, to})) run_wave();
        wave.add(i, {from, to});
    }
    run_wave();
}

void Volume::create_many(const Caller& caller, std::span<const Creation> creations,
                         std::span<Result<Attributes>> results) {
    Crew& crew = implementation_->crew();
    const auto make = [&](u64 i) {
        const Creation& one = creations[i];
        results[i] = create(caller, one.directory, one.name, one.options);
    };
    if (creations.size() < shared_items_min) {
        for (u64 i = 0; i < creations.size(); ++i)
            make(i);
        return;
    }
    Waves wave;
    const auto run_wave = [&] {
        const std::vector<u64> items = wave.take();
        crew.for_each(items.size(), [&](const ThreadTeam&, u64 i) { make(items[i]); });
    };
    for (u64 i = 0; i < creations.size(); ++i) {
        const u64 key = name_key(creations[i].directory.inode, creations[i].name);
        if (!wave.admits({key})) run_wave();
        wave.add(i, {key});
    }
    run_wave();
}

namespace {

/// Packs what `pack(op, key)` does step by step, for keys in [begin, end).
template <class Pack>
Errc pack_range(VolumeImplementation& volume, u64 begin, u64 end, const Pack& pack) {
    for (u64 key = begin; key < end;) {
        const Result<ops::Packed> packed =
            volume.run([&](CpuOperation& op) { return pack(op, key); });
        if (!packed) return packed.code();
        if (packed->is_done) break;
        key = packed->next_key;
    }
    return Errc::ok;
}

}  // namespace

Errc Volume::rebuild(const Caller& caller, Handle directory, Rebuilt& rebuilt) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const auto with_directory = [&](const auto& action) {
        return [&volume, &who, directory, action](CpuOperation& op, u64 key) {
            using Answer = decltype(action(op, core::InodeRef{}, key));
            const Result<core::InodeRef> inode = core::find_directory(op, directory);
            if (!inode) return Answer(inode.code());
            const Errc allowed = core::check_permission(op, *inode, who, core::may_write);
            return allowed == Errc::ok ? action(op, *inode, key) : Answer(allowed);
        };
    };
    const Result<Attributes> before = attributes(directory);
    if (!before) return before.code();
    rebuilt.blocks_before = before->blocks;

    const auto pack_leaves =
        with_directory([](CpuOperation& op, const core::InodeRef& inode, u64 key) {
            return ops::pack_leaves(op, inode, key);
        });
    const Result<std::vector<u64>> begins = TreeScanner(volume).ranges(directory);
    if (!begins) return begins.code();
    std::vector<Errc> errors(begins->size(), Errc::ok);
    volume.crew().for_each(begins->size(), [&](const ThreadTeam&, u64 i) {
        const u64 end = i + 1 < begins->size() ? (*begins)[i + 1] : core::key_end;
        errors[i] = pack_range(volume, (*begins)[i], end, pack_leaves);
    });
    for (const Errc error : errors)
        WARREN_TRY(error);
    for (u32 height = 1; height < core::tree_height_max; ++height) {
        WARREN_TRY(pack_range(
            volume, 0, core::key_end,
            with_directory([height](CpuOperation& op, const core::InodeRef& inode, u64 key) {
                return ops::pack_nodes(op, inode, height, key);
            })));
    }
    for (;;) {
        const auto lower = with_directory([](CpuOperation& op, const core::InodeRef& inode, u64) {
            return ops::lower_root(op, inode);
        });
        const Result<bool> lowered = volume.run([&](CpuOperation& op) { return lower(op, 0); });
        if (!lowered) return lowered.code();
        if (!*lowered) break;
    }
    const auto reset = with_directory([](CpuOperation& op, const core::InodeRef& inode, u64) {
        return ops::reset_unlinks(op, inode);
    });
    WARREN_TRY(volume.run([&](CpuOperation& op) { return reset(op, 0); }));
    const Result<Attributes> after = attributes(directory);
    if (!after) return after.code();
    rebuilt.blocks_after = after->blocks;
    const Result<u64> entries =
        volume.run([&](CpuOperation& op) { return ops::count_names(op, directory); });
    if (!entries) return entries.code();
    rebuilt.entries = *entries;
    return Errc::ok;
}

Errc Volume::scan(const Caller& caller, Handle directory,
                  const std::function<bool(const Scanned&)>& visit) {
    return TreeScanner(*implementation_).scan(credentials_of(caller), directory, visit);
}

}  // namespace warren

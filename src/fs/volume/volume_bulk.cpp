// SPDX-License-Identifier: Apache-2.0
// Bulk operations: one call that uses all workers.
#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/core/name_hash.hpp"
#include "fs/volume/host_scan.hpp"
#include "fs/volume/item_parts.hpp"
#include "fs/volume/lookup_segments.hpp"
#include "fs/volume/remove_as_rm.hpp"
#include "fs/volume/volume_batches.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;

Errc Volume::remove_tree(const Caller& caller, Handle directory, std::string_view name,
                         Removal& removal, const ProgressCallback& progress) {
    return or_no_memory([&]() -> Errc {
        VolumeImplementation& volume = *implementation_;
        ops::Command detach = command_on(directory, caller);
        set_name(detach, name);
        detach.now = now_nanoseconds();
        const bool is_bound = !detach.caller.is_privileged();
        BulkCommands* const bulk = volume.engine().bulk();
        if (!is_bound && bulk != nullptr) {
            ops::Removed removed;
            const Errc gone = bulk->remove_named_tree(detach, removal, removed);
            if (gone == Errc::ok) return volume.settle_soon(removed);
            if (gone != Errc::not_supported && gone != Errc::not_directory) return gone;
        }
        WARREN_LET(target, lookup(caller, directory, name));
        if (!format::is_directory(target->mode)) {
            const Errc removed = unlink(caller, directory, name);
            if (removed == Errc::ok) ++removal.files;
            return removed;
        }
        const Result<Handle> detached =
            is_bound ? volume.detach_permitted(detach) : volume.ask<Verb::detach_tree>(detach);
        if (is_bound && detached.code() == Errc::canceled) {
            return volume.count_freed(removal, [&] {
                return remove_as_rm(volume, caller, directory, name, removal, progress);
            });
        }
        if (!detached) return detached.code();
        WARREN_TRY(volume.remove_detached(*detached, removal, progress));
        // A detach does not report a leaf that becomes empty.
        const core::Store& store = volume.store();
        const u64 hash =
            name_hash(store.hash_key, detach.name, detach.name_length) & store.hash_mask;
        return volume.settle_soon(
            {.reclaim = {}, .prune_inode = directory.inode, .prune_key = format::first_key(hash)});
    });
}

namespace {

/// The calling thread alone handles fewer items, because waking workers would take longer.
constexpr u64 shared_items_min = 1024;

/// Calls `body(answered)`, which fills `results` and counts the filled ones from the first on. If
/// it runs out of memory, sets all others to Errc::no_memory.
template <class Answer, class Body>
void each_or_no_memory(std::span<Answer> results, const Body& body) {
    u64 answered = 0;
    const Errc code = or_no_memory([&] { body(answered); });
    if (code != Errc::ok) std::ranges::fill(results.subspan(answered), Answer(code));
}

/// Runs items of one kind by batches if that may be faster, otherwise by `one_by_one(items,
/// answers)`.
template <class Item, class Answer, class OneByOne>
void run_many(VolumeImplementation& volume, const Caller& caller, std::span<const Item> items,
              std::span<Answer> results, const OneByOne& one_by_one) {
    each_or_no_memory(results, [&](u64& answered) {
        const ByCommands<Item, Answer> by_commands = std::cref(one_by_one);
        const Request<Item, Answer> all{volume, caller, items, results, by_commands, answered};
        if (makes_batches(volume, items.size()) && !volume.is_read_only()) {
            return run_in_batches(all);
        }
        all.give();
    });
}

/// Calls `run(i)` for each item, by all workers if that is faster.
template <class Item, class Run>
void run_distributed(ThreadPool& thread_pool, std::span<const Item> items, const Run& run) {
    if (items.size() >= shared_items_min) return run_in_parts(thread_pool, items, run);
    for (u64 i = 0; i < items.size(); ++i)
        run(i);
}

/// Whether any of the names is that of a directory.
bool moves_directory(Volume& volume, ThreadPool& thread_pool, std::span<const Move> moves) {
    std::atomic<bool> found{false};
    thread_pool.for_each(moves.size(), [&](const ThreadTeam&, u64 i) {
        const Result<Attributes> source = volume.lookup({}, moves[i].from, moves[i].name);
        const bool is_directory = source && format::is_directory(source->mode);
        // Relaxed: the end of the thread pool's run publishes it.
        if (is_directory) found.store(true, std::memory_order_relaxed);
    });
    return found.load(std::memory_order_relaxed);
}

/// Looks up names on a volume that works on the host's Store, by all workers: through the replica
/// if there is one and it is predicted to be faster, else, and where that gives no answer, by
/// `look_up(i)`, which does not throw. Waits for no other call that uses the workers: it may wait
/// for what the caller holds. If memory runs out, the first `answered` results are good.
void look_up_by_all(VolumeImplementation& volume, const Caller& caller,
                    std::span<const Lookup> lookups, std::span<Result<Attributes>> results,
                    u64& answered, const std::function<void(u64)>& look_up) {
    ThreadPool& thread_pool = volume.thread_pool();
    if (volume.replica() == nullptr) return thread_pool.for_each_at_once(lookups.size(), look_up);
    // In parts, because a new version waits for an open stream.
    for (u64 begin = 0; begin < lookups.size(); begin += ops::batch_items_max) {
        const u64 count = std::min<u64>(ops::batch_items_max, lookups.size() - begin);
        const auto answers = results.subspan(begin, count);
        std::optional<std::vector<u64>> left;  // by the stream; of the part's items
        const auto by_stream = [&](LookupStream& stream) {
            LookupSegments segments(stream, lookups.subspan(begin, count), answers,
                                    thread_pool.width());
            thread_pool.for_each_at_once(thread_pool.width(), [&](u64) { segments.work(); });
            left = std::move(segments.left());
            for (const u64 i : *left)
                answers[i] = Errc::no_memory;  // in case memory runs out
            answered = begin + count;
        };
        const auto by_cpu = [&] {
            const u64 items = left ? left->size() : count;
            if (items == 0) return;
            thread_pool.for_each_at_once(items,
                                         [&](u64 i) { look_up(begin + (left ? (*left)[i] : i)); });
            answered = begin + count;
        };
        volume.replica()->look_up(count, credentials_of(caller), by_stream, by_cpu);
    }
}

}  // namespace

void Volume::move_many(const Caller& caller, std::span<const Move> moves, std::span<Errc> results) {
    VolumeImplementation& volume = *implementation_;
    const auto one_by_one = [&](std::span<const Move> items, std::span<Errc> answers) {
        if (!volume.works_on_host()) return move_by_commands(volume, caller, items, answers);
        const auto move = [&](u64 i) {
            const Move& one = items[i];
            answers[i] = rename(caller, one.from, one.name, one.to, one.new_name);
        };
        for_each_distinct(items, [&](u64 begin, u64 count) {
            const auto row = items.subspan(begin, count);
            // The paths of other items may depend on the move of a directory. If there is one,
            // the items run in order.
            if (count >= shared_items_min && !moves_directory(*this, volume.thread_pool(), row)) {
                return run_in_parts(volume.thread_pool(), row, [&](u64 i) { move(begin + i); });
            }
            for (u64 i = 0; i < count; ++i)
                move(begin + i);
        });
    };
    run_many(volume, caller, moves, results, one_by_one);
}

void Volume::create_many(const Caller& caller, std::span<const Creation> creations,
                         std::span<Result<Attributes>> results) {
    VolumeImplementation& volume = *implementation_;
    const auto one_by_one = [&](std::span<const Creation> items,
                                std::span<Result<Attributes>> answers) {
        if (!volume.works_on_host()) return create_by_commands(volume, caller, items, answers);
        run_distributed(volume.thread_pool(), items, [&](u64 i) {
            const Creation& one = items[i];
            answers[i] = create(caller, one.directory, one.name, one.options);
        });
    };
    run_many(volume, caller, creations, results, one_by_one);
}

void Volume::remove_many(const Caller& caller, std::span<const Unlink> names,
                         std::span<Errc> results) {
    VolumeImplementation& volume = *implementation_;
    const auto one_by_one = [&](std::span<const Unlink> items, std::span<Errc> answers) {
        if (!volume.works_on_host()) return remove_by_commands(volume, caller, items, answers);
        for_each_kind(items, [&](u64 begin, u64 count) {
            const auto remove = [&](u64 i) {
                const Unlink& one = items[begin + i];
                answers[begin + i] = one.is_directory
                                         ? remove_directory(caller, one.directory, one.name)
                                         : unlink(caller, one.directory, one.name);
            };
            // Whether a directory is empty depends on the items before it.
            if (items[begin].is_directory) {
                for (u64 i = 0; i < count; ++i)
                    remove(i);
                return;
            }
            run_distributed(volume.thread_pool(), items.subspan(begin, count), remove);
        });
    };
    run_many(volume, caller, names, results, one_by_one);
}

void Volume::lookup_many(const Caller& caller, std::span<const Lookup> lookups,
                         std::span<Result<Attributes>> results) {
    each_or_no_memory(results, [&](u64& answered) {
        VolumeImplementation& volume = *implementation_;
        if (!volume.works_on_host()) {
            const ByCommands<Lookup, Result<Attributes>> by_commands =
                [&](std::span<const Lookup> some, std::span<Result<Attributes>> answers) {
                    look_up_by_commands(volume, caller, some, answers);
                };
            return run_in_batches(Lookups{volume, caller, lookups, results, by_commands, answered});
        }
        // Nothing is filled ahead: for the results of a million names that takes one thread longer
        // than all of the lookups on a GPU.
        const auto look_up = [&](u64 i) {
            results[i] =
                or_no_memory([&] { return lookup(caller, lookups[i].directory, lookups[i].name); });
        };
        if (lookups.size() >= shared_items_min) {
            return look_up_by_all(volume, caller, lookups, results, answered, look_up);
        }
        for (u64 i = 0; i < lookups.size(); ++i)
            look_up(i);
    });
}

Errc VolumeImplementation::check_removable(const core::Credentials& caller, Handle root,
                                           core::TreeCheck check) {
    ScanCall call{bulk::plan_scan(bulk::ScanPurpose::removal, caller), root};
    call.plan.tree_check = check;
    return scan(call);
}

Errc VolumeImplementation::scan_by(const ScanCall& call, const ReplicaQueries::CpuScan& on_cpu) {
    if (replica_ != nullptr) return replica_->scan(call, on_cpu);
    BulkCommands* const bulk = engine_->bulk();
    const Errc scanned = bulk != nullptr ? bulk->scan(call) : Errc::not_supported;
    u64 listed = 0;
    return scanned == Errc::not_supported ? on_cpu(listed) : scanned;
}

Errc VolumeImplementation::scan(const ScanCall& call) {
    return scan_by(call, [&](u64& listed) { return scan_on_host(*this, call, listed); });
}

Result<Handle> VolumeImplementation::detach_permitted(ops::Command detach) {
    constexpr u32 attempts_max = 4;
    for (u32 attempt = 0; attempt < attempts_max; ++attempt) {
        WARREN_LET(tree, ask<Verb::look_at_tree>(detach));
        const Errc whole = check_removable(detach.caller, tree->root, core::TreeCheck::whole);
        if (whole == Errc::access || whole == Errc::not_permitted) {
            WARREN_TRY(check_removable(detach.caller, tree->root, core::TreeCheck::as_rm));
            break;
        }
        WARREN_TRY(whole);
        detach.how = 1;
        detach.target = tree->root;
        detach.from = tree->rights_changes;
        const Result<Handle> detached = ask<Verb::detach_tree>(detach);
        if (detached.code() != Errc::canceled) return detached;
    }
    return Errc::canceled;
}

Errc Volume::scan(const Caller& caller, Handle directory,
                  const std::function<bool(const Scanned&)>& visit, const ScanFilter& filter) {
    return or_no_memory([&]() -> Errc {
        std::vector<ScanPosition> left{{directory}};
        return scan_step(caller, left, visit, filter, {});
    });
}

namespace {

/// Passes entries on with the space of regular files. A failure to count does not end the scan.
class SpaceCounter {
 public:
    using Visit = std::function<bool(const Scanned&)>;

    SpaceCounter(Volume& volume, const Visit& visit) : volume_(volume), visit_(visit) {}

    bool operator()(const Scanned& entry) {
        const bool is_file = format::is_regular(entry.attributes.mode);
        if (!is_file || entry.attributes.blocks == 0) return visit_(entry);
        const Result<FileSpace> space = volume_.space_of(entry.attributes.handle);
        const bool is_gone = space.code() == Errc::stale;  // removed since the scan found it
        if (!space && !is_gone) code_.store(space.code(), std::memory_order_relaxed);
        Scanned counted = entry;
        if (space) counted.space = *space;
        return visit_(counted);
    }
    Errc code() const { return code_.load(std::memory_order_relaxed); }

 private:
    Volume& volume_;
    const Visit& visit_;
    std::atomic<Errc> code_{Errc::ok};
};

/// Scans all of `left` after an engine has failed between two visits, because a later step would
/// not know what was visited. Each time the consumer is full, this waits for it.
Errc finish_scan(VolumeImplementation& volume, const ScanCall& call, const ScanSteps& steps,
                 std::vector<ScanPosition>& left, u64& listed) {
    if (!steps.wait) return scan_on_host(volume, call, {}, left, listed);
    for (;;) {
        WARREN_TRY(scan_on_host(volume, call, steps.is_full, left, listed));
        if (left.empty()) return Errc::ok;
        WARREN_TRY(steps.wait());
    }
}

}  // namespace

Errc Volume::scan_step(const Caller& caller, std::vector<ScanPosition>& left,
                       const std::function<bool(const Scanned&)>& visit, const ScanFilter& filter,
                       const ScanSteps& steps, ScanTableOrder* table) {
    if (filter.counts_shared) {
        SpaceCounter counter(*this, visit);
        ScanFilter rest = filter;
        rest.counts_shared = false;
        const Errc scanned = scan_step(caller, left, std::ref(counter), rest, steps);
        return scanned == Errc::ok ? counter.code() : scanned;
    }
    return or_no_memory([&]() -> Errc {
        VolumeImplementation& volume = *implementation_;
        ScanCall call{bulk::plan_scan(bulk::ScanPurpose::visit, credentials_of(caller))};
        call.visit = &visit;
        VisitedEntries visited;
        call.visited = &visited;
        WARREN_TRY(ops::set_filter(call.plan.files, filter));
        if (left.empty()) return Errc::ok;
        call.root = left[0].directory;
        if (left.size() > 1 || left[0].depth > 0 || left[0].from > 0) {
            u64 listed = 0;
            return scan_on_host(volume, call, steps.is_full, left, listed);
        }
        WARREN_LET(root, attributes(call.root));
        Scanned first;
        first.directory = call.root;
        first.attributes = *root;
        const bool is_directory = format::is_directory(root->mode);
        if (!visit(first) || !is_directory || filter.depth_max == 0) {
            left.clear();
            return Errc::ok;
        }
        call.for_each = [&](u64 count, const std::function<void(u64)>& body) {
            volume.thread_pool().for_each(count, [&](const ThreadTeam&, u64 i) { body(i); });
        };
        call.wait = steps.wait;
        call.table = table;
        call.root_attributes = *root;
        bool is_by_host = false;
        const Errc scanned = volume.scan_by(call, [&](u64& listed) {
            is_by_host = true;
            if (visited.is_interrupted()) return finish_scan(volume, call, steps, left, listed);
            const Errc code = scan_on_host(volume, call, steps.is_full, left, listed);
            if (!left.empty()) listed = 0;  // of a part, which says nothing of the whole
            return code;
        });
        if (!is_by_host) left.clear();
        return scanned;
    });
}

Errc Volume::usage(const Caller& caller, Handle directory, const UsageOptions& options,
                   std::vector<DirectoryUsage>& answer) {
    return or_no_memory([&]() -> Errc {
        VolumeImplementation& volume = *implementation_;
        WARREN_LET(root, attributes(directory));
        DirectoryUsage first;
        first.directory = root->handle;
        first.entries = 1;
        first.blocks = root->blocks;
        first.bytes = ops::counted_bytes(root->mode, root->size);
        answer.assign(1, first);
        if (!format::is_directory(root->mode)) return Errc::ok;
        ScanCall call{bulk::plan_scan(bulk::ScanPurpose::measure, credentials_of(caller)),
                      root->handle};
        call.plan.counts_links = options.counts_links;
        call.plan.sums_depth = options.depth_max;
        call.usage = &answer;
        call.progress = options.progress;
        const Errc added = volume.scan(call);
        for (std::size_t i = answer.size(); i-- > 1;) {
            DirectoryUsage& above = answer[answer[i].above];
            above.entries += answer[i].entries;
            above.blocks += answer[i].blocks;
            above.bytes += answer[i].bytes;
        }
        return added;
    });
}

}  // namespace warren

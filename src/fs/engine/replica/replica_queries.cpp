// SPDX-License-Identifier: Apache-2.0
// A scan holds a version of the replica while it reads the image, and not while visitors run. If
// the device fails behind the first visit, the CPU visits the rest. A lookup has no visitors; what
// has an answer keeps it whatever happens then.
#include "fs/engine/replica/replica_queries.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/engine/replica/replica_batches.hpp"
#include "fs/engine/replica/replica_rebuild.hpp"

namespace warren {
namespace {

QueryKind kind_of(const ScanCall& call) {
    switch (call.plan.purpose) {
        case bulk::ScanPurpose::removal:
            return QueryKind::check;
        case bulk::ScanPurpose::measure:
            return QueryKind::measure;
        case bulk::ScanPurpose::list:
            return QueryKind::remove;
        case bulk::ScanPurpose::visit:
            break;
    }
    if (call.table != nullptr) return QueryKind::make_table;
    return call.plan.files.wants_all() ? QueryKind::find_all : QueryKind::find_some;
}

u64 entries_of(const ScanCall& call) {
    u64 entries = 0;
    if (call.usage != nullptr) {
        for (const DirectoryUsage& usage : *call.usage)
            entries += usage.entries;
    }
    return entries;
}

/// A replica is not loaded behind a query that it would have answered faster by less than this.
constexpr double loading_gain_min = 1e-3;

/// The kinds of queries, for users.
constexpr std::array<const char*, query_kinds> kind_names = {
    "the check before a removal", "du",
    "find with conditions",       "find of everything",
    "a table of columns",         "lookups",
    "removal of a tree",          "creations of many files",
    "moves of many files",        "removals of many files",
    "packing of a directory"};

std::string time_text(double seconds) {
    std::array<char, 32> text;
    if (seconds < 1e-6) {
        std::snprintf(text.data(), text.size(), "%.3g ns", seconds * 1e9);
    } else {
        std::snprintf(text.data(), text.size(), "%.1f us", seconds * 1e6);
    }
    return text.data();
}

/// Whether a scan that ends like this on the replica ends so on the CPU, too. A damaged block is
/// left to the CPU, because the copy may be what is damaged.
bool is_result(Errc code) {
    return code == Errc::ok || code == Errc::access || code == Errc::not_permitted;
}

}  // namespace

double seconds_now() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

ReplicaQueries::ReplicaQueries(const core::Store& store, std::unique_ptr<ImageReader> reader,
                               const ReplicaOptions& options)
    : store_(store),
      reader_(std::move(reader)),
      report_(options.report),
      now_(options.now),
      prepare_(options.prepare),
      has_asked_(options.device != 0),
      for_each_(options.for_each),
      replica_(store, options.freeze, options.for_each,
               [this, make = options.make_memory](std::unique_ptr<ReplicaMemory>& memory) {
                   const bool is_given_up = is_given_up_.load(std::memory_order_relaxed);
                   return is_given_up ? Errc::not_supported : make(memory);
               }),
      sides_(options.workers),
      sizes_(store.root_inode),
      removal_sizes_(store.root_inode) {}

Errc ReplicaQueries::load(std::string& failure) {
    const Errc loaded = or_no_memory([this] { return load(); });
    if (loaded == Errc::ok) return loaded;
    failure = reader_->failure();
    if (failure.empty()) failure = "there is not enough memory";
    return loaded;
}

Errc ReplicaQueries::load() {
    WARREN_TRY(reader_->open());
    if (prepare_) prepare_();
    WARREN_TRY(replica_.make_ready());
    const double begin = now_();
    WARREN_TRY(replica_.refresh());
    sides_.start(Side::replica, 0, replica_.figures().blocks_sent, now_() - begin);
    // Release: pairs with the acquire in is_loaded().
    is_loaded_.store(true, std::memory_order_release);
    return Errc::ok;
}

/// After a query that took `seconds` on the CPU: loads the replica if it would have saved much.
void ReplicaQueries::load_if_faster(const Query& query, double seconds) {
    if (is_loaded() || !query.is_known) return;
    if (!sides_.is_faster_on_replica(query, seconds - loading_gain_min)) return;
    const std::lock_guard lock(loader_mutex_);
    if (std::exchange(has_begun_to_load_, true)) return;
    // Without a thread it is not loaded.
    static_cast<void>(or_no_memory([this] {
        loader_ =
            std::jthread([this] { static_cast<void>(or_no_memory([this] { load_behind(); })); });
    }));
}

void ReplicaQueries::load_behind() {
    std::string failure;
    const Errc loaded = load(failure);
    if (loaded == Errc::ok) return;
    // That no GPU can be used is not reported if none was asked for.
    const bool has_none = loaded == Errc::no_device || loaded == Errc::not_supported;
    if (loaded == Errc::io) has_failed_.store(true, std::memory_order_relaxed);
    give_up(failure, !has_none || has_asked_);
    if (loaded != Errc::io) replica_.release();
}

void ReplicaQueries::finish_loading() {
    const std::lock_guard lock(loader_mutex_);
    if (loader_.joinable()) loader_.join();
}

void ReplicaQueries::measure(const ScanCall& call, const CpuScan& on_cpu) {
    double begin = now_();
    u64 listed = 0;
    if (on_cpu(listed) != Errc::ok) return;
    sides_.start(Side::cpu, listed, 0, now_() - begin);
    // The first scan also takes memory for the next ones.
    if (scan_image(call, /*may_load=*/false) != Errc::ok) return;
    begin = now_();
    if (scan_image(call, /*may_load=*/false) == Errc::ok)
        sides_.start(Side::replica, listed, 0, now_() - begin);
}

SideChoice::Choice ReplicaQueries::choose(const Query& query, bool may_load) {
    if (!is_loaded() || is_given_up_.load(std::memory_order_relaxed)) return {Side::cpu, 0, false};
    const auto count_marked = [this] { return replica_.marked(); };
    if (only_) return {*only_, *only_ == Side::replica ? count_marked() : 0, false};
    return sides_.choose(query, count_marked, may_load);
}

/// Runs a query on the chosen side. Errc::not_supported from `on_replica()`: the CPU must run it.
/// The sides may correct `query`.
template <class OnReplica, class OnCpu>
Errc ReplicaQueries::run(const Query& query, const OnReplica& on_replica, const OnCpu& on_cpu) {
    // The choice counts the time of loading only if the memory has been released by now.
    const bool may_load = replica_.is_released();
    const SideChoice::Choice choice = choose(query, may_load);
    const double begin = now_();
    if (choice.side == Side::replica) {
        const Errc code = on_replica(may_load);
        // What a query has used that ran while the memory was released is idle only now.
        if (replica_.is_released() && !has_failed_.load(std::memory_order_relaxed))
            reader_->drop_idle();
        if (code != Errc::not_supported) {
            by_replica_.fetch_add(1, std::memory_order_relaxed);
            if (code == Errc::ok) sides_.learn(query, choice, now_() - begin);
            return code;
        }
        left_.fetch_add(1, std::memory_order_relaxed);
    }
    by_cpu_.fetch_add(1, std::memory_order_relaxed);
    const double begin_on_cpu = now_();
    WARREN_TRY(on_cpu());
    const double seconds = now_() - begin_on_cpu;
    sides_.learn(query, {Side::cpu, 0, choice.is_try && choice.side == Side::cpu}, seconds);
    load_if_faster(query, seconds);
    // What it takes to ask the replica in vain: so it is asked less often.
    if (choice.side == Side::replica) sides_.learn(query, choice, now_() - begin);
    return Errc::ok;
}

Errc ReplicaQueries::scan(const ScanCall& call, const CpuScan& on_cpu) {
    const u64 inodes = relaxed_load(store_.state->inodes_used);
    const u32 depth_max = call.plan.files.depth_max;
    const ScanSizes::Estimate size = sizes_.estimate(call.root, depth_max, inodes);
    Query query{kind_of(call), size.items, size.is_known};
    const auto count = [&](u64 listed) {
        if (listed == 0) return;
        sizes_.note(call.root, depth_max, inodes, listed);
        query.items = listed;
        query.is_known = true;
    };
    const auto on_replica = [&](bool may_load) {
        const u64 before = entries_of(call);
        const Errc code = scan_image(call, may_load);
        if (code == Errc::ok) count(entries_of(call) - before);
        return code;
    };
    return run(query, on_replica, [&] {
        u64 listed = 0;
        WARREN_TRY(on_cpu(listed));
        count(listed);
        query.is_known = listed != 0;
        return Errc::ok;
    });
}

void ReplicaQueries::look_up(u64 names, const core::Credentials& caller, const UseStream& by_stream,
                             const std::function<void()>& by_cpu) {
    const auto finish = [&] {
        by_cpu();
        return Errc::ok;
    };
    const auto on_replica = [&](bool may_load) {
        const auto with_image = [&](const std::function<Errc(const core::Store&)>& use) {
            return replica_.read(
                [&](const core::Store& image, std::shared_lock<FairLock>&) { return use(image); },
                may_load);
        };
        const Errc code =
            or_no_memory([&] { return reader_->look_up(caller, with_image, by_stream); });
        give_up_after(code);
        return code == Errc::ok ? finish() : Errc::not_supported;
    };
    static_cast<void>(run({QueryKind::look_up, names}, on_replica, finish));
}

void ReplicaQueries::change_items(QueryKind kind, u64 items,
                                  const std::function<void(ItemBatches&)>& by_batches,
                                  const std::function<void()>& by_cpu) {
    const auto finish = [&] {
        by_cpu();
        return Errc::ok;
    };
    const auto on_replica = [&](bool may_load) {
        ImageRuns windows = runs(may_load);
        ReplicaBatches batches(windows, reader_->batch(0), reader_->batch(1), batch_turn_);
        by_batches(batches);
        give_up_after_runs(windows);
        return windows.adopted() == 0 ? Errc::not_supported : finish();
    };
    static_cast<void>(run({kind, items}, on_replica, finish));
}

Errc ReplicaQueries::rebuild(const core::Credentials& caller, Handle directory, u64 names,
                             u64 blocks, const std::function<Errc()>& commit,
                             const std::function<Errc()>& on_cpu) {
    const auto on_replica = [&](bool may_load) {
        // Not waited for: its holder may wait for the thread pool, in which the caller may be.
        const std::unique_lock turn(rebuild_turn_, std::try_to_lock);
        if (!turn) return Errc::not_supported;
        ImageRuns windows = runs(may_load);
        const Errc code = or_no_memory([&] {
            return rebuild_in_image(windows, reader_->rebuild(), caller, directory, blocks, commit);
        });
        give_up_after_runs(windows);
        return is_result(code) ? code : Errc::not_supported;
    };
    return run({QueryKind::rebuild, names}, on_replica, on_cpu);
}

void ReplicaQueries::give_up_after_runs(const ImageRuns& runs) {
    if (runs.failure() != Errc::corrupt) return give_up_after(runs.failure());
    if (give_up("it has changed what it must not change")) free_memory();
}

/// After an error of the device, or if the memory of the image is used up. Once the memory has been
/// released others may have taken it: then the replica is released again and stays.
void ReplicaQueries::give_up_after(Errc code) {
    if (code != Errc::io && code != Errc::no_memory) return;
    if (code == Errc::no_memory && was_released_.load(std::memory_order_relaxed))
        return replica_.release();
    if (code == Errc::io) has_failed_.store(true, std::memory_order_relaxed);
    if (give_up(reader_->failure()) && code != Errc::io) free_memory();
}

void ReplicaQueries::free_memory() {
    replica_.release();
    reader_->drop_idle();
}

/// False if it was given up before.
bool ReplicaQueries::give_up(const std::string& reason, bool is_reported) {
    {
        const std::lock_guard lock(reason_mutex_);
        if (is_given_up_.exchange(true, std::memory_order_relaxed)) return false;
        reason_ = reason;
    }
    if (!is_reported) return true;
    report_(std::string("the GPU beside the CPU engine is not used ") +
            (is_loaded() ? "any more (" : "(") + reason + "); the CPU does all work");
    return true;
}

Errc ReplicaQueries::release() {
    finish_loading();
    if (is_given_up_.load(std::memory_order_relaxed)) return Errc::no_device;
    if (!is_loaded()) return Errc::ok;
    was_released_.store(true, std::memory_order_relaxed);
    free_memory();
    sides_.note_release();
    return Errc::ok;
}

/// Errc::not_supported: the CPU must scan what is not in `call.visited`.
Errc ReplicaQueries::scan_image(const ScanCall& call, bool may_load) {
    bool has_visited = false;
    std::vector<DirectoryUsage> before;
    if (call.usage != nullptr) before = *call.usage;
    const Errc code = or_no_memory([&] {
        const auto reader = [&](const core::Store& image, std::shared_lock<FairLock>& hold) {
            return reader_->scan(image, call, [&] {
                has_visited = true;
                hold.unlock();
            });
        };
        return replica_.read(reader, may_load);
    });
    // Behind the first visit only a device that fails leaves something to the CPU.
    const bool is_interrupted = call.visited != nullptr && call.visited->is_interrupted();
    if (is_result(code) || (has_visited && !is_interrupted)) return code;
    give_up_after(code);
    if (call.usage != nullptr) call.usage->swap(before);
    return Errc::not_supported;
}

Errc ReplicaQueries::remove(Handle root,
                            const std::function<Errc(const bulk::ScanOutput&)>& free_listed,
                            const CpuScan& on_cpu) {
    constexpr u32 all_levels = ~u32{0};
    const u64 inodes = relaxed_load(store_.state->inodes_used);
    // The check before the removal may have counted the names.
    ScanSizes::Estimate size = sizes_.estimate(root, all_levels, inodes);
    if (!size.is_known) size = removal_sizes_.estimate(root, all_levels, inodes);
    Query query{QueryKind::remove, size.items, size.is_known};
    const auto finish = [&] {
        u64 removed = 0;
        WARREN_TRY(on_cpu(removed));
        removal_sizes_.note(root, all_levels, inodes, removed);
        query.items = removed;
        query.is_known = true;
        return Errc::ok;
    };
    const auto on_replica = [&](bool may_load) {
        return remove_listed(root, may_load, free_listed) ? finish() : Errc::not_supported;
    };
    return run(query, on_replica, finish);
}

/// Whether the tree was freed.
bool ReplicaQueries::remove_listed(
    Handle root, bool may_load, const std::function<Errc(const bulk::ScanOutput&)>& free_listed) {
    constexpr u32 attempts_max = 3;
    ScanCall call{bulk::plan_scan(bulk::ScanPurpose::list, {}), root};
    Errc freed = Errc::retry;
    const std::function<Errc(const bulk::ScanOutput&)> take = [&](const bulk::ScanOutput& listed) {
        freed = free_listed(listed);
        return freed == Errc::ok ? Errc::ok : Errc::not_supported;  // the reader has not failed
    };
    call.take_masks = &take;
    for (u32 attempt = 0; freed == Errc::retry && attempt < attempts_max; ++attempt) {
        freed = Errc::not_supported;  // if it is not called
        static_cast<void>(scan_image(call, may_load));
    }
    return freed == Errc::ok;
}

ReplicaStatistics ReplicaQueries::statistics() const {
    ReplicaStatistics statistics;
    statistics.is_on = !is_given_up_.load(std::memory_order_relaxed);
    statistics.has_memory = !replica_.is_released();
    statistics.by_replica = by_replica_.load(std::memory_order_relaxed);
    statistics.by_cpu = by_cpu_.load(std::memory_order_relaxed);
    statistics.left = left_.load(std::memory_order_relaxed);
    statistics.error_percent = static_cast<u64>(std::llround(100 * (sides_.mean_error() - 1)));
    return statistics;
}

std::vector<std::string> ReplicaQueries::predictions() const {
    std::vector<std::string> lines;
    if (!is_loaded() || is_given_up_.load(std::memory_order_relaxed)) return lines;
    for (std::size_t i = 0; i < query_kinds; ++i) {
        const auto rates = [&](Side side) { return sides_.rates(static_cast<QueryKind>(i), side); };
        const CostModel::Terms cpu = rates(Side::cpu);
        const CostModel::Terms replica = rates(Side::replica);
        lines.push_back(std::string(kind_names[i]) + ": on the CPU " + time_text(cpu[0]) + " and " +
                        time_text(cpu[1]) + " a name; on " + reader_->name() + " " +
                        time_text(replica[0]) + " and " + time_text(replica[1]) +
                        " a name, and if blocks have changed since, " + time_text(replica[2]) +
                        " and " + time_text(replica[3]) + " for each of them");
    }
    return lines;
}

std::string ReplicaQueries::note() const {
    const ReplicaStatistics done = statistics();
    const std::string counts =
        std::to_string(done.by_replica) + " queries by it, " + std::to_string(done.by_cpu) +
        " by the CPU" +
        (done.left == 0 ? "" : " of which " + std::to_string(done.left) + " it could not do") +
        "; predicted times were off by " + std::to_string(done.error_percent) + "% on average";
    const std::string work =
        "find, du, lookups and changes of many names, removals of trees and packing ";
    const bool is_there = is_loaded();  // before that the reader has no name
    const std::string name = is_there ? reader_->name() : "a GPU";
    if (!done.is_on) {
        const std::lock_guard lock(reason_mutex_);
        return name + " is not used " + (is_there ? "any more (" : "(") + reason_ + "): " + counts;
    }
    const std::string state =
        !is_there ? " is not used yet; one is taken for " + work + "once the CPU has been slower: "
        : done.has_memory ? " does " + work + "where that is predicted to be faster: "
                          : " has given its memory back, and takes it again for " + work +
                                "once that is predicted to be faster: ";
    return name + state + counts;
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// How long do find, du, lookups, changes of many names and packing take on the CPU engine with a
// GPU beside it? Over a million files of which the GPU has a replica, and behind changes of the
// host, which are sent first. Beside it the CPU engine alone with all cores, on a volume of its
// own. The GPU answers also where the volume would rather let the CPU: behind many changes.
//
// A change is chmod(2) of a file; the changed files are spread over all inodes. From the call to
// the answer: what is marked is copied and sent, and kernels run; the changes themselves are not in
// it.
//
//   replica_bench [--runs N] [--parents N] [--entries N]    N runs (5); 1000 directories of 1000
//       [--changes 1]    only the changes of many files and the packing
//       [--sharing 1]    only the removal of trees with shared blocks (shared_removal.hpp)
#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/shared_removal.hpp"
#include "bench/support/visit_counter.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

const char* const by_both = "Warren CPU engine, a GPU beside it";
const char* const by_cpu = "Warren CPU engine, all cores";
constexpr u64 size_bytes = 64 * gib;

struct Tree {
    MemoryVolume volume;
    std::vector<Handle> files;
    std::vector<std::string> names;  // of the entries of each directory
    std::vector<Lookup> lookups;     // of all files
    std::vector<Result<Attributes>> found;

    Tree(u64 device_memory_bytes, u32 parents, u32 entries)
        : volume(size_bytes, device_memory_bytes),
          files(u64{parents} * entries),
          lookups(files.size()),
          found(files.size(), Errc::io) {
        for (u32 e = 0; e < entries; ++e)
            names.push_back("entry" + std::to_string(e));
        by_all_cores([&](u32 worker, u32 workers) {
            for (u32 p = worker; p < parents; p += workers) {
                const Handle in = add_entry(*volume, volume->root(),
                                            "directory" + std::to_string(p), directory_mode);
                for (u32 e = 0; e < entries; ++e) {
                    const u64 i = u64{p} * entries + e;
                    files[i] = add_entry(*volume, in, names[e], file_mode);
                    lookups[i] = {in, names[e]};
                }
            }
        });
        require(volume->sync() == Errc::ok, "cannot sync");
    }

    /// Changes `count` files, spread over all.
    void change(u64 count, u32 mode) {
        by_all_cores([&](u32 worker, u32 workers) {
            AttributeChange change;
            change.which = AttributeChange::mode;
            change.new_mode = mode;
            for (u64 i = worker; i < count; i += workers)
                require(bool(volume->set_attributes({}, files[i * files.size() / count], change)),
                        "cannot change a file");
        });
    }
};

/// A thread that creates files in the root until it is ended, and removes them then.
class CreationsBeside {
 public:
    explicit CreationsBeside(Volume& volume) : volume_(volume), thread_([this] { create(); }) {
        while (created_.load() < 2 * warm_ups)
            std::this_thread::yield();
    }
    /// The seconds of the slowest creation.
    double end() {
        is_over_.store(true);
        thread_.join();
        for (u64 i = 0; i < created_.load(); ++i)
            require(volume_.unlink({}, volume_.root(), name(i)) == Errc::ok, "cannot unlink");
        return slowest_;
    }

 private:
    static constexpr u64 warm_ups = 100;

    static std::string name(u64 i) { return "beside" + std::to_string(i); }
    void create() {
        for (u64 i = 0; !is_over_.load(); ++i) {
            const double taken = time_of(
                [&] { static_cast<void>(add_entry(volume_, volume_.root(), name(i), file_mode)); });
            if (i > warm_ups) slowest_ = std::max(slowest_, taken);
            created_.store(i + 1);
        }
    }

    Volume& volume_;
    std::atomic<u64> created_{0};
    std::atomic<bool> is_over_{false};
    double slowest_ = 0;  // of the thread, then of end()
    std::thread thread_;
};

class Bench {
 public:
    Bench(u32 parents, u32 entries, u64 runs, Report& report)
        : both_(4 * gib, parents, entries),
          cpu_(0, parents, entries),
          parents_(parents),
          entries_(entries),
          runs_(runs),
          report_(report) {
        ReplicaQueries* const replica = both_.volume.inside().replica();
        require(replica != nullptr, both_.volume->engine_note());
        replica->use_only(Side::replica);
        all_ = 1 + parents + u64{parents} * entries;
        named_ = 1 + 2 * u64{parents};
    }

    void find_named() { measure("find -name 'entry99'", 0.0005, 0, find(named_, "entry99")); }
    void find_all() { measure("a visit for every entry", 0.0026, 0, find(all_, "")); }
    void find_behind(u64 changes, double must) {
        const double before = report_.median("find -name 'entry99'", by_both);
        measure("find behind " + std::to_string(changes) + " changes", before + must, changes,
                find(named_, "entry99"));
    }
    void du() {
        measure("du -s", 0.0003, 0, [&](Tree& tree) {
            Volume& volume = *tree.volume;
            std::vector<DirectoryUsage> usage;
            require(volume.usage({}, volume.root(), {}, usage) == Errc::ok, "du failed");
            require(usage[0].entries == all_, "counted " + std::to_string(usage[0].entries));
        });
    }
    void look_up() {
        measure("look up all names", 0.0045, 0, [&](Tree& tree) {
            tree.volume->lookup_many({}, tree.lookups, tree.found);
            require(bool(tree.found.front()) && bool(tree.found.back()), "lookups failed");
        });
    }
    /// Removes a tree of the same size, of which nothing is marked; then the same beside creations,
    /// of which the slowest counts.
    void remove() {
        const std::string removal = "remove a tree";
        const std::string beside = "slowest creation beside that";
        for (u64 run = 0; run < 2 * runs_ + 1; ++run) {
            const bool creates = run > runs_;
            if (!creates) expect_answered();
            const double with_gpu = time_removal(both_, creates);
            const double alone = time_removal(cpu_, creates);
            if (run == 0) continue;
            const std::string label = creates ? beside : removal;
            const double items = creates ? 1 : static_cast<double>(all_);
            report_.add(label, by_both, with_gpu, items);
            report_.add(label, by_cpu, alone, items);
        }
        report_.set_reference(removal, by_cpu);
        report_.set_reference(beside, by_cpu);
        require_bound(removal, 0.002);
        require_bound(beside, 0.005);
    }
    /// Creates files, moves them to other directories, and removes them, each by one call; then the
    /// same beside creations, of which the slowest counts: it waits while a window of a batch runs.
    void change_many() {
        const std::string kinds[] = {"create_many", "move_many", "remove_many"};
        const double must_seconds[] = {0.030, 0.028};  // of the first two
        for (const u32 directories : {parents_, 1u}) {
            const std::string where = directories == 1 ? ", one directory" : "";
            for (u64 run = 0; run < 2 * runs_ + 1; ++run) {
                const bool creates = run > runs_;
                for (Tree* const tree : {&both_, &cpu_}) {
                    const Changes taken = time_changes(*tree, directories, creates);
                    if (run == 0) continue;
                    const char* const subject = tree == &both_ ? by_both : by_cpu;
                    if (creates) {
                        report_.add(pauses_ + where, subject, taken.slowest, 1);
                        continue;
                    }
                    for (u32 i = 0; i < std::size(kinds); ++i)
                        report_.add(kinds[i] + where, subject, taken.seconds[i],
                                    static_cast<double>(u64{parents_} * entries_));
                }
            }
            for (const std::string& kind : kinds)
                report_.set_reference(kind + where, by_cpu);
            report_.set_reference(pauses_ + where, by_cpu);
        }
        for (u32 i = 0; i < std::size(must_seconds); ++i)
            require_bound(kinds[i], must_seconds[i]);
    }
    /// Packs a directory of which every other name has gone, in calls that are small beside it: one
    /// call for most of a directory would leave it packed. Nothing is marked; then behind those
    /// removals, which the CPU has carried out.
    void pack() {
        const std::string label = "pack a directory";
        const std::string behind = "pack a directory behind the removals";
        const u64 count = u64{parents_} * entries_;
        for (u64 run = 0; run < 2 * (runs_ + 1); ++run) {
            const bool is_behind = run % 2 != 0;
            for (Tree* const tree : {&both_, &cpu_}) {
                const double taken = time_packing(*tree, count, !is_behind);
                if (run < 2) continue;
                report_.add(is_behind ? behind : label, tree == &both_ ? by_both : by_cpu, taken,
                            static_cast<double>(count));
            }
        }
        report_.set_reference(label, by_cpu);
        report_.set_reference(behind, by_cpu);
        require_bound(label, 0.004);
    }
    void expect_answered() {
        require(both_.volume.inside().replica()->statistics().left == 0, "the CPU had to help");
    }

 private:
    using Work = std::function<void(Tree& tree)>;

    Work find(u64 matches, const std::string& pattern) {
        return [this, matches, pattern](Tree& tree) {
            Volume& volume = *tree.volume;
            visited_.clear();
            const auto visit = [this](const Scanned&) {
                visited_.add();
                return true;
            };
            ScanFilter filter;
            filter.pattern = pattern;
            require(volume.scan({}, volume.root(), visit, filter) == Errc::ok, "find failed");
            require(visited_.sum() == matches, "saw " + std::to_string(visited_.sum()));
        };
    }

    /// Lets the GPU have all changes.
    static void refresh(Volume& volume) {
        std::vector<DirectoryUsage> usage;
        require(volume.usage({}, volume.root(), {}, usage) == Errc::ok, "du failed");
    }

    double time_packing(Tree& tree, u64 count, bool must_refresh) {
        constexpr u64 calls = 100;
        Volume& volume = *tree.volume;
        const Handle directory = add_entry(volume, volume.root(), "packed", directory_mode);
        std::vector<std::string> names;
        for (u64 i = 0; i < 2 * count; ++i)
            names.push_back("entry" + std::to_string(i));
        std::vector<Creation> creations;
        std::vector<Unlink> removals;
        for (u64 i = 0; i < 2 * count; ++i) {
            creations.push_back({directory, names[i], {}});
            if (i % 2 == 0) removals.push_back({directory, names[i]});
        }
        std::vector<Result<Attributes>> made(creations.size(), Errc::io);
        std::vector<Errc> codes(removals.size(), Errc::io);
        volume.create_many({}, creations, made);
        for (u64 i = 0; i < calls; ++i) {
            const u64 begin = count * i / calls;
            const u64 end = count * (i + 1) / calls;
            volume.remove_many({}, std::span(removals).subspan(begin, end - begin),
                               std::span(codes).subspan(begin, end - begin));
        }
        require(std::ranges::count(codes, Errc::ok) == static_cast<i64>(count), "not all removed");
        require(volume.sync() == Errc::ok, "cannot sync");
        if (must_refresh) refresh(volume);
        Rebuilt rebuilt;
        const double taken = time_of(
            [&] { require(volume.rebuild({}, directory, rebuilt) == Errc::ok, "cannot pack"); });
        require(rebuilt.entries == count && rebuilt.blocks_after < rebuilt.blocks_before,
                "packed something else");
        Removal removed;
        require(volume.remove_tree({}, volume.root(), "packed", removed) == Errc::ok,
                "cannot remove");
        require(volume.sync() == Errc::ok, "cannot sync");
        return taken;
    }

    struct Changes {
        double seconds[3];
        double slowest;  // creation by another thread meanwhile, or 0
    };
    Changes time_changes(Tree& tree, u32 directories, bool creates) {
        Volume& volume = *tree.volume;
        const u64 count = u64{parents_} * entries_;
        std::vector<std::string> names;
        for (u64 i = 0; i < count / directories; ++i)
            names.push_back("entry" + std::to_string(i));
        const auto directory = [](const char* prefix, u32 i) { return prefix + std::to_string(i); };
        std::vector<Creation> creations;
        std::vector<Move> moves;
        std::vector<Unlink> removals;
        for (u32 i = 0; i < directories; ++i) {
            const Handle from =
                add_entry(volume, volume.root(), directory("from", i), directory_mode);
            const Handle to = add_entry(volume, volume.root(), directory("to", i), directory_mode);
            for (const std::string& name : names) {
                creations.push_back({from, name, {}});
                moves.push_back({from, name, to, name});
                removals.push_back({to, name, false});
            }
        }
        std::vector<Result<Attributes>> made(count, Errc::io);
        std::vector<Errc> codes(count, Errc::io);
        const auto require_done = [&] {
            require(std::ranges::count(codes, Errc::ok) == static_cast<i64>(count), "not all done");
            require(volume.sync() == Errc::ok, "cannot sync");
        };
        Changes taken{};
        std::optional<CreationsBeside> beside;
        if (creates) beside.emplace(volume);
        taken.seconds[0] = time_of([&] { volume.create_many({}, creations, made); });
        std::ranges::transform(made, codes.begin(), [](const auto& one) { return one.code(); });
        require_done();
        taken.seconds[1] = time_of([&] { volume.move_many({}, moves, codes); });
        require_done();
        taken.seconds[2] = time_of([&] { volume.remove_many({}, removals, codes); });
        require_done();
        if (creates) taken.slowest = beside->end();
        for (u32 i = 0; i < directories; ++i) {
            for (const char* const prefix : {"from", "to"})
                require(
                    volume.remove_directory({}, volume.root(), directory(prefix, i)) == Errc::ok,
                    "cannot remove");
        }
        return taken;
    }

    /// Makes another tree of the same size, and removes it when nothing is marked. With `creates`
    /// another thread creates files: the time of the slowest creation, else that of the removal.
    double time_removal(Tree& tree, bool creates) {
        Volume& volume = *tree.volume;
        const Handle doomed = add_entry(volume, volume.root(), "doomed", directory_mode);
        build_flat(volume, doomed, parents_, entries_, file_mode);
        require(volume.sync() == Errc::ok, "cannot sync");
        refresh(volume);
        std::optional<CreationsBeside> beside;
        if (creates) beside.emplace(volume);
        Removal removed;
        const double taken = time_of([&] {
            require(volume.remove_tree({}, volume.root(), "doomed", removed) == Errc::ok,
                    "cannot remove");
        });
        const double slowest = creates ? beside->end() : 0;
        require(removed.files + removed.directories == all_, "removed something else");
        return creates ? slowest : taken;
    }

    void measure(const std::string& label, double must_seconds, u64 changes, const Work& work) {
        for (u64 run = 0; run < runs_ + 1; ++run) {
            const u32 mode = run % 2 == 0 ? 0600 : 0644;
            both_.change(changes, mode);
            const double with_gpu = time_of([&] { work(both_); });
            cpu_.change(changes, mode);
            const double alone = time_of([&] { work(cpu_); });
            if (run == 0) continue;
            report_.add(label, by_both, with_gpu, static_cast<double>(all_));
            report_.add(label, by_cpu, alone, static_cast<double>(all_));
        }
        report_.set_reference(label, by_cpu);
        require_bound(label, must_seconds);
    }
    void require_bound(const std::string& label, double must_seconds) {
        report_.must(label + ": bound over measured", must_seconds / report_.median(label, by_both),
                     1);
    }

    const std::string pauses_ = "slowest creation beside create_many to remove_many";

    Tree both_;
    Tree cpu_;
    const u32 parents_;
    const u32 entries_;
    const u64 runs_;
    Report& report_;
    u64 all_ = 0;
    u64 named_ = 0;
    VisitCounter visited_;
};

int print_sharing(const Scale& scale, Report& report) {
    const MemoryVolume volume(size_bytes, 4 * gib);
    ReplicaQueries* const replica = volume.inside().replica();
    require(replica != nullptr, volume->engine_note());
    replica->use_only(Side::replica);
    measure_shared_removal(*volume, by_both, scale, report);
    report.note(std::to_string(replica->statistics().left) + " queries were left to the CPU");
    return report.finish();
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u32 parents = static_cast<u32>(option(argument_count, arguments, "parents", 1000));
    const u32 entries = static_cast<u32>(option(argument_count, arguments, "entries", 1000));
    const u64 runs = option(argument_count, arguments, "runs", 5);
    Report report("replica_bench", argument_count, arguments);
    if (option(argument_count, arguments, "sharing", 0) != 0) {
        report.name_file("replica_sharing");
        return print_sharing({.large_runs = runs, .directories = parents, .files_each = entries},
                             report);
    }
    Bench bench(parents, entries, runs, report);
    if (option(argument_count, arguments, "changes", 0) != 0) {
        report.name_file("replica_changes");
        bench.change_many();
        bench.pack();
        return report.finish();
    }
    bench.find_named();
    bench.du();
    bench.find_all();
    bench.look_up();
    bench.find_behind(10'000, 0.0025);
    bench.find_behind(100'000, 0.012);
    bench.expect_answered();
    bench.remove();
    bench.change_many();
    bench.pack();
    return report.finish();
}

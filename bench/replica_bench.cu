// SPDX-License-Identifier: Apache-2.0
// How long do find, du and lookups of many names take on the CPU engine with a GPU beside it? Over
// a million files of which the GPU has a replica, and behind changes of the host, which are sent
// first. Beside it the CPU engine alone with all cores, on a volume of its own.
//
// The GPU answers also where the volume would rather let the CPU: behind many changes. Finally, a
// tree of the same size is removed, of which nothing is marked; then the same beside creations, of
// which the slowest counts. A change is chmod(2) of a file; the changed files are spread over all
// inodes. From the call to the answer: what is marked is copied and sent, and kernels run; the
// changes themselves are not in it.
//
//   replica_bench [--runs N] [--parents N] [--entries N]    N runs (5); 1000 directories of 1000
//       [--sharing 1]    only the removal of trees with shared blocks (shared_removal.hpp)
#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/counter.hpp"
#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/shared_removal.hpp"

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
        report_.must(removal + ": bound over measured", 0.002 / report_.median(removal, by_both),
                     1);
        report_.must(beside + ": bound over measured", 0.005 / report_.median(beside, by_both), 1);
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

    /// Makes another tree of the same size, and removes it when nothing is marked. With `creates`
    /// another thread creates files: the time of the slowest creation, else that of the removal.
    double time_removal(Tree& tree, bool creates) {
        Volume& volume = *tree.volume;
        const Handle doomed = add_entry(volume, volume.root(), "doomed", directory_mode);
        build_flat(volume, doomed, parents_, entries_, file_mode);
        require(volume.sync() == Errc::ok, "cannot sync");
        std::vector<DirectoryUsage> usage;
        require(volume.usage({}, volume.root(), {}, usage) == Errc::ok, "du failed");
        std::atomic<u64> created{0};
        std::atomic<bool> is_over{!creates};
        double slowest = 0;
        std::thread creating([&] {
            for (u64 i = 0; !is_over.load(); ++i) {
                const std::string name = "beside" + std::to_string(i);
                const double taken = time_of(
                    [&] { static_cast<void>(add_entry(volume, volume.root(), name, file_mode)); });
                // The first ones warm up.
                if (i > 100) slowest = std::max(slowest, taken);
                created.store(i + 1);
            }
        });
        while (creates && created.load() < 200)
            std::this_thread::yield();
        Removal removed;
        const double taken = time_of([&] {
            require(volume.remove_tree({}, volume.root(), "doomed", removed) == Errc::ok,
                    "cannot remove");
        });
        is_over.store(true);
        creating.join();
        require(removed.files + removed.directories == all_, "removed something else");
        for (u64 i = 0; i < created.load(); ++i) {
            require(volume.unlink({}, volume.root(), "beside" + std::to_string(i)) == Errc::ok,
                    "cannot unlink");
        }
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
        report_.must(label + ": bound over measured", must_seconds / report_.median(label, by_both),
                     1);
    }

    Tree both_;
    Tree cpu_;
    const u32 parents_;
    const u32 entries_;
    const u64 runs_;
    Report& report_;
    u64 all_ = 0;
    u64 named_ = 0;
    Counter visited_;
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
    bench.find_named();
    bench.du();
    bench.find_all();
    bench.look_up();
    bench.find_behind(10'000, 0.0025);
    bench.find_behind(100'000, 0.012);
    bench.expect_answered();
    bench.remove();
    return report.finish();
}

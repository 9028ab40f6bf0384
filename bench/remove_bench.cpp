// SPDX-License-Identifier: Apache-2.0
// How long does it take to remove a tree? The scenarios of the thesis (Single, Deep, Wide, Mix) and
// many files: Volume::remove_tree(), and `warren rm -r` on a mount, beside `rm -rf` and the
// smallest loop of system calls, on tmpfs and on ext4 over a loop device in memory. What is mounted
// is measured with the kernel's names cached and without. And 1,000 names of one directory: in one
// call of Volume::remove_many(), one by one, and by unlink(2). Three times are told apart: the
// names are gone (return of the call), the space can be used again, all is durable. In Warren the
// last two are one moment, the end of the commit; on tmpfs the first two are; on ext4 the space
// comes back with the journal's commit, so also with sync. With --sharing: with shared blocks.
//
//   remove_bench [--table 0] [--sharing 1] [--runs N] [--large 0]
//       what is done (the table); N runs (5); 0: without 1,000,000 files
#include <fcntl.h>
#include <unistd.h>

#include <functional>

#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/shared_removal.hpp"
#include "bench/support/trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

struct Scenario {
    std::string label;
    std::function<Tree(const std::string&)> make;
    u64 runs;
    bool has_loop;
};

struct Places {
    Scratch memory{"/dev/shm"};
    Scratch tmpfs{"/dev/shm"};
    LoopExt4 ext4{memory.path(), 12 * gib, 12'000'000};
    OpenVolume volume{memory.path(), 16 * gib};
    WarrenMount mounted{memory.path(), 16 * gib};
};

const char* const gone = "Warren remove_tree, names gone";
const char* const durable = "Warren remove_tree + sync, durable and reusable";

const char* const mounted_gone = "mount, warren rm -r";
const char* const ext4_gone = "ext4 rm -rf";

/// The ways to remove; each needs a tree of its own a run.
const char* const rm_name = "rm";
const char* const loop_name = "loop";
const char* const cold_name = "cold";

std::string tree_name(const std::string& way, u64 run) {
    return way + std::to_string(run);
}

void make_trees(const Scenario& scenario, Places& places) {
    for (u64 run = 0; run < scenario.runs; ++run) {
        const Tree tree = scenario.make(tree_name(rm_name, run));
        make_in_volume(*places.volume, places.volume->root(), tree);
        make_on_host(places.tmpfs.path(), tree);
        make_on_host(places.ext4.path(), tree);
        if (!scenario.has_loop) continue;
        const Tree other = scenario.make(tree_name(loop_name, run));
        make_on_host(places.tmpfs.path(), other);
        make_on_host(places.ext4.path(), other);
    }
    for (u64 run = 0; run < scenario.runs; ++run)
        make_on_host(places.ext4.path(), scenario.make(tree_name(cold_name, run)));
    places.mounted.fill([&](Volume& volume) {
        for (u64 run = 0; run < scenario.runs; ++run) {
            for (const char* way : {rm_name, cold_name})
                make_in_volume(volume, volume.root(), scenario.make(tree_name(way, run)));
        }
    });
    places.mounted.mount();
    require(places.volume->sync() == Errc::ok, "cannot sync the volume");
    places.ext4.sync();
}

void measure_mounted(const Scenario& scenario, const Places& places, u64 run, double items,
                     Report& report) {
    for (const Names names : {Names::cached, Names::not_cached}) {
        const char* way = names == Names::cached ? rm_name : cold_name;
        const std::string path = places.mounted.path() + "/" + tree_name(way, run);
        prepare_names(names, path);
        const double removed = time_of([&] { run_or_die({warren_program(), "rm", "-r", path}); });
        report.add(scenario.label, mounted_gone + suffix_of(names), removed, items);
        report.add(scenario.label, mounted_gone + (" + warren sync, durable" + suffix_of(names)),
                   removed + time_of([&] {
                       run_or_die({warren_program(), "sync", places.mounted.path()});
                   }),
                   items);
    }
    const std::string cold = places.ext4.path() + "/" + tree_name(cold_name, run);
    prepare_names(Names::not_cached, cold);
    report.add(scenario.label, ext4_gone + suffix_of(Names::not_cached), time_of([&] {
                   run_or_die({"rm", "-rf", cold});
               }),
               items);
    places.ext4.sync();
}

void measure_host(const Scenario& scenario, Places& places, u64 run, double items, Report& report) {
    const std::string& tmpfs = places.tmpfs.path();
    const std::string& ext4 = places.ext4.path();
    const std::string name = tree_name(rm_name, run);
    const auto rm = [&](const std::string& base) {
        return time_of([&] { run_or_die({"rm", "-rf", base + "/" + name}); });
    };
    report.add(scenario.label, "tmpfs rm -rf", rm(tmpfs), items);
    prepare_names(Names::cached, ext4 + "/" + name);
    const double names = rm(ext4);
    report.add(scenario.label, ext4_gone, names, items);
    report.add(scenario.label, "ext4 rm -rf + sync, durable",
               names + time_of([&] { places.ext4.sync(); }), items);
    if (!scenario.has_loop) return;
    const std::string other = tree_name(loop_name, run);
    report.add(scenario.label, "tmpfs unlinkat loop",
               time_of([&] { remove_by_loop(tmpfs, other); }), items);
    report.add(scenario.label, "ext4 unlinkat loop", time_of([&] { remove_by_loop(ext4, other); }),
               items);
    places.ext4.sync();
}

void measure(const Scenario& scenario, Report& report) {
    Places places;
    make_trees(scenario, places);
    const double items = static_cast<double>(scenario.make("x").size());
    for (u64 run = 0; run < scenario.runs; ++run) {
        Removal removal;
        const double names = time_of([&] {
            require(places.volume->remove_tree({}, places.volume->root(), tree_name(rm_name, run),
                                               removal) == Errc::ok,
                    "remove_tree failed");
        });
        report.add(scenario.label, gone, names, items);
        report.add(
            scenario.label, durable,
            names + time_of([&] { require(places.volume->sync() == Errc::ok, "sync failed"); }),
            items);
        require(static_cast<double>(removal.files + removal.directories) == items,
                "remove_tree counted wrong");
        measure_host(scenario, places, run, items, report);
        measure_mounted(scenario, places, run, items, report);
    }
    report.set_reference(scenario.label, gone);
}

/// One file through unlink(), which a caller with one name would use.
void measure_unlink(Report& report, u64 runs) {
    Places places;
    for (u64 run = 0; run < runs; ++run)
        make_in_volume(*places.volume, places.volume->root(), single_file(tree_name("one", run)));
    require(places.volume->sync() == Errc::ok, "cannot sync the volume");
    for (u64 run = 0; run < runs; ++run) {
        report.add("Single", "Warren unlink", time_of([&] {
                       require(places.volume->unlink({}, places.volume->root(),
                                                     tree_name("one", run)) == Errc::ok,
                               "unlink failed");
                   }),
                   1);
    }
}

constexpr u32 names_at_once = 1000;

/// One directory with files.
Tree directory_of(const std::string& name, u32 entries) {
    Tree tree = flat_tree("", 1, entries, false);
    tree.erase(tree.begin());
    for (Node& node : tree)
        --node.depth;
    tree[0].name = name;
    return tree;
}

/// Seconds of unlink(2) for the names of a tree that make_on_host() has made in `folder`.
double unlink_on_host(const std::string& folder, const Tree& tree) {
    const int directory = ::open((folder + "/" + tree[0].name).c_str(), O_PATH | O_DIRECTORY);
    require(directory >= 0, "cannot open " + folder);
    const double seconds = time_of([&] {
        for (std::size_t i = 1; i < tree.size(); ++i)
            require(::unlinkat(directory, tree[i].name.c_str(), 0) == 0, "cannot unlink");
    });
    ::close(directory);
    return seconds;
}

/// Removes the names of a tree in the volume, all at once or one by one.
double unlink_in_volume(Volume& volume, const Tree& tree, bool at_once) {
    const Result<Attributes> directory = volume.lookup({}, volume.root(), tree[0].name);
    require(bool(directory), "cannot find " + tree[0].name);
    std::vector<Unlink> names;
    for (std::size_t i = 1; i < tree.size(); ++i)
        names.push_back({directory->handle, tree[i].name});
    std::vector<Errc> results(names.size(), Errc::io);
    const double seconds = time_of([&] {
        if (at_once) return volume.remove_many({}, names, results);
        for (std::size_t i = 0; i < names.size(); ++i)
            results[i] = volume.unlink({}, names[i].directory, names[i].name);
    });
    for (const Errc result : results)
        require(result == Errc::ok, "a name was not removed");
    return seconds;
}

/// All files of a directory, then the first of a directory of 20 times as many.
void measure_names(Report& report, u64 runs) {
    Places places;
    for (const u32 entries : {names_at_once, 20 * names_at_once}) {
        const std::string label = "1,000 names of " + std::to_string(entries);
        const std::string once = "Warren remove_many";
        for (u64 run = 0; run < runs; ++run) {
            const std::string suffix = std::to_string(entries) + "-" + std::to_string(run);
            Tree tree = directory_of("names" + suffix, entries);
            Tree other = directory_of("others" + suffix, entries);
            for (const Tree* one : {&tree, &other})
                make_in_volume(*places.volume, places.volume->root(), *one);
            make_on_host(places.tmpfs.path(), tree);
            make_on_host(places.ext4.path(), tree);
            require(places.volume->sync() == Errc::ok, "cannot sync the volume");
            places.ext4.sync();
            tree.resize(1 + names_at_once);
            other.resize(1 + names_at_once);
            const double gone_seconds = unlink_in_volume(*places.volume, tree, true);
            report.add(label, once, gone_seconds, names_at_once);
            report.add(label, once + " + sync, durable",
                       gone_seconds + time_of([&] {
                           require(places.volume->sync() == Errc::ok, "sync failed");
                       }),
                       names_at_once);
            report.add(label, "Warren unlink, one by one",
                       unlink_in_volume(*places.volume, other, false), names_at_once);
            report.add(label, "tmpfs unlink(2)", unlink_on_host(places.tmpfs.path(), tree),
                       names_at_once);
            const double ext4 = unlink_on_host(places.ext4.path(), tree);
            report.add(label, "ext4 unlink(2)", ext4, names_at_once);
            report.add(label, "ext4 unlink(2) + sync, durable",
                       ext4 + time_of([&] { places.ext4.sync(); }), names_at_once);
        }
        report.set_reference(label, once);
    }
}

int print_table(u64 runs, bool with_large, Report& report) {
    std::vector<Scenario> scenarios = {
        {"Single", single_file, runs, true},
        {"Deep", [](const std::string& name) { return deep_tree(name, 1000); }, runs, true},
        {"Wide", [](const std::string& name) { return wide_tree(name, 1000); }, runs, true},
        {"Mix", [](const std::string& name) { return flat_tree(name, 100, 100, true); }, runs,
         true},
        {"100,000 files", [](const std::string& name) { return flat_tree(name, 100, 1000, false); },
         runs, true},
    };
    if (with_large) {
        scenarios.push_back(
            {"1,000,000 files",
             [](const std::string& name) { return flat_tree(name, 1000, 1000, false); }, 3, false});
    }
    for (const Scenario& scenario : scenarios)
        measure(scenario, report);
    measure_unlink(report, runs);
    measure_names(report, runs);
    report.must("Mix, rm -rf on tmpfs over Warren (names gone)",
                report.median("Mix", "tmpfs rm -rf") / report.median("Mix", gone), 20);
    const std::string many = "100,000 files";
    for (const Names names : {Names::cached, Names::not_cached}) {
        report.must(many + suffix_of(names) + ", rm -rf on ext4 over warren rm -r on a mount",
                    report.median(many, ext4_gone + suffix_of(names)) /
                        report.median(many, mounted_gone + suffix_of(names)),
                    20);
    }
    return report.finish();
}

int print_sharing(u64 runs, bool with_large, Report& report) {
    const Scratch memory("/dev/shm");
    const OpenVolume volume(memory.path(), 32 * gib);
    const Scale scale{.large_runs = runs, .directories = with_large ? 1000u : 100u};
    measure_shared_removal(*volume, gone, scale, report);
    return report.finish();
}

}  // namespace

int main(int argument_count, char** arguments) {
    raise_open_file_limit();
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const bool with_large = option(argument_count, arguments, "large", 1) != 0;
    int code = 0;
    if (option(argument_count, arguments, "table", 1) != 0) {
        Report report("remove_bench", argument_count, arguments);
        code |= print_table(runs, with_large, report);
    }
    if (option(argument_count, arguments, "sharing", 0) != 0) {
        Report report("remove_bench", argument_count, arguments);
        report.name_file("remove_sharing");
        code |= print_sharing(runs, with_large, report);
    }
    return code;
}

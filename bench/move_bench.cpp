// SPDX-License-Identifier: Apache-2.0
// How long does it take to move files? Volume::move_many() over 10 to 100,000 files that share one
// directory, or lie in one of their own each, and the same as one command to a mount, beside loops
// of rename(2) on tmpfs and ext4.
//
// Every run moves all files there or back, so each finds the names where the last one left them.
// rename(2) gets paths relative to an open directory; the library gets handles, and once paths,
// whose directories it then looks up within the time; the mount gets paths.
//
//   move_bench [--runs N] [--largest N]
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "apps/fuse/control.hpp"
#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

/// A file, the directory that it lies in and the one that it goes to.
struct Journey {
    std::string name;
    std::string from;
    std::string to;
};

struct Scenario {
    std::string label;
    std::string root;
    Tree tree;
    std::vector<Journey> journeys;
};

Scenario shared_scenario(u64 count) {
    const std::string number = std::to_string(count);
    Scenario made{number + ", one shared directory", "shared" + number, {}, {}};
    made.tree = {{0, made.root, true}, {1, "to", true}, {1, "from", true}};
    for (u64 i = 0; i < count; ++i) {
        const std::string name = "file" + std::to_string(i);
        made.tree.push_back({2, name, false});
        made.journeys.push_back({name, "from", "to"});
    }
    return made;
}

Scenario unique_scenario(u64 count) {
    const std::string number = std::to_string(count);
    Scenario made{number + ", each its own", "unique" + number, {}, {}};
    made.tree = {{0, made.root, true}};
    for (u64 i = 0; i < count; ++i) {
        const std::string own = std::to_string(i);
        made.tree.push_back({1, "to" + own, true});
        made.tree.push_back({1, "from" + own, true});
        made.tree.push_back({2, "file", false});
        made.journeys.push_back({"file", "from" + own, "to" + own});
    }
    return made;
}

double move_on_host(const std::string& folder, const Scenario& scenario, bool back) {
    const int root =
        ::open((folder + "/" + scenario.root).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(root >= 0, "cannot open " + folder);
    std::vector<std::pair<std::string, std::string>> paths;
    for (const Journey& one : scenario.journeys) {
        paths.emplace_back(one.from + "/" + one.name, one.to + "/" + one.name);
        if (back) std::swap(paths.back().first, paths.back().second);
    }
    const double seconds = time_of([&] {
        for (const auto& [from, to] : paths)
            require(::renameat(root, from.c_str(), root, to.c_str()) == 0, "cannot move " + from);
    });
    ::close(root);
    return seconds;
}

Handle directory_of(Volume& volume, Handle root, const std::string& name) {
    const Result<Attributes> found = volume.lookup({}, root, name);
    require(bool(found), "cannot find " + name);
    return (*found).handle;
}

std::vector<Move> moves_of(Volume& volume, Handle root, const Scenario& scenario, bool back) {
    std::vector<Move> moves;
    moves.reserve(scenario.journeys.size());
    for (const Journey& one : scenario.journeys) {
        const Handle from = directory_of(volume, root, back ? one.to : one.from);
        const Handle to = directory_of(volume, root, back ? one.from : one.to);
        moves.push_back({from, one.name, to, one.name});
    }
    return moves;
}

void move_all(Volume& volume, const std::vector<Move>& moves) {
    std::vector<Errc> results(moves.size(), Errc::io);
    volume.move_many({}, moves, results);
    for (const Errc result : results)
        require(result == Errc::ok, "move_many failed");
}

void move_each(Volume& volume, const std::vector<Move>& moves) {
    for (const Move& one : moves) {
        require(volume.rename({}, one.from, one.name, one.to, one.new_name) == Errc::ok,
                "rename failed");
    }
}

double move_on_mount(const std::string& folder, const Scenario& scenario, bool back) {
    const std::string root = folder + "/" + scenario.root + "/";
    std::vector<fuse::PathMove> moves;
    for (const Journey& one : scenario.journeys) {
        const std::string there = root + one.to + "/" + one.name;
        const std::string here = root + one.from + "/" + one.name;
        moves.push_back(back ? fuse::PathMove{there, here} : fuse::PathMove{here, there});
    }
    std::vector<Errc> results(moves.size(), Errc::io);
    const double seconds = time_of([&] {
        auto connection = fuse::ControlConnection::for_path(folder);
        require(connection && connection->move(moves, results) == Errc::ok, "the move failed");
    });
    for (const Errc result : results)
        require(result == Errc::ok, "a move failed");
    return seconds;
}

struct Places {
    Scratch memory{"/dev/shm"};
    Scratch tmpfs{"/dev/shm"};
    LoopExt4 ext4{memory.path(), 4 * gib, 2'000'000};
    OpenVolume volume{memory.path(), 8 * gib};
    WarrenMount mounted{memory.path(), 8 * gib};
};

void make_trees(Places& places, const std::vector<Scenario>& scenarios) {
    const auto make = [&](Volume& volume) {
        for (const Scenario& scenario : scenarios)
            make_in_volume(volume, volume.root(), scenario.tree);
    };
    make(*places.volume);
    places.mounted.fill(make);
    places.mounted.mount();
    for (const Scenario& scenario : scenarios) {
        make_on_host(places.tmpfs.path(), scenario.tree);
        make_on_host(places.ext4.path(), scenario.tree);
    }
    require(places.volume->sync() == Errc::ok, "cannot sync the volume");
    places.ext4.sync();
}

/// Three ways through the library, so the direction changes with every measurement and `back` with
/// every run.
void measure_library(Report& report, Places& places, const Scenario& scenario, bool back) {
    Volume& volume = *places.volume;
    const double items = static_cast<double>(scenario.journeys.size());
    const Handle root = directory_of(volume, volume.root(), scenario.root);
    std::vector<Move> moves = moves_of(volume, root, scenario, back);
    const double moved = time_of([&] { move_all(volume, moves); });
    report.add(scenario.label, "Warren move_many, by handle", moved, items);
    report.add(scenario.label, "Warren move_many + sync, durable",
               moved + time_of([&] { require(volume.sync() == Errc::ok, "sync failed"); }), items);
    report.add(scenario.label, "Warren move_many, by path",
               time_of([&] { move_all(volume, moves_of(volume, root, scenario, !back)); }), items);
    moves = moves_of(volume, root, scenario, back);
    report.add(scenario.label, "Warren rename, one by one",
               time_of([&] { move_each(volume, moves); }), items);
}

/// To the target with the kernel's names cached, back without.
void measure_through_kernel(Report& report, const Places& places, const Scenario& scenario) {
    const double items = static_cast<double>(scenario.journeys.size());
    const std::string& mounted = places.mounted.path();
    const std::string& ext4 = places.ext4.path();
    for (const Names names : {Names::cached, Names::not_cached}) {
        const bool back = names == Names::not_cached;
        prepare_names(names, mounted + "/" + scenario.root);
        report.add(scenario.label, "mount, one command" + suffix_of(names),
                   move_on_mount(mounted, scenario, back), items);
        prepare_names(names, ext4 + "/" + scenario.root);
        const double renamed = move_on_host(ext4, scenario, back);
        report.add(scenario.label, "ext4 rename(2)" + suffix_of(names), renamed, items);
        report.add(scenario.label, "ext4 rename(2) + sync, durable" + suffix_of(names),
                   renamed + time_of([&] { places.ext4.sync(); }), items);
        if (names == Names::not_cached) continue;
        for (const bool tmpfs_back : {false, true}) {
            report.add(scenario.label, "tmpfs rename(2)",
                       move_on_host(places.tmpfs.path(), scenario, tmpfs_back), items);
        }
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    raise_open_file_limit();
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 largest = option(argument_count, arguments, "largest", 100'000);
    Report report("move_bench", argument_count, arguments);
    std::vector<Scenario> scenarios;
    for (const u64 count : {10u, 50u, 100u, 500u, 1000u, 100'000u}) {
        if (count > largest) continue;
        scenarios.push_back(shared_scenario(count));
        scenarios.push_back(unique_scenario(count));
    }
    Places places;
    make_trees(places, scenarios);
    for (const Scenario& scenario : scenarios) {
        for (u64 run = 0; run < runs; ++run) {
            measure_library(report, places, scenario, run % 2 != 0);
            measure_through_kernel(report, places, scenario);
        }
        report.set_reference(scenario.label, "Warren move_many, by handle");
    }
    return report.finish();
}

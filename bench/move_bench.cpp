// SPDX-License-Identifier: Apache-2.0
// How long does it take to move files? Volume::move_many() over 10 to 100,000 files that share one
// directory, or lie in one of their own each, beside loops of rename(2) on tmpfs and ext4.
//
// Every run moves all files there or back, so each finds the names where the last one left them.
// rename(2) gets paths relative to an open directory; Warren gets handles, and once paths, whose
// directories it then looks up within the time.
//
//   move_bench [--runs N] [--largest N]
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

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
    std::string root;
    Tree tree;
    std::vector<Journey> journeys;
};

Scenario shared_scenario(u64 count) {
    Scenario made{"shared" + std::to_string(count), {}, {}};
    made.tree = {{0, made.root, true}, {1, "to", true}, {1, "from", true}};
    for (u64 i = 0; i < count; ++i) {
        const std::string name = "file" + std::to_string(i);
        made.tree.push_back({2, name, false});
        made.journeys.push_back({name, "from", "to"});
    }
    return made;
}

Scenario unique_scenario(u64 count) {
    Scenario made{"unique" + std::to_string(count), {}, {}};
    made.tree = {{0, made.root, true}};
    for (u64 i = 0; i < count; ++i) {
        const std::string number = std::to_string(i);
        made.tree.push_back({1, "to" + number, true});
        made.tree.push_back({1, "from" + number, true});
        made.tree.push_back({2, "file", false});
        made.journeys.push_back({"file", "from" + number, "to" + number});
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

struct Places {
    Scratch memory{"/dev/shm"};
    Scratch tmpfs{"/dev/shm"};
    LoopExt4 ext4{memory.path(), 4 * gib, 2'000'000};
    OpenVolume volume{memory.path(), 8 * gib};
};

void measure(Report& report, Places& places, const std::string& label, const Scenario& scenario,
             u64 runs) {
    Volume& volume = *places.volume;
    const double items = static_cast<double>(scenario.journeys.size());
    make_in_volume(volume, volume.root(), scenario.tree);
    make_on_host(places.tmpfs.path(), scenario.tree);
    make_on_host(places.ext4.path(), scenario.tree);
    require(volume.sync() == Errc::ok, "cannot sync the volume");
    places.ext4.sync();
    const Handle root = directory_of(volume, volume.root(), scenario.root);
    // Three ways of Warren a run, so the direction changes with every measurement.
    bool back = false;
    for (u64 run = 0; run < runs; ++run) {
        std::vector<Move> moves = moves_of(volume, root, scenario, back);
        const double moved = time_of([&] { move_all(volume, moves); });
        report.add(label, "Warren move_many, by handle", moved, items);
        report.add(label, "Warren move_many + sync, durable",
                   moved + time_of([&] { require(volume.sync() == Errc::ok, "sync failed"); }),
                   items);
        back = !back;
        report.add(label, "Warren move_many, by path",
                   time_of([&] { move_all(volume, moves_of(volume, root, scenario, back)); }),
                   items);
        back = !back;
        moves = moves_of(volume, root, scenario, back);
        report.add(label, "Warren rename, one by one", time_of([&] { move_each(volume, moves); }),
                   items);
        back = !back;
        const bool host_back = run % 2 != 0;
        report.add(label, "tmpfs rename(2)", move_on_host(places.tmpfs.path(), scenario, host_back),
                   items);
        const double renamed = move_on_host(places.ext4.path(), scenario, host_back);
        report.add(label, "ext4 rename(2)", renamed, items);
        report.add(label, "ext4 rename(2) + sync, durable",
                   renamed + time_of([&] { places.ext4.sync(); }), items);
    }
    report.set_reference(label, "Warren move_many, by handle");
}

}  // namespace

int main(int argument_count, char** arguments) {
    raise_open_file_limit();
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 largest = option(argument_count, arguments, "largest", 100'000);
    Report report("move_bench", argument_count, arguments);
    Places places;
    for (const u64 count : {10u, 50u, 100u, 500u, 1000u, 100'000u}) {
        if (count > largest) continue;
        const std::string number = std::to_string(count);
        measure(report, places, number + ", one shared directory", shared_scenario(count), runs);
        measure(report, places, number + ", each its own", unique_scenario(count), runs);
    }
    return report.finish();
}

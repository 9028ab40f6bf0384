// SPDX-License-Identifier: Apache-2.0
// What does a program get through the mount? Single system calls and streams beside libfuse's
// passthrough over tmpfs, removal one by one beside ext4, and durable small changes (fsync, sqlite3
// commits) beside ext4 on a loop device; image and loop file lie in the same directory. The other
// programs here measure the bulk commands through the mount.
//
//   mount_bench [--runs N] [--files N] [--part P]   P: 1 single calls, 2 streams, 3 durability,
//                                                   4 removal one by one, 0 all (the default)
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/single_operations.hpp"
#include "bench/support/trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr const char* memory_folder = "/dev/shm";
constexpr const char* disk_folder = "/var/tmp";

constexpr const char* checked_peer = "passthrough_ll, default_permissions";

/// The peers of single calls and streams, each over a file or directory in memory.
struct Peers {
    Scratch scratch{memory_folder};
    Scratch source{memory_folder};
    WarrenMount warren{scratch.path(), 8 * gib};
    Scratch checked_source{memory_folder};
    Passthrough passthrough{scratch.path(), source.path(), false};
    Passthrough checked{scratch.path(), checked_source.path(), true};
    Peers() { warren.mount(); }

    /// The subjects and their directories; the first to be measured changes with each run.
    std::vector<std::pair<const char*, std::string>> order(u64 run) const {
        std::vector<std::pair<const char*, std::string>> all = {
            {"Warren", warren.path()},
            {"passthrough_ll", passthrough.path()},
            {checked_peer, checked.path()}};
        std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(run % all.size()),
                    all.end());
        return all;
    }
};

void compare(Report& report, const std::string& scenario) {
    report.set_reference(scenario, "Warren");
    report.must("rate over passthrough's, " + scenario,
                report.median(scenario, "passthrough_ll") / report.median(scenario, "Warren"), 0.8);
}

void measure_single(Report& report, u64 runs, u64 count) {
    const Peers peers;
    for (u64 run = 0; run < runs; ++run) {
        for (const auto& [subject, base] : peers.order(run)) {
            const std::string folder = base + "/single" + std::to_string(run);
            std::filesystem::create_directory(folder);
            for (const SingleOperation& operation : single_operations()) {
                if (operation.drops_caches) drop_caches(3);
                report.add(operation.name, subject, operation.run(folder, count),
                           static_cast<double>(count));
            }
        }
    }
    for (const SingleOperation& operation : single_operations())
        compare(report, operation.name);
}

void measure_streams(Report& report, u64 runs) {
    const Peers peers;
    for (u64 run = 0; run < runs; ++run) {
        for (const auto& [subject, base] : peers.order(run)) {
            const std::string file = base + "/stream";
            const double size_mib = 1024;
            report.add("write 1 GiB", subject, write_stream(file, gib), size_mib);
            report.add("write 1 GiB again", subject, write_stream(file, gib), size_mib);
            drop_caches(3);
            report.add("read 1 GiB, not cached", subject, read_stream(file), size_mib);
            report.add("read 1 GiB, cached", subject, read_stream(file), size_mib);
            require(::unlink(file.c_str()) == 0, "cannot remove " + file);
        }
    }
    for (const char* scenario :
         {"write 1 GiB", "write 1 GiB again", "read 1 GiB, not cached", "read 1 GiB, cached"}) {
        compare(report, scenario);
    }
}

/// Commits of one row each, timed within the program: sqlite3 comes with Python.
double sqlite_commits(const std::string& folder, const char* journal, u64 count) {
    const std::string program =
        "import sqlite3, sys, time\n"
        "base = sqlite3.connect(sys.argv[1] + '/base-' + sys.argv[2], isolation_level=None)\n"
        "base.execute('pragma journal_mode=' + sys.argv[2])\n"
        "base.execute('pragma synchronous=full')\n"
        "base.execute('create table facts(number integer, words text)')\n"
        "start = time.monotonic()\n"
        "for number in range(int(sys.argv[3])):\n"
        "    base.execute('insert into facts values(?, ?)', (number, 'w' * 100))\n"
        "print(time.monotonic() - start)\n"
        "base.close()\n";
    const std::string answer =
        output_of({"python3", "-c", program, folder, journal, std::to_string(count)});
    return std::stod(answer);
}

void measure_durability(Report& report, u64 runs, const char* base) {
    const Scratch scratch(base);
    LoopExt4 ext4(scratch.path(), 2 * gib, 200'000);
    WarrenMount warren(scratch.path(), 2 * gib);
    warren.mount();
    constexpr u64 files = 500;
    constexpr u64 commits = 500;
    const std::string place = std::string(", on ") + base;
    const std::string synced = "create + 4 KiB + fsync" + place;
    for (u64 run = 0; run < runs; ++run) {
        for (const bool ours : {run % 2 == 0, run % 2 != 0}) {
            const char* subject = ours ? "Warren" : "ext4";
            const std::string folder =
                (ours ? warren.path() : ext4.path()) + "/run" + std::to_string(run);
            std::filesystem::create_directory(folder);
            report.add(synced, subject, make_synced_files(folder, files), files);
            for (const char* journal : {"delete", "wal"}) {
                report.add(std::string("sqlite3 commits, ") + journal + place, subject,
                           sqlite_commits(folder, journal, commits), commits);
            }
        }
    }
    for (const std::string& scenario :
         {synced, "sqlite3 commits, delete" + place, "sqlite3 commits, wal" + place}) {
        report.set_reference(scenario, "Warren");
        report.must("rate over ext4's, " + scenario,
                    report.median(scenario, "ext4") / report.median(scenario, "Warren"), 0.5);
    }
}

/// The time of an `rm -rf` that knows nothing of Warren: one request for each name.
void measure_removal(Report& report, u64 runs) {
    const Scratch scratch(memory_folder);
    LoopExt4 ext4(scratch.path(), 2 * gib, 400'000);
    WarrenMount warren(scratch.path(), 2 * gib);
    const auto tree = [](u64 run) {
        return flat_tree("tree" + std::to_string(run), 10, 1000, false);
    };
    warren.fill([&](Volume& volume) {
        for (u64 run = 0; run < runs; ++run)
            make_in_volume(volume, volume.root(), tree(run));
    });
    warren.mount();
    for (u64 run = 0; run < runs; ++run)
        make_on_host(ext4.path(), tree(run));
    ext4.sync();
    const std::string scenario = "rm -rf, 10,000 files";
    for (u64 run = 0; run < runs; ++run) {
        for (const auto& [subject, base] :
             {std::pair("Warren", warren.path()), std::pair("ext4", ext4.path())}) {
            const std::string path = base + "/tree" + std::to_string(run);
            prepare_names(Names::cached, path);
            report.add(scenario, subject, time_of([&] {
                           run_or_die({"rm", "-rf", path});
                       }),
                       10'011);
        }
    }
    report.set_reference(scenario, "Warren");
}

}  // namespace

int main(int argument_count, char** arguments) {
    raise_open_file_limit();
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 files = option(argument_count, arguments, "files", 10'000);
    const u64 part = option(argument_count, arguments, "part", 0);
    Report report("mount_bench", argument_count, arguments);
    if (part == 0 || part == 1) measure_single(report, runs, files);
    if (part == 0 || part == 2) measure_streams(report, runs);
    if (part == 0 || part == 3) {
        measure_durability(report, runs, memory_folder);
        measure_durability(report, runs, disk_folder);
    }
    if (part == 0 || part == 4) measure_removal(report, runs);
    return report.finish();
}

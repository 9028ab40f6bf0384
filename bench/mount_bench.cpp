// SPDX-License-Identifier: Apache-2.0
// What does a program get through the mount? Bulk removal beside `rm -rf` on ext4, single system
// calls and streams beside libfuse's passthrough over tmpfs, and durable small changes (fsync,
// sqlite3 commits) beside ext4 on a loop device; image and loop file lie in the same directory.
//
//   mount_bench [--runs N] [--files N] [--part P]   P: 1 removal, 2 single calls, 3 streams,
//                                                   4 durability, 0 all (the default)
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

/// Names of the trees that a run removes: with the kernel's names cached, and without.
std::string tree_name(bool warm, u64 run) {
    return (warm ? "warm" : "cold") + std::to_string(run);
}

constexpr const char* one_by_one = "one-by-one";

Tree files_tree(const std::string& name) {
    return flat_tree(name, 100, 1000, false);
}

void fill_image(const std::string& image, u64 runs) {
    Failure failure;
    const std::unique_ptr<Volume> volume = Volume::open(image, {}, failure);
    require(volume != nullptr, failure.message);
    for (u64 run = 0; run < runs; ++run) {
        for (const bool warm : {true, false})
            make_in_volume(*volume, volume->root(), files_tree(tree_name(warm, run)));
    }
    make_in_volume(*volume, volume->root(), files_tree(one_by_one));
    require(volume->close() == Errc::ok, "cannot close the volume");
}

/// Brings all names and inodes of a tree into the kernel.
void walk(const std::string& path) {
    run_or_die({"find", path, "-size", "+1"});
}

void measure_removal(Report& report, u64 runs) {
    const Scratch scratch(memory_folder);
    LoopExt4 ext4(scratch.path(), 4 * gib, 2'000'000);
    WarrenMount warren(scratch.path(), 8 * gib);
    fill_image(warren.image(), runs);
    warren.mount();
    for (u64 run = 0; run < runs; ++run) {
        for (const bool warm : {true, false})
            make_on_host(ext4.path(), files_tree(tree_name(warm, run)));
    }
    ext4.sync();
    constexpr double items = 100'101;
    for (const bool warm : {true, false}) {
        const std::string scenario =
            std::string("remove 100,000 files, ") + (warm ? "cached" : "not cached");
        for (u64 run = 0; run < runs; ++run) {
            const std::string ours = warren.path() + "/" + tree_name(warm, run);
            const std::string theirs = ext4.path() + "/" + tree_name(warm, run);
            drop_caches(2);
            if (warm) walk(ours);
            if (warm) walk(theirs);
            const double removed = time_of([&] {
                run_or_die({warren_program(), "rm", "-r", ours});
            });
            report.add(scenario, "warren rm -r", removed, items);
            report.add(scenario, "warren rm -r + warren sync, durable",
                       removed + time_of([&] {
                           run_or_die({warren_program(), "sync", warren.path()});
                       }),
                       items);
            const double gone = time_of([&] { run_or_die({"rm", "-rf", theirs}); });
            report.add(scenario, "ext4 rm -rf", gone, items);
            report.add(scenario, "ext4 rm -rf + sync, durable",
                       gone + time_of([&] { ext4.sync(); }), items);
        }
        report.set_reference(scenario, "warren rm -r");
        report.must(
            "rm -rf on ext4 over warren rm -r, " + scenario,
            report.median(scenario, "ext4 rm -rf") / report.median(scenario, "warren rm -r"), 20);
    }
    const std::string path = warren.path() + "/" + one_by_one;
    walk(path);
    report.add("remove 100,000 files, cached", "rm -rf through the Warren mount", time_of([&] {
                   run_or_die({"rm", "-rf", path});
               }),
               items);
}

/// The peers of single calls and streams, each over a file or directory in memory.
struct Peers {
    Scratch scratch{memory_folder};
    Scratch source{memory_folder};
    WarrenMount warren{scratch.path(), 8 * gib};
    Scratch checked_source{memory_folder};
    Passthrough passthrough{scratch.path(), source.path(), false};
    Passthrough checked{scratch.path(), checked_source.path(), true};
    Peers() { warren.mount(); }

    /// Who is measured, and where; first goes another one each run.
    std::vector<std::pair<const char*, std::string>> order(u64 run) const {
        std::vector<std::pair<const char*, std::string>> all = {
            {"Warren", warren.path()},
            {"passthrough_ll", passthrough.path()},
            {"passthrough_ll, default_permissions", checked.path()}};
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

}  // namespace

int main(int argument_count, char** arguments) {
    raise_open_file_limit();
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 files = option(argument_count, arguments, "files", 10'000);
    const u64 part = option(argument_count, arguments, "part", 0);
    Report report("mount_bench", argument_count, arguments);
    if (part == 0 || part == 2) measure_single(report, runs, files);
    if (part == 0 || part == 3) measure_streams(report, runs);
    if (part == 0 || part == 4) {
        measure_durability(report, runs, memory_folder);
        measure_durability(report, runs, disk_folder);
    }
    if (part == 0 || part == 1) measure_removal(report, runs);
    return report.finish();
}

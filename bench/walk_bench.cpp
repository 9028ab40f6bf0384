// SPDX-License-Identifier: Apache-2.0
// How fast are the tools over the host's own files? `warren walk`, `find`, `du` and `rm` beside
// find, du, rm -rf, and bfs, fd and rmz where they are installed, on tmpfs and on ext4 over a loop
// device in memory (with --ext4 1, needs root), names and inodes cached, output to /dev/null.
//
// The tree is the mixed one of bench/support/walk_trees.hpp. A tree to be removed is made, and
// written out, right before: it is as warm for one as for the other.
//
//   walk_bench [--runs N] [--files N] [--rm-files N] [--ext4 1]     5, 300000, 100000 and 0
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"
#include "bench/support/walk_trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

using Words = std::vector<std::string>;

std::string warren_program() {
    const char* given = ::getenv("WARREN");
    return given == nullptr ? "build/bin/warren" : given;
}

struct Subject {
    std::string label;
    Words words;
};

/// Runs all once unmeasured, then `runs` times in turn; the first is the reference.
void measure(const std::string& scenario, const std::vector<Subject>& subjects, u64 runs,
             double items, Report& report) {
    report.set_reference(scenario, subjects[0].label);
    for (const Subject& subject : subjects)
        run_or_die(subject.words);
    for (u64 run = 0; run < runs; ++run) {
        for (const Subject& subject : subjects) {
            report.add(scenario, subject.label, time_of([&] { run_or_die(subject.words); }), items);
        }
    }
}

const std::string sizes = "find -printf path and size";
const std::string warren_sizes = "warren walk --stat, 2 threads";
const std::string warren_names = "warren walk, names, 2 threads";
const std::string warren_du = "warren du -s, 2 threads";

void measure_walks(const std::string& place, const std::string& root, u64 files, u64 runs,
                   Report& report) {
    const std::string warren = warren_program();
    std::vector<Subject> subjects = {
        {sizes, {"find", root, "-type", "f", "-printf", "%p %s\\n"}},
        {"find, names", {"find", root, "-type", "f"}},
        {warren_sizes, {warren, "walk", "--threads", "2", "--type", "f", "--stat", root}},
        {"warren find -printf path and size",
         {warren, "find", "--threads", "2", root, "-type", "f", "-printf", "%p %s\\n"}},
        {warren_names, {warren, "walk", "--threads", "2", "--type", "f", root}},
        {"warren find, names", {warren, "find", "--threads", "2", root, "-type", "f"}},
        {"warren walk --stat, 1 thread",
         {warren, "walk", "--threads", "1", "--type", "f", "--stat", root}},
    };
    if (is_installed("bfs")) {
        subjects.push_back(
            {"bfs -printf path and size", {"bfs", root, "-type", "f", "-printf", "%p %s\\n"}});
        subjects.push_back({"bfs, names", {"bfs", root, "-type", "f"}});
    }
    if (is_installed("fdfind")) {
        subjects.push_back({"fd, names", {"fdfind", "-tf", "-u", ".", root}});
        subjects.push_back({"fd, by size", {"fdfind", "-tf", "-u", "-S", "+0b", ".", root}});
    }
    const std::string walk = place + ": walk of " + with_commas(files) + " files";
    measure(walk, subjects, runs, static_cast<double>(files), report);
    const double find = report.median(walk, sizes);
    report.must(walk + ", sizes: 0.60 of find's time (find over Warren)",
                find / report.median(walk, warren_sizes), 1 / 0.60);
    report.must(walk + ", names: 0.17 of find's time", find / report.median(walk, warren_names),
                1 / 0.17);

    const std::string du = place + ": du of " + with_commas(files) + " files";
    measure(
        du,
        {{"du -s", {"du", "-s", root}}, {warren_du, {warren, "du", "--threads", "2", "-s", root}}},
        runs, static_cast<double>(files), report);
    report.must(du + ": 0.65 of du's time",
                report.median(du, "du -s") / report.median(du, warren_du), 1 / 0.65);
}

void measure_removal(const std::string& place, const std::string& folder, u64 files, u64 runs,
                     double bound, Report& report) {
    const std::string scenario = place + ": rm of " + with_commas(files) + " files";
    std::vector<Subject> subjects = {
        {"rm -rf", {"rm", "-rf"}},
        {"warren rm -rf, 2 threads", {warren_program(), "rm", "--threads", "2", "-rf"}},
        {"find -delete", {"find"}},
    };
    if (is_installed("rmz")) subjects.push_back({"rmz", {"rmz", "-f"}});
    const std::string tree = folder + "/removed";
    report.set_reference(scenario, subjects[0].label);
    for (u64 run = 0; run < runs; ++run) {
        for (const Subject& subject : subjects) {
            make_mixed_tree(tree, files);
            ::sync();
            Words words = subject.words;
            words.push_back(tree);
            if (words[0] == "find") words.push_back("-delete");
            report.add(scenario, subject.label, time_of([&] { run_or_die(words); }),
                       static_cast<double>(files));
            require(::access(tree.c_str(), F_OK) != 0, "something was left");
        }
    }
    report.must(
        scenario + ": " + std::to_string(bound).substr(0, 4) + " of rm's time",
        report.median(scenario, subjects[0].label) / report.median(scenario, subjects[1].label),
        1 / bound);
}

}  // namespace

int main(int count, char** arguments) {
    const u64 runs = option(count, arguments, "runs", 5);
    const u64 files = option(count, arguments, "files", 300000);
    const u64 removed = option(count, arguments, "rm-files", 100000);
    Report report("walk_bench", count, arguments);
    {
        const Scratch memory("/dev/shm");
        make_mixed_tree(memory.path() + "/tree", files);
        measure_walks("tmpfs", memory.path() + "/tree", files, runs, report);
    }
    {
        const Scratch memory("/dev/shm");
        measure_removal("tmpfs", memory.path(), removed, runs, 0.50, report);
    }
    if (option(count, arguments, "ext4", 0) != 0) {
        const Scratch memory("/dev/shm");
        const LoopExt4 ext4(memory.path(), 6 * gib, 1'000'000);
        make_mixed_tree(ext4.path() + "/tree", files);
        ext4.sync();
        measure_walks("ext4", ext4.path() + "/tree", files, runs, report);
        measure_removal("ext4", ext4.path(), std::min<u64>(removed, 30000), runs, 0.60, report);
    }
    return report.finish();
}

// SPDX-License-Identifier: Apache-2.0
// How do the schedulers of a walk compare on more ranks than there is a machine for? Runs the real
// scheduler over a simulated network and file system (tests/support/walk_simulator.hpp): time,
// messages, bytes, balance. CSV of its own form, for tools/evaluate_walk.py.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/report.hpp"
#include "tests/support/simulated_tree.hpp"
#include "tests/support/walk_simulator.hpp"

namespace {

using namespace warren;
using namespace warren::bench;
using walk::SimulatedCosts;
using walk::SimulatedRank;
using walk::SimulatedWalk;
using walk::SimulatedWorld;

constexpr const char* usage =
    "usage: walk_simulation [--cores N[,N...]] [--files N[,N...]] [--schedulers NAME[,NAME...]]\n"
    "           [--per-node N] [--seed N] [--csv FILE] [--pairs FILE]\n"
    "           [--name S] [--status S] [--callback S] [--directory S] [--far S] [--near S]\n"
    "           [--message S] [--byte S] [--wake S] [--open S]   seconds\n"
    "           [--levels N]   directories on the way to what one rank hands to another\n"
    "       walk_simulation --make FOLDER [--files N] [--seed N]\n"
    "--make makes the tree of that seed on disk, for real walks of the same shape.\n"
    "h-drqs has one rank a node, with a thread for each core of it; the others a rank a core.\n";

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

struct SimulationOptions {
    std::vector<std::string> cores = {"32"};
    std::vector<std::string> files = {"1000000"};
    std::vector<std::string> schedulers = {"cp", "drqs", "deqs", "pa-drqs", "h-drqs"};
    u32 per_node = 16;
    u64 seed = 1;
    SimulatedCosts costs;
    std::string csv;
    std::string pairs;
    std::string folder;
};

/// Null if it is not the name of a cost.
double* cost_named(SimulatedCosts& costs, const std::string& word) {
    const std::pair<const char*, double*> words[] = {
        {"--callback", &costs.callback}, {"--name", &costs.name},
        {"--status", &costs.status},     {"--directory", &costs.directory},
        {"--far", &costs.far_latency},   {"--near", &costs.near_latency},
        {"--message", &costs.message},   {"--byte", &costs.byte},
        {"--wake", &costs.wake},         {"--open", &costs.open},
        {"--levels", &costs.levels},
    };
    for (const auto& [known, cost] : words) {
        if (word == known) return cost;
    }
    return nullptr;
}

bool parse_options(int count, char** words, SimulationOptions& options) {
    for (int at = 1; at < count; at += 2) {
        if (at + 1 >= count) return false;
        const std::string name = words[at];
        const std::string value = words[at + 1];
        if (name == "--cores") {
            options.cores = split(value);
        } else if (name == "--files") {
            options.files = split(value);
        } else if (name == "--schedulers") {
            options.schedulers = split(value);
        } else if (name == "--per-node") {
            options.per_node = static_cast<u32>(std::strtoul(value.c_str(), nullptr, 10));
        } else if (name == "--seed") {
            options.seed = std::strtoull(value.c_str(), nullptr, 10);
        } else if (name == "--make") {
            options.folder = value;
        } else if (double* const cost = cost_named(options.costs, name)) {
            *cost = std::strtod(value.c_str(), nullptr);
        } else if (name == "--csv") {
            options.csv = value;
        } else if (name == "--pairs") {
            options.pairs = value;
        } else {
            return false;
        }
    }
    return options.per_node > 0;
}

SimulatedWorld world_of(const SimulationOptions& options, const std::string& name, u32 cores,
                        u64 files) {
    const auto scheduler = walk::scheduler_named(name);
    require(scheduler.has_value(), "there is no scheduler " + name);
    SimulatedWorld world;
    world.scheduler = *scheduler;
    world.files = files;
    world.seed = options.seed;
    world.ranks = cores;
    world.ranks_per_node = options.per_node;
    world.keeps_pairs = !options.pairs.empty();
    if (name.starts_with("h-")) {
        world.threads = std::min(options.per_node, cores);
        world.ranks = std::max(1u, cores / world.threads);
        world.ranks_per_node = 1;
    }
    return world;
}

void write_pairs(const std::string& path, const std::string& name, const SimulatedWalk& done) {
    FILE* file = std::fopen(path.c_str(), "a");
    require(file != nullptr, "cannot write " + path);
    const size_t ranks = done.ranks.size();
    for (size_t from = 0; from < ranks; ++from) {
        for (size_t to = 0; to < ranks; ++to) {
            const size_t pair = from * ranks + to;
            if (done.pair_messages[pair] == 0) continue;
            std::fprintf(file, "%s,%zu,%zu,%llu,%llu\n", name.c_str(), from, to,
                         static_cast<unsigned long long>(done.pair_messages[pair]),
                         static_cast<unsigned long long>(done.pair_bytes[pair]));
        }
        std::fprintf(file, "%s,%zu,files,%llu,%.6f\n", name.c_str(), from,
                     static_cast<unsigned long long>(done.ranks[from].files),
                     done.ranks[from].working);
    }
    require(std::fclose(file) == 0, "cannot write " + path);
}

/// Makes the tree that is walked, as empty files, for real walks of the same shape.
void make_tree(const std::filesystem::path& folder, u64 seed, u64 files) {
    std::filesystem::create_directories(folder);
    const u64 own = walk::own_files(seed, files);
    for (u64 file = 0; file < own; ++file) {
        std::ofstream made(folder / ("file" + std::to_string(file)));
        require(made.good(), "cannot make files in " + folder.string());
    }
    u64 number = 0;
    walk::for_each_child(seed, files, own, [&](u64 child_seed, u64 child_files) {
        make_tree(folder / ("directory" + std::to_string(number++)), child_seed, child_files);
    });
}

constexpr const char* header =
    "scheduler,cores,files,seconds,directories,messages,bytes,requests,imbalance,efficiency,"
    "names_seconds,status_seconds,directory_seconds,network_seconds,processor_seconds\n";

/// A line of the table: what came of one walk, summed over its ranks, and what simulating it took.
std::string line_of(const SimulationOptions& options, const std::string& name,
                    const std::string& cores, const std::string& files, const SimulatedWorld& world,
                    const SimulatedWalk& done, double processor_seconds) {
    SimulatedRank sum;
    for (const SimulatedRank& rank : done.ranks) {
        sum.directories += rank.directories;
        sum.requests += rank.requests;
        sum.talking += rank.talking;
    }
    const auto entries = static_cast<double>(done.files());
    char line[400];
    std::snprintf(line, sizeof line,
                  "%s,%s,%s,%.6f,%llu,%llu,%llu,%llu,%.4f,%.4f,%.4f,%.4f,%.4f,%.6f,%.1f\n",
                  name.c_str(), cores.c_str(), files.c_str(), done.seconds,
                  static_cast<unsigned long long>(sum.directories),
                  static_cast<unsigned long long>(done.messages()),
                  static_cast<unsigned long long>(done.bytes()),
                  static_cast<unsigned long long>(sum.requests), done.imbalance(),
                  done.efficiency(world.threads), entries * options.costs.name,
                  entries * options.costs.status,
                  static_cast<double>(sum.directories) * options.costs.directory, sum.talking,
                  processor_seconds);
    return line;
}

void run_all(const SimulationOptions& options, FILE* csv) {
    for (const std::string& files : options.files) {
        for (const std::string& cores : options.cores) {
            for (const std::string& name : options.schedulers) {
                const SimulatedWorld world = world_of(
                    options, name, static_cast<u32>(std::strtoul(cores.c_str(), nullptr, 10)),
                    static_cast<u64>(std::strtod(files.c_str(), nullptr)));
                const std::clock_t begin = std::clock();
                const SimulatedWalk done = simulate(world, options.costs);
                const std::string line =
                    line_of(options, name, cores, files, world, done,
                            static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
                std::fputs(line.c_str(), stdout);
                std::fflush(stdout);
                if (csv != nullptr) std::fputs(line.c_str(), csv);
                if (!options.pairs.empty()) write_pairs(options.pairs, name, done);
            }
        }
    }
}

}  // namespace

int main(int count, char** words) {
    SimulationOptions options;
    if (!parse_options(count, words, options)) {
        std::fputs(usage, stderr);
        return 2;
    }
    if (!options.folder.empty()) {
        make_tree(options.folder, options.seed,
                  static_cast<u64>(std::strtod(options.files.front().c_str(), nullptr)));
        return 0;
    }
    FILE* csv = options.csv.empty() ? nullptr : std::fopen(options.csv.c_str(), "w");
    require(options.csv.empty() || csv != nullptr, "cannot write " + options.csv);
    if (csv != nullptr) std::fputs(header, csv);
    std::fputs(header, stdout);
    if (!options.pairs.empty()) {
        FILE* file = std::fopen(options.pairs.c_str(), "w");
        require(file != nullptr, "cannot write " + options.pairs);
        std::fputs("scheduler,from,to,messages,bytes\n", file);
        std::fclose(file);
    }
    run_all(options, csv);
    return csv != nullptr && std::fclose(csv) != 0 ? 1 : 0;
}

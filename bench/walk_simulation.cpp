// SPDX-License-Identifier: Apache-2.0
// How do the schedulers of a walk compare on more ranks than there is a machine for? Runs the real
// scheduler over a simulated network and file system (walk/simulator.hpp): time,
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
#include "walk/simulated_tree.hpp"
#include "walk/simulator.hpp"

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

struct Settings {
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

/// Null: it is no word for a cost.
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

bool read_settings(int count, char** words, Settings& settings) {
    for (int at = 1; at < count; at += 2) {
        if (at + 1 >= count) return false;
        const std::string name = words[at];
        const std::string value = words[at + 1];
        if (name == "--cores") {
            settings.cores = split(value);
        } else if (name == "--files") {
            settings.files = split(value);
        } else if (name == "--schedulers") {
            settings.schedulers = split(value);
        } else if (name == "--per-node") {
            settings.per_node = static_cast<u32>(std::strtoul(value.c_str(), nullptr, 10));
        } else if (name == "--seed") {
            settings.seed = std::strtoull(value.c_str(), nullptr, 10);
        } else if (name == "--make") {
            settings.folder = value;
        } else if (double* const cost = cost_named(settings.costs, name)) {
            *cost = std::strtod(value.c_str(), nullptr);
        } else if (name == "--csv") {
            settings.csv = value;
        } else if (name == "--pairs") {
            settings.pairs = value;
        } else {
            return false;
        }
    }
    return settings.per_node > 0;
}

SimulatedWorld world_of(const Settings& settings, const std::string& name, u32 cores, u64 files) {
    const auto scheduler = walk::scheduler_named(name);
    require(scheduler.has_value(), "there is no scheduler " + name);
    SimulatedWorld world;
    world.scheduler = *scheduler;
    world.files = files;
    world.seed = settings.seed;
    world.ranks = cores;
    world.ranks_per_node = settings.per_node;
    world.keeps_pairs = !settings.pairs.empty();
    if (name.starts_with("h-")) {
        world.threads = std::min(settings.per_node, cores);
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
std::string line_of(const Settings& settings, const std::string& name, const std::string& cores,
                    const std::string& files, const SimulatedWorld& world,
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
                  done.efficiency(world.threads), entries * settings.costs.name,
                  entries * settings.costs.status,
                  static_cast<double>(sum.directories) * settings.costs.directory, sum.talking,
                  processor_seconds);
    return line;
}

void run_all(const Settings& settings, FILE* csv) {
    for (const std::string& files : settings.files) {
        for (const std::string& cores : settings.cores) {
            for (const std::string& name : settings.schedulers) {
                const SimulatedWorld world = world_of(
                    settings, name, static_cast<u32>(std::strtoul(cores.c_str(), nullptr, 10)),
                    static_cast<u64>(std::strtod(files.c_str(), nullptr)));
                const std::clock_t begin = std::clock();
                const SimulatedWalk done = simulate(world, settings.costs);
                const std::string line =
                    line_of(settings, name, cores, files, world, done,
                            static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
                std::fputs(line.c_str(), stdout);
                std::fflush(stdout);
                if (csv != nullptr) std::fputs(line.c_str(), csv);
                if (!settings.pairs.empty()) write_pairs(settings.pairs, name, done);
            }
        }
    }
}

}  // namespace

int main(int count, char** words) {
    Settings settings;
    if (!read_settings(count, words, settings)) {
        std::fputs(usage, stderr);
        return 2;
    }
    if (!settings.folder.empty()) {
        make_tree(settings.folder, settings.seed,
                  static_cast<u64>(std::strtod(settings.files.front().c_str(), nullptr)));
        return 0;
    }
    FILE* csv = settings.csv.empty() ? nullptr : std::fopen(settings.csv.c_str(), "w");
    require(settings.csv.empty() || csv != nullptr, "cannot write " + settings.csv);
    if (csv != nullptr) std::fputs(header, csv);
    std::fputs(header, stdout);
    if (!settings.pairs.empty()) {
        FILE* file = std::fopen(settings.pairs.c_str(), "w");
        require(file != nullptr, "cannot write " + settings.pairs);
        std::fputs("scheduler,from,to,messages,bytes\n", file);
        std::fclose(file);
    }
    run_all(settings, csv);
    return csv != nullptr && std::fclose(csv) != 0 ? 1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// How do the schedulers of a walk compare on more ranks than there is a machine for? Runs the real
// scheduler over a simulated network and file system (bench/support/walk_simulator.hpp): time,
// messages, bytes, balance. CSV of its own form, for tools/plot_walk.py.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/support/report.hpp"
#include "bench/support/walk_simulator.hpp"

namespace {

using namespace warren;
using namespace warren::bench;

constexpr const char* usage =
    "usage: walk_simulation [--cores N[,N...]] [--files N[,N...]] [--schedulers NAME[,NAME...]]\n"
    "           [--per-node N] [--entry SECONDS] [--directory SECONDS] [--far SECONDS]\n"
    "           [--seed N] [--csv FILE] [--pairs FILE]\n"
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
};

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
        } else if (name == "--entry") {
            settings.costs.entry = std::strtod(value.c_str(), nullptr);
        } else if (name == "--directory") {
            settings.costs.directory = std::strtod(value.c_str(), nullptr);
        } else if (name == "--far") {
            settings.costs.far_latency = std::strtod(value.c_str(), nullptr);
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

void write_pairs(const std::string& path, const std::string& name, const SimulatedWalk& walk) {
    FILE* file = std::fopen(path.c_str(), "a");
    require(file != nullptr, "cannot write " + path);
    const size_t ranks = walk.ranks.size();
    for (size_t from = 0; from < ranks; ++from) {
        for (size_t to = 0; to < ranks; ++to) {
            const size_t pair = from * ranks + to;
            if (walk.pair_messages[pair] == 0) continue;
            std::fprintf(file, "%s,%zu,%zu,%llu,%llu\n", name.c_str(), from, to,
                         static_cast<unsigned long long>(walk.pair_messages[pair]),
                         static_cast<unsigned long long>(walk.pair_bytes[pair]));
        }
        std::fprintf(file, "%s,%zu,files,%llu,%.6f\n", name.c_str(), from,
                     static_cast<unsigned long long>(walk.ranks[from].files),
                     walk.ranks[from].working);
    }
    require(std::fclose(file) == 0, "cannot write " + path);
}

}  // namespace

int main(int count, char** words) {
    Settings settings;
    if (!read_settings(count, words, settings)) {
        std::fputs(usage, stderr);
        return 2;
    }
    FILE* csv = settings.csv.empty() ? nullptr : std::fopen(settings.csv.c_str(), "w");
    require(settings.csv.empty() || csv != nullptr, "cannot write " + settings.csv);
    constexpr const char* header =
        "scheduler,cores,files,seconds,directories,messages,bytes,requests,imbalance,efficiency,"
        "ran_seconds\n";
    if (csv != nullptr) std::fputs(header, csv);
    std::fputs(header, stdout);
    if (!settings.pairs.empty()) {
        FILE* file = std::fopen(settings.pairs.c_str(), "w");
        require(file != nullptr, "cannot write " + settings.pairs);
        std::fputs("scheduler,from,to,messages,bytes\n", file);
        std::fclose(file);
    }
    for (const std::string& files : settings.files) {
        for (const std::string& cores : settings.cores) {
            for (const std::string& name : settings.schedulers) {
                const SimulatedWorld world = world_of(
                    settings, name, static_cast<u32>(std::strtoul(cores.c_str(), nullptr, 10)),
                    static_cast<u64>(std::strtod(files.c_str(), nullptr)));
                SimulatedWalk walk;
                const double ran = time_of([&] { walk = simulate(world, settings.costs); });
                u64 directories = 0;
                u64 requests = 0;
                for (const SimulatedRank& rank : walk.ranks) {
                    directories += rank.directories;
                    requests += rank.requests;
                }
                char line[300];
                std::snprintf(line, sizeof line,
                              "%s,%s,%s,%.6f,%llu,%llu,%llu,%llu,%.4f,%.4f,%.1f\n", name.c_str(),
                              cores.c_str(), files.c_str(), walk.seconds,
                              static_cast<unsigned long long>(directories),
                              static_cast<unsigned long long>(walk.messages()),
                              static_cast<unsigned long long>(walk.bytes()),
                              static_cast<unsigned long long>(requests), walk.imbalance(),
                              walk.efficiency(world.threads), ran);
                std::fputs(line, stdout);
                std::fflush(stdout);
                if (csv != nullptr) std::fputs(line, csv);
                if (!settings.pairs.empty()) write_pairs(settings.pairs, name, walk);
            }
        }
    }
    return csv != nullptr && std::fclose(csv) != 0 ? 1 : 0;
}

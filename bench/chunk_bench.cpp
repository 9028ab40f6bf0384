// SPDX-License-Identifier: Apache-2.0
// How fast is chunking on the CPU, core against core beside the chunkers that people use, and what
// do more threads give? Every peer cuts the same bytes in the same run; one that is not installed
// is named. Ratios are to the serial rule of this library, and for the goals to the named peer.
//
// Arguments choose parts: rules, digests, writes, selection; without any, all.
//
// Invariant: what is timed on Warren's side ends with the cuts, checked against the serial rule.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "base/random.hpp"
#include "bench/support/report.hpp"
#include "chunk/scanner.hpp"
#include "chunk/select.hpp"
#include "warren/chunk.h"
#include "warren/chunk.hpp"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using bench::require;
using bench::time_of;
using Bytes = std::vector<std::byte>;

constexpr u64 data_bytes = 256 * mib;
constexpr u64 selected_bytes = 512 * mib;
constexpr int runs = 5;

Bytes random_bytes(u64 size) {
    Bytes bytes(size);
    Random random(0);
    for (u64 at = 0; at + 8 <= size; at += 8) {
        const u64 word = random.next();
        std::memcpy(&bytes[at], &word, 8);
    }
    return bytes;
}

chunk::Rule rule_of(const std::string& name) {
    chunk::Rule rule = *chunk::preset(name);
    if (rule.method == chunk::Method::rabin && rule.polynomial == 0)
        rule.polynomial = 0x3da3358b4dc173;
    return rule;
}

class Bench {
 public:
    Bench(bench::Report& report, const std::string& folder) : report_(report) {
        file_ = folder + "/chunk_bench.data";
        data_ = random_bytes(data_bytes);
        std::ofstream(file_, std::ios::binary)
            .write(reinterpret_cast<const char*>(data_.data()), data_bytes);
    }
    ~Bench() { std::remove(file_.c_str()); }

    /// Runs bench/peers/chunkers.py; rows of a peer go to its scenario.
    void measure_peers() {
        const std::string command = "python3 bench/peers/chunkers.py " + file_;
        FILE* pipe = ::popen(command.c_str(), "r");
        require(pipe != nullptr, "start " + command);
        char line[4096];
        while (std::fgets(line, sizeof line, pipe) != nullptr)
            add_peer(line);
        ::pclose(pipe);
    }

    void measure_rule(const std::string& scenario, const chunk::Rule& rule) {
        const std::vector<u64> expected = chunk::cut_serial(rule, data_);
        for (int run = 0; run < runs; ++run) {
            report_.add(scenario, "serial rule", time_of([&] { chunk::cut_serial(rule, data_); }),
                        data_bytes);
            std::vector<u64> ends;
            report_.add(scenario, "warren, 1 thread",
                        time_of([&] { ends = chunk::cut(rule, data_, 1); }), data_bytes);
            require(ends == expected, scenario + ": the cuts are those of the serial rule");
            report_.add(scenario, "warren, all threads",
                        time_of([&] { ends = chunk::cut(rule, data_, 0); }), data_bytes);
            require(ends == expected, scenario + ": the cuts are those of the serial rule");
        }
        report_.set_reference(scenario, "serial rule");
    }

    /// `what` must be at least `bound` times as fast as the peer, if there is one.
    void must_beat(const std::string& scenario, const std::string& peer, double bound) {
        if (!has_peer_[scenario + peer]) return;
        report_.must(scenario + ": one thread over " + peer,
                     report_.median(scenario, peer) / report_.median(scenario, "warren, 1 thread"),
                     bound);
    }

    /// Cuts and digests, the report's module, against the serial rule and one digest after the
    /// other.
    void measure_digests(const std::string& name, const chunk::Rule& rule,
                         hash::Algorithm algorithm) {
        const std::string scenario = name + " + " + std::string(hash::name(algorithm));
        for (int run = 0; run < runs; ++run) {
            report_.add(scenario, "serial", time_of([&] { digest_serially(rule, algorithm); }),
                        data_bytes);
            for (u32 threads : {1u, 2u, 4u, 8u, 16u}) {
                if (threads > 1 && threads > std::thread::hardware_concurrency()) break;
                report_.add(scenario, threads_name(threads),
                            time_of([&] { digest_many(rule, algorithm, threads); }), data_bytes);
            }
        }
        report_.set_reference(scenario, "serial");
        const double serial = report_.median(scenario, "serial");
        const double one = report_.median(scenario, threads_name(1));
        report_.must(scenario + ": one thread over serial", serial / one, 2);
        if (std::thread::hardware_concurrency() >= 16) {
            report_.must(scenario + ": 16 threads over one",
                         one / report_.median(scenario, threads_name(16)), 8);
        }
    }

    /// Writes of the report's sizes, uniform and random bytes, each by a call that keeps its state.
    void measure_writes() {
        const Bytes uniform(16 * mib, std::byte{1});
        const std::span<const std::byte> random(data_.data(), 16 * mib);
        for (const auto& [kind, bytes] : {std::pair{"uniform", std::span<const std::byte>(uniform)},
                                          std::pair{"random", random}}) {
            for (u64 size = 4 * kib; size <= 512 * kib; size *= 2) {
                const std::string scenario =
                    "writes of " + std::to_string(size / kib) + " KiB, " + kind;
                for (int run = 0; run < runs; ++run) {
                    add_writes(scenario, "serial", bytes, size, compute_rabin_segments_serial);
                    add_writes(scenario, "all threads", bytes, size, compute_rabin_segments_cpu);
                }
                report_.set_reference(scenario, "serial");
                report_.must(
                    scenario + ": over serial",
                    report_.median(scenario, "serial") / report_.median(scenario, "all threads"),
                    1);
            }
        }
    }

    void measure_selection() {
        const chunk::Rule rule = rule_of("lbfs");
        const Bytes bytes = random_bytes(selected_bytes + 128);
        const chunk::Scanner scanner(rule);
        std::vector<u64> bits(selected_bytes / 64);
        scanner.scan(reinterpret_cast<const u8*>(bytes.data()) + 128, 0, selected_bytes,
                     bits.data(), nullptr);
        std::vector<u32> found;
        for (u64 at = 0; at < selected_bytes; ++at) {
            if ((bits[at / 64] >> (at % 64) & 1) != 0) found.push_back(static_cast<u32>(at + 1));
        }
        chunk::CandidateList candidates;
        chunk::CandidateList none;
        // Into memory that was touched before: the time is that of choosing cuts, not of page
        // faults.
        std::vector<u64> ends(found.size());
        for (int run = 0; run < 5 * runs; ++run) {
            candidates.assign_list(found, 0, 0);
            ends.clear();
            report_.add("selection of cuts, 512 MiB", "warren, 1 thread", time_of([&] {
                            chunk::Selector selector(rule);
                            selector.run(candidates, none, selected_bytes, {nullptr, 0}, ends);
                            selector.finish(selected_bytes, ends);
                        }),
                        selected_bytes);
        }
        report_.must("selection of cuts, 512 MiB, runs in 0.4 ms",
                     0.4e-3 / report_.median("selection of cuts, 512 MiB", "warren, 1 thread"), 1);
    }

 private:
    using Compute = size_t (*)(rabinpoly_t*, const void*, size_t, size_t*);

    static std::string threads_name(u32 threads) {
        return "warren, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    }

    void add_peer(const std::string& line) {
        const std::map<std::string, std::string> scenarios = {{"pyfastcdc-8192", "fastcdc 8 KiB"},
                                                              {"pyfastcdc-16384", "fastcdc 16 KiB"},
                                                              {"borg", "borg"},
                                                              {"gearhash", "gear"},
                                                              {"restic", "restic"}};
        std::istringstream words(line);
        std::string name;
        std::string count;
        words >> name >> count;
        if (count == "absent:") {
            report_.note("peer not available: " + line.substr(0, line.find('\n')));
            return;
        }
        const std::string peer = name.substr(0, name.find('-'));
        const std::string scenario = scenarios.at(name);
        for (double seconds = 0; words >> seconds;)
            report_.add(scenario, peer, seconds, data_bytes);
        has_peer_[scenario + peer] = true;
        report_.note(scenario + ": " + peer + " finds " + count + " chunks");
    }

    void digest_serially(const chunk::Rule& rule, hash::Algorithm algorithm) const {
        const std::vector<u64> ends = chunk::cut_serial(rule, data_);
        std::vector<u8> digest(hash::digest_bytes(algorithm));
        u64 start = 0;
        for (u64 end : ends) {
            require(hash::hash_one(algorithm, std::span(data_).subspan(start, end - start), digest,
                                   {.threads = 1}) == Errc::ok,
                    "hash");
            start = end;
        }
    }

    void digest_many(const chunk::Rule& rule, hash::Algorithm algorithm, u32 threads) const {
        const std::vector<u64> ends = chunk::cut(rule, data_, threads);
        std::vector<hash::Bytes> pieces;
        u64 start = 0;
        for (u64 end : ends) {
            pieces.push_back(std::span(data_).subspan(start, end - start));
            start = end;
        }
        std::vector<u8> digests(pieces.size() * hash::digest_bytes(algorithm));
        require(
            hash::hash_many(algorithm, pieces, digests,
                            {.threads = threads, .processor = hash::Processor::cpu}) == Errc::ok,
            "hash");
    }

    void add_writes(const std::string& scenario, const std::string& subject,
                    std::span<const std::byte> bytes, u64 size, Compute compute) {
        rabinpoly_t* rabin = rabin_init(48, 8, 2, 64);
        require(rabin != nullptr, "rabin_init");
        std::vector<size_t> markers(rabin_marker_limit(rabin, size));
        report_.add(scenario, subject, time_of([&] {
                        for (u64 at = 0; at < bytes.size(); at += size)
                            compute(rabin, bytes.data() + at, size, markers.data());
                    }),
                    static_cast<double>(bytes.size()));
        rabin_free(rabin);
    }

    bench::Report& report_;
    std::string file_;
    Bytes data_;
    std::map<std::string, bool> has_peer_;
};

}  // namespace

int main(int argument_count, char** arguments) {
    bench::Report report("chunk_bench", argument_count, arguments);
    const std::vector<std::string> words(arguments + 1, arguments + argument_count);
    auto has = [&](const char* word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    };
    const bool wants_all = !has("rules") && !has("digests") && !has("writes") && !has("selection");
    auto wants = [&](const char* part) { return wants_all || has(part); };
    Bench bench(report, "/dev/shm");
    if (wants("rules")) {
        bench.measure_peers();
        for (const char* name : {"restic", "lbfs", "gear", "xet", "borg"})
            bench.measure_rule(name, rule_of(name));
        bench.measure_rule("fastcdc 8 KiB", *chunk::fastcdc_rule(8 * kib));
        bench.measure_rule("fastcdc 16 KiB", *chunk::fastcdc_rule(16 * kib));
        bench.must_beat("restic", "restic", 1);
        bench.must_beat("fastcdc 8 KiB", "pyfastcdc", 1);
        bench.must_beat("fastcdc 16 KiB", "pyfastcdc", 1);
        bench.must_beat("gear", "gearhash", 1);
    }
    if (wants("digests")) {
        bench.measure_digests("rabin (lbfs)", rule_of("lbfs"), hash::Algorithm::md5);
        bench.measure_digests("gear", rule_of("gear"), hash::Algorithm::sha1);
    }
    if (wants("writes")) bench.measure_writes();
    if (wants("selection")) bench.measure_selection();
    return report.finish();
}

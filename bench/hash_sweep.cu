// SPDX-License-Identifier: Apache-2.0
// From which size on is a GPU worth it, and what are pinned memory and shared memory worth at each
// size? The figures 4 to 17 of StoreGPU: direct hashing and four kinds of sliding windows, MD5 and
// SHA-1, the four combinations of the two optimisations, and the five stages of each. The reference
// is OpenSSL on one core. tools/plot_hashing.py draws the CSV.
//
//   hash_sweep [--append] [--seconds N] [WORK...]   works such as "direct md5", "windows 20/4
//   sha1";
//       none are all. --append: other rows of the CSV stay. --seconds: begins no size after that.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/openssl.hpp"
#include "bench/support/report.hpp"
#include "gpu/buffer.hpp"
#include "gpu/failure.hpp"
#include "hash/device.hpp"

namespace {

using namespace warren;
using namespace warren::hash;

constexpr u64 most_bytes = 128 * mib;
constexpr u64 least_bytes = 16 * kib;
constexpr u64 piece_bytes = 4096;
constexpr u64 reference_bytes = mib;  // of the windows, whose time grows with their number
constexpr int runs = 3;
constexpr Options on_gpu = {0, Processor::gpu};

/// Direct hashing, or windows where the width is not 0.
struct Work {
    Algorithm algorithm;
    u64 width = 0;
    u64 stride = 0;

    std::string name() const {
        const std::string digest(hash::name(algorithm));
        if (width == 0) return "direct " + digest;
        return "windows " + std::to_string(width) + "/" + std::to_string(stride) + " " + digest;
    }
};

void need(Errc code) {
    bench::require(code == Errc::ok, gpu::last_failure().message);
}

double time_reference(const Work& work, Bytes data) {
    bench::Openssl openssl(work.algorithm);
    u8 digest[most_digest_bytes];
    if (work.width == 0) {
        return bench::time_of([&] {
            for (u64 at = 0; at < data.size(); at += piece_bytes)
                openssl.hash(data.subspan(at, piece_bytes), digest);
        });
    }
    const u64 bytes = std::min<u64>(data.size(), reference_bytes);
    const double seconds = bench::time_of([&] {
        for (u64 at = 0; at + work.width <= bytes; at += work.stride)
            openssl.hash(data.subspan(at, work.width), digest);
    });
    return seconds * static_cast<double>(data.size()) / static_cast<double>(bytes);
}

Stages run_on_gpu(const Work& work, Bytes data, std::vector<u8>& output) {
    Stages stages;
    if (work.width == 0) {
        need(hash_direct(work.algorithm, data,
                         std::span(output).first(digest_bytes(work.algorithm)), piece_bytes, on_gpu,
                         &stages));
        return stages;
    }
    // Four bytes of each digest: the paper's reduced output.
    const Windows windows{work.algorithm, work.width, work.stride};
    const auto kept = std::span(output).first(window_count(windows, data.size()) * 4);
    need(hash_windows(windows, data, 4, kept, on_gpu, &stages));
    return stages;
}

void add_stages(bench::Report& report, const std::string& scenario, const Stages& stages,
                double initialise, double bytes) {
    report.add(scenario, "initialise", initialise + stages.initialise, bytes);
    report.add(scenario, "copy in", stages.copy_in, bytes);
    report.add(scenario, "kernel", stages.kernel, bytes);
    report.add(scenario, "copy out", stages.copy_out, bytes);
    report.add(scenario, "finish", stages.finish, bytes);
    report.add(scenario, "total", stages.total, bytes);
}

void measure(bench::Report& report, const Work& work, u64 bytes, bool pinned, bool shared) {
    const std::string scenario = work.name() + ", " + std::to_string(bytes) + " bytes, " +
                                 (pinned ? "pinned" : "pageable") +
                                 (shared ? ", shared memory" : ", no shared memory");
    std::vector<u8> output(work.width == 0 ? 64 : bytes / work.stride * 4);
    for (int run = 0; run <= runs; ++run) {
        gpu::PinnedBuffer<std::byte> fast;
        std::unique_ptr<std::byte[]> slow;
        const double initialise = bench::time_of([&] {
            if (pinned) need(fast.allocate(bytes));
            if (!pinned) slow.reset(new std::byte[bytes]);
        });
        std::byte* const at = pinned ? fast.data() : slow.get();
        std::memset(at, 0x5a, bytes);
        const Stages stages = run_on_gpu(work, {at, bytes}, output);
        if (run > 0) {
            add_stages(report, scenario, stages, initialise, static_cast<double>(bytes));
        }
    }
}

std::vector<Work> all_works() {
    std::vector<Work> works;
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1}) {
        works.push_back({algorithm});
        for (const auto& [width, stride] :
             {std::pair<u64, u64>{20, 4}, {52, 4}, {20, 20}, {56, 56}}) {
            works.push_back({algorithm, width, stride});
        }
    }
    return works;
}

/// The works of these names, all of them if there are none.
std::vector<Work> works_named(const std::vector<std::string>& names) {
    std::vector<Work> works;
    std::string known;
    for (const Work& work : all_works()) {
        known += " '" + work.name() + "'";
        if (names.empty() || std::count(names.begin(), names.end(), work.name()) != 0)
            works.push_back(work);
    }
    bench::require(names.empty() || works.size() == names.size(), "the works are" + known);
    return works;
}

/// All sizes of a work; false if the time was up before the last one.
bool sweep(bench::Report& report, const Work& work, Bytes data, double until) {
    for (const bool shared : {false, true}) {
        // One slot and one stream, so that stages do not hide behind each other, as in the paper.
        need(set_device_settings({.slot_bytes = 64 * mib,
                                  .overlaps = false,
                                  .stages_pageable = false,
                                  .uses_shared_memory = shared}));
        for (u64 bytes = least_bytes; bytes <= most_bytes; bytes *= 2) {
            if (bench::now_seconds() > until) return false;
            if (!shared) {
                report.add(work.name() + ", " + std::to_string(bytes) + " bytes",
                           "OpenSSL, one core", time_reference(work, data.first(bytes)),
                           static_cast<double>(bytes));
            }
            for (const bool pinned : {false, true})
                measure(report, work, bytes, pinned, shared);
        }
    }
    return true;
}

}  // namespace

int main(int count, char** words) {
    bench::require(has_device(), "there is no GPU");
    bench::Report report("hash_sweep", count, words);
    std::vector<std::string> names;
    double until = bench::now_seconds() + 86400;
    for (int at = 1; at < count; ++at) {
        const std::string word = words[at];
        if (word == "--append") {
            report.keep_others();
        } else if (word == "--seconds" && at + 1 < count) {
            until = bench::now_seconds() + std::strtod(words[++at], nullptr);
        } else {
            names.push_back(word);
        }
    }
    const std::vector<std::byte> data(most_bytes, std::byte{0x5a});
    for (const Work& work : works_named(names)) {
        if (sweep(report, work, data, until)) continue;
        report.note("the time was up within " + work.name() +
                    "; works behind it were not measured");
        break;
    }
    return report.finish();
}

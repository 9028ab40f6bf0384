// SPDX-License-Identifier: Apache-2.0
// How fast is hashing on the GPU when the data come from the host? Five stages, their sum, and what
// the model predicts, side by side; then the paper's comparisons: pinned memory, overlap, staging
// in shared memory and reduced output switched off one by one. `items` are bytes of input.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/support/report.hpp"
#include "gpu/buffer.hpp"
#include "gpu/failure.hpp"
#include "hash/choice.hpp"
#include "hash/device.hpp"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using namespace warren::hash;

constexpr int runs = 5;
constexpr u64 piece_bytes = 4096;
constexpr Options on_gpu = {0, Processor::gpu};

void need(Errc code) {
    bench::require(code == Errc::ok, gpu::last_failure().message);
}

class HashPipeline {
 public:
    HashPipeline(bench::Report& report, u64 bytes) : report_(report), bytes_(bytes) {
        need(pinned_.allocate(bytes));
        std::memset(pinned_.data(), 0x5a, bytes);
        pageable_.assign(bytes, std::byte{0x5a});
        digests_.resize(bytes / piece_bytes * most_digest_bytes);
    }

    Bytes pinned() const { return {pinned_.data(), bytes_}; }
    Bytes pageable() const { return pageable_; }

    /// GB/s of what `work(stages)` does.
    template <class Work>
    double time(const std::string& scenario, const std::string& subject, u64 bytes,
                double predicted, const Work& work) {
        Stages stages;
        for (int run = 0; run <= runs; ++run) {
            need(work(stages));
            if (run > 0) report_.add(scenario, subject, stages.total, static_cast<double>(bytes));
        }
        const double seconds = report_.median(scenario, subject);
        const double rate = static_cast<double>(bytes) / seconds / 1e9;
        char text[300];
        std::snprintf(text, sizeof text,
                      "%s, %s: %.1f GB/s; initialise %.2f, in %.2f, kernel %.2f, out %.2f, finish "
                      "%.2f, measured %.2f, predicted %.2f ms",
                      scenario.c_str(), subject.c_str(), rate, stages.initialise * 1e3,
                      stages.copy_in * 1e3, stages.kernel * 1e3, stages.copy_out * 1e3,
                      stages.finish * 1e3, seconds * 1e3, predicted * 1e3);
        report_.note(text);
        return rate;
    }

    /// The model's parameters for this machine.
    void tell_rates(Algorithm algorithm) {
        const Rates& rates = rates_of(algorithm);
        char text[300];
        std::snprintf(text, sizeof text,
                      "rates, %s: GB/s of staging %.1f, gathering %.1f, copy in %.1f, beside them "
                      "%.1f, kernel %.0f, copy out %.1f, finish %.1f, CPU %.1f; ms of start %.0f, "
                      "turn %.3f, waking %.3f, of the CPU's threads %.3f",
                      std::string(name(algorithm)).c_str(), rates.staging / 1e9,
                      rates.gathering / 1e9, rates.copy_in / 1e9, rates.copy_in_beside / 1e9,
                      rates.kernel / 1e9, rates.copy_out / 1e9, rates.finish / 1e9, rates.cpu / 1e9,
                      rates.startup_seconds * 1e3, rates.turn_seconds * 1e3,
                      rates.waking_seconds * 1e3, rates.cpu_waking_seconds * 1e3);
        report_.note(text);
    }

    double pieces(const std::string& scenario, Algorithm algorithm, Bytes data, bool overlaps) {
        return pieces(scenario, algorithm, data, overlaps, rates_of(algorithm));
    }

    double pieces(const std::string& scenario, Algorithm algorithm, Bytes data, bool overlaps,
                  const Rates& rates) {
        Load load = {.input_bytes = data.size(),
                     .work_bytes = data.size(),
                     .output_bytes = data.size() / piece_bytes * digest_bytes(algorithm),
                     .slot_bytes = 32 * mib,
                     .is_staged = !is_pinned(data.data()),
                     .overlaps = overlaps};
        return time(scenario, std::string(name(algorithm)), data.size(),
                    predict_device(rates, load), [&](Stages& stages) {
                        return hash_pieces(algorithm, data, piece_bytes,
                                           std::span(digests_).first(load.output_bytes), on_gpu,
                                           &stages);
                    });
    }

    /// The alternative: all threads of the CPU.
    void by_cpu(Algorithm algorithm, u64 bytes) {
        const Load load = {.input_bytes = bytes, .work_bytes = bytes};
        const std::string scenario = "4 KiB, by the CPU, " + std::to_string(bytes / mib) + " MiB";
        const std::string subject(name(algorithm));
        const auto output =
            std::span(digests_).first(bytes / piece_bytes * digest_bytes(algorithm));
        for (int run = 0; run <= runs; ++run) {
            const double seconds = bench::time_of([&] {
                need(hash_pieces(algorithm, pageable().first(bytes), piece_bytes, output,
                                 {.processor = Processor::cpu}));
            });
            if (run > 0) report_.add(scenario, subject, seconds, static_cast<double>(bytes));
        }
        const double seconds = report_.median(scenario, subject);
        char text[200];
        std::snprintf(text, sizeof text, "%s, %s: %.1f GB/s; measured %.2f, predicted %.2f ms",
                      scenario.c_str(), subject.c_str(), static_cast<double>(bytes) / seconds / 1e9,
                      seconds * 1e3, predict_cpu(rates_of(algorithm), load) * 1e3);
        report_.note(text);
    }

    double windows(const std::string& scenario, const Windows& windows, u32 kept_bytes) {
        const Bytes data = pinned().first(std::min<u64>(bytes_, 256 * mib));
        const u64 count = window_count(windows, data.size());
        std::vector<u64> bitmap(kept_bytes == 0 ? (count + 63) / 64 : 0);
        std::vector<u8> digests(count * kept_bytes);
        const u64 blocks = (windows.window_bytes + 8) / 64 + 1;
        const Load load = {.input_bytes = data.size(),
                           .work_bytes = count * blocks * 64,
                           .output_bytes = kept_bytes == 0 ? count / 8 : digests.size(),
                           .slot_bytes = 32 * mib,
                           .are_windows = true};
        return time(scenario, std::string(name(windows.algorithm)), data.size(),
                    predict_device(rates_of(windows.algorithm), load), [&](Stages& stages) {
                        if (kept_bytes == 0) {
                            return match_windows(windows, data, 20, bitmap, on_gpu, &stages);
                        }
                        return hash_windows(windows, data, kept_bytes, digests, on_gpu, &stages);
                    });
    }

    void tree() {
        std::vector<u8> digest(32);
        constexpr u64 slot_bytes = 32 * mib;
        const Load load = {.input_bytes = bytes_,
                           .work_bytes = bytes_,
                           .output_bytes = bytes_ / slot_bytes * digest.size(),
                           .slot_bytes = slot_bytes};
        time("one message, pinned", "blake3", bytes_,
             predict_device(rates_of(Algorithm::blake3), load), [&](Stages& stages) {
                 return hash_one(Algorithm::blake3, pinned(), digest, on_gpu, &stages);
             });
    }

    /// The driver's own copies from pageable memory; here they take the place of the copy-in stage.
    void by_driver(Algorithm algorithm) {
        const u64 bytes = std::min<u64>(bytes_, 128 * mib);
        Stages stages;
        need(hash_pieces(algorithm, pageable().first(bytes), piece_bytes,
                         std::span(digests_).first(bytes / piece_bytes * digest_bytes(algorithm)),
                         on_gpu, &stages));
        Rates rates = rates_of(algorithm);
        rates.staging = rates.waking_seconds = 0;
        rates.copy_in = static_cast<double>(bytes) / stages.copy_in;
        pieces("not pinned, no overlap", algorithm, pageable(), false, rates);
    }

    /// Lists of pieces of 2 to 16 KiB, gathered by the CPU.
    void list(Algorithm algorithm) {
        std::vector<Bytes> pieces;
        for (u64 at = 0; at + 16384 <= bytes_;) {
            const u64 bytes = 2048 + at / 512 * 37 % 14336;
            pieces.push_back(Bytes(pageable_).subspan(at, bytes));
            at += bytes;
        }
        std::vector<u8> digests(pieces.size() * digest_bytes(algorithm));
        const double predicted = predict(algorithm, bytes_).gpu_seconds;
        time(
            "list of 2 to 16 KiB", std::string(name(algorithm)), bytes_, predicted,
            [&](Stages& stages) { return hash_many(algorithm, pieces, digests, on_gpu, &stages); });
    }

 private:
    bench::Report& report_;
    u64 bytes_;
    gpu::PinnedBuffer<std::byte> pinned_;
    std::vector<std::byte> pageable_;
    std::vector<u8> digests_;
};

void compare(bench::Report& report, HashPipeline& bench) {
    const Algorithm algorithm = Algorithm::md5;
    need(set_device_settings({.overlaps = false}));
    bench.pieces("pinned, no overlap", algorithm, bench.pinned(), false);
    need(set_device_settings({.overlaps = false, .stages_pageable = false}));
    bench.by_driver(algorithm);
    need(set_device_settings({.uses_shared_memory = false}));
    for (const Algorithm one : {Algorithm::md5, Algorithm::sha1})
        bench.windows("windows 20/4, bitmap, no shared memory", {one, 20, 4}, 0);
    for (const u64 slot_mib : {8, 16, 64}) {
        need(set_device_settings({.slot_bytes = slot_mib * mib}));
        bench.pieces("pinned, slots of " + std::to_string(slot_mib) + " MiB", algorithm,
                     bench.pinned(), true);
    }
    need(set_device_settings({}));
    report.note("the last rows: one thing switched off at a time");
}

}  // namespace

int main(int count, char** words) {
    bench::require(has_device(), "there is no GPU");
    const u64 size_gib = count > 1 ? std::strtoull(words[1], nullptr, 10) : 2;
    bench::Report report("hash_pipeline", count, words);
    HashPipeline bench(report, size_gib * gib);
    for (const Algorithm algorithm : all_algorithms) {
        const double rate = bench.pieces("4 KiB, pinned", algorithm, bench.pinned(), true);
        report.must("GB/s of " + std::string(name(algorithm)) + " from pinned memory", rate, 48);
        bench.pieces("4 KiB, pageable", algorithm, bench.pageable(), true);
        for (const u64 size_mib : {16, 128, 2048})
            bench.by_cpu(algorithm, std::min<u64>(size_mib * mib, bench.pageable().size()));
        bench.tell_rates(algorithm);
    }
    for (const u64 size_mib : {64, 256, 1024}) {
        if (size_mib * mib > bench.pageable().size()) continue;
        bench.pieces("4 KiB, pageable, " + std::to_string(size_mib) + " MiB", Algorithm::sha1,
                     bench.pageable().first(size_mib * mib), true);
    }
    bench.tree();
    bench.list(Algorithm::sha1);
    bench.list(Algorithm::blake3);
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1}) {
        const double rate = bench.windows("windows 48/1, bitmap", {algorithm, 48, 1}, 0);
        report.must("GB/s of " + std::string(name(algorithm)) + " windows from pinned memory", rate,
                    algorithm == Algorithm::md5 ? 20 : 10);
        for (const auto& [width, stride] :
             {std::pair<u64, u64>{20, 4}, {52, 4}, {56, 4}, {20, 20}, {52, 52}, {56, 56}}) {
            const std::string sizes = std::to_string(width) + "/" + std::to_string(stride);
            bench.windows("windows " + sizes + ", bitmap", {algorithm, width, stride}, 0);
            bench.windows("windows " + sizes + ", 4 bytes", {algorithm, width, stride}, 4);
            bench.windows("windows " + sizes + ", digests", {algorithm, width, stride},
                          digest_bytes(algorithm));
        }
    }
    compare(report, bench);
    return report.finish();
}

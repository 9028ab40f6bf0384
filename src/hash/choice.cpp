// SPDX-License-Identifier: Apache-2.0
// The GPU's rates are measured with its pipeline, those of the CPU with pieces of 4 KiB on all
// threads. If a rate cannot be measured, the CPU is chosen.
#include "hash/choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <vector>

#include "base/stopwatch.hpp"
#include "hash/device.hpp"

namespace warren::hash {
namespace {

constexpr u64 least_device_bytes = 16 * mib;  // of the bytes that are hashed
constexpr u64 least_tree_bytes = gib;         // of one BLAKE3 message
constexpr u64 assumed_slot_bytes = 32 * mib;

/// The seconds that all threads take for `bytes` in pieces of 4 KiB; the best of some rounds.
double measure_cpu(Algorithm algorithm, u64 bytes, int rounds) {
    constexpr u64 piece_bytes = 4096;
    const std::vector<std::byte> data(bytes, std::byte{1});
    std::vector<u8> digests(bytes / piece_bytes * digest_bytes(algorithm));
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
        const Stopwatch clock;
        hash_on_cpu(algorithm, Pieces(data, piece_bytes), {}, digests.data(), {});
        best = std::min(best, clock.seconds());
    }
    return best;
}

/// The rate of all threads including their start-up, measured at the first call. Quick to measure,
/// and too low on machines with many threads.
double rough_cpu_rate_of(Algorithm algorithm) {
    constexpr u64 bytes = 16 * mib;
    static std::array<double, std::size(all_algorithms)> rates;
    static std::array<std::once_flag, std::size(all_algorithms)> once;
    const auto index = static_cast<u32>(algorithm);
    std::call_once(once[index], [&] {
        rates[index] = static_cast<double>(bytes) / measure_cpu(algorithm, bytes, 2);
    });
    return rates[index];
}

/// Separates the threads' start-up from their work by measuring two sizes.
void fit_cpu(Algorithm algorithm, Rates& rates) {
    constexpr u64 few_bytes = 16 * mib;
    constexpr u64 many_bytes = 128 * mib;
    const double few = measure_cpu(algorithm, few_bytes, 3);
    const double many = measure_cpu(algorithm, many_bytes, 3);
    rates.cpu = static_cast<double>(many_bytes) / many;
    // If start-up seems to take more than half of the time, the measurement was disturbed.
    if (many < 2 * few) return;
    rates.cpu = static_cast<double>(many_bytes - few_bytes) / (many - few);
    rates.cpu_waking_seconds = std::max(0.0, few - static_cast<double>(few_bytes) / rates.cpu);
}

Choice choose_by(Algorithm algorithm, const Load& load) {
    const Rates& rates = rates_of(algorithm);
    if (rates.kernel == 0) return {};
    const double on_cpu = predict_cpu(rates, load);
    const double on_device = predict_device(rates, load);
    if (on_device < on_cpu) return {Processor::gpu, Errc::ok, on_device};
    return {Processor::cpu, Errc::ok, on_cpu};
}

/// The processor that the caller requested, which may be `automatic`.
Choice asked_for(const Options& options) {
    if (options.processor == Processor::gpu && !has_device()) {
        return {Processor::gpu, Errc::no_device, 0};
    }
    return {options.processor, Errc::ok, 0};
}

}  // namespace

const Rates& rates_of(Algorithm algorithm) {
    static std::array<Rates, std::size(all_algorithms)> rates;
    static std::array<std::once_flag, std::size(all_algorithms)> once;
    const auto index = static_cast<u32>(algorithm);
    std::call_once(once[index], [&] {
        // Loading the driver is part of the start-up time.
        const Stopwatch clock;
        if (!has_device()) return;
        const double loading = clock.seconds();
        Rates measured;
        if (measure_device(algorithm, measured) != Errc::ok) return;
        measured.startup_seconds += loading;
        fit_cpu(algorithm, measured);
        rates[index] = measured;
    });
    return rates[index];
}

bool has_gpu() {
    return has_device();
}

Prediction predict(Algorithm algorithm, u64 bytes, u64 calls, bool is_list) {
    constexpr u64 assumed_piece_bytes = 8 * kib;
    const Rates& rates = rates_of(algorithm);
    if (rates.kernel == 0 || calls == 0) return {};
    const u64 each = bytes / calls;
    const Load load{.input_bytes = each,
                    .work_bytes = each,
                    .output_bytes = each / assumed_piece_bytes * digest_bytes(algorithm),
                    .slot_bytes = assumed_slot_bytes,
                    .is_staged = true,
                    .is_gathered = is_list};
    const auto times = static_cast<double>(calls);
    return {times * predict_cpu(rates, load), times * predict_device(rates, load),
            rates.startup_seconds};
}

double predict_on_cpu(Algorithm algorithm, u64 bytes) {
    return static_cast<double>(bytes) / rough_cpu_rate_of(algorithm);
}

double gpu_startup_seconds() {
    return startup_left_seconds();
}

bool is_worth_a_gpu(double cpu_seconds) {
    constexpr double assumed_gain = 0.5;
    return cpu_seconds * assumed_gain >= gpu_startup_seconds();
}

Choice choose(Algorithm algorithm, const Pieces& pieces, const Options& options) {
    const Choice asked = asked_for(options);
    if (asked.processor != Processor::automatic) return asked;
    const u64 bytes = pieces.bytes();
    // A single stream cannot be divided, except BLAKE3's tree.
    const u64 least = pieces.count() == 1 ? least_tree_bytes : least_device_bytes;
    const bool is_parallel = pieces.count() > 1 || algorithm == Algorithm::blake3;
    if (bytes < least || !is_parallel || !has_device()) return {};
    const void* const at = pieces.is_list() ? pieces.list()[0].data() : pieces.data().data();
    // Lists are always gathered; a contiguous buffer is copied from its place if it is pinned.
    const bool is_gathered = pieces.is_list() && pieces.count() > 1;
    return choose_by(algorithm, {.input_bytes = bytes,
                                 .work_bytes = bytes,
                                 .output_bytes = pieces.count() * digest_bytes(algorithm),
                                 .slot_bytes = assumed_slot_bytes,
                                 .is_staged = !is_pinned(at),
                                 .is_gathered = is_gathered});
}

Choice choose(const Windows& windows, Bytes data, u64 output_bytes, const Options& options) {
    const Choice asked = asked_for(options);
    const bool has_kernel = windows.algorithm <= Algorithm::sha256;
    if (asked.processor != Processor::automatic) {
        if (asked.processor == Processor::gpu && !has_kernel) {
            return {Processor::gpu, Errc::not_supported, 0};
        }
        return asked;
    }
    const u64 blocks = (windows.window_bytes + 8) / 64 + 1;
    const u64 work_bytes = window_count(windows, data.size()) * blocks * 64;
    if (work_bytes < least_device_bytes || !has_kernel || !has_device()) return {};
    return choose_by(windows.algorithm, {.input_bytes = data.size(),
                                         .work_bytes = work_bytes,
                                         .output_bytes = output_bytes,
                                         .slot_bytes = assumed_slot_bytes,
                                         .are_windows = true,
                                         .is_staged = !is_pinned(data.data())});
}

}  // namespace warren::hash

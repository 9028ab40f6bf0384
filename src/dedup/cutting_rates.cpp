// SPDX-License-Identifier: Apache-2.0
// On a GPU, copying, scanning and selection overlap, so one rate covers all of them: the best of
// three runs.
#include "dedup/cutting_rates.hpp"

#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/random.hpp"
#include "base/stopwatch.hpp"
#include "warren/chunk_gpu.hpp"

namespace warren::dedup {

namespace {

constexpr u64 sample_bytes = 64 * mib;
constexpr u64 least_cut_bytes = 64 * kib;

template <class Work>
double best_seconds_each(u64 bytes, const Work& work) {
    double best = 0;
    for (int run = 0; run < 3; ++run) {
        const Stopwatch clock;
        if (!work()) return 0;
        const double passed = clock.seconds();
        if (best == 0 || passed < best) best = passed;
    }
    return best / static_cast<double>(bytes);
}

void fill_at_random(std::span<std::byte> sample) {
    Random random(1);
    for (u64 at = 0; at < sample.size(); at += 8) {
        const u64 word = random.next();
        std::memcpy(&sample[at], &word, 8);
    }
}

double seconds_of(const std::function<void()>& work) {
    const Stopwatch clock;
    work();
    return clock.seconds();
}

CuttingRates measure(const Splitter& splitter) {
    CuttingRates rates;
    std::vector<std::byte> sample;
    const double memory_seconds = seconds_of([&] { sample.resize(sample_bytes); });
    rates.buffer_seconds_each = memory_seconds / static_cast<double>(sample_bytes);
    rates.has_gpu = splitter.block_bytes != 0;
    if (rates.has_gpu || !chunk::GpuChunker::has_kernel(splitter.rule)) return rates;
    fill_at_random(sample);
    std::vector<u64> ends;
    chunk::GpuChunker gpu;
    Errc code = Errc::ok;
    // The first cut allocates memory.
    rates.gpu_start_seconds = seconds_of([&] {
        code = gpu.open(splitter.rule);
        if (code == Errc::ok) code = gpu.cut(std::span(sample).first(least_cut_bytes), ends);
    });
    if (code != Errc::ok) return rates;
    const double pin_seconds = seconds_of([&] { gpu.pin(sample); });
    rates.buffer_seconds_each += pin_seconds / static_cast<double>(sample_bytes);
    rates.gpu_seconds_each =
        best_seconds_each(sample_bytes, [&] { return gpu.cut(sample, ends) == Errc::ok; });
    rates.has_gpu = rates.gpu_seconds_each != 0;
    return rates;
}

}  // namespace

CuttingRates cutting_rates(const Splitter& splitter) {
    static std::mutex mutex;
    static std::optional<CuttingRates> last;
    static chunk::Rule rule;
    static u64 block_bytes = 0;
    const std::lock_guard lock(mutex);
    if (!last || splitter.rule != rule || splitter.block_bytes != block_bytes)
        last = measure(splitter);
    rule = splitter.rule;
    block_bytes = splitter.block_bytes;
    return *last;
}

}  // namespace warren::dedup

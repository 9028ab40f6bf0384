// SPDX-License-Identifier: Apache-2.0
// On a GPU copy, scan and choice overlap, so one rate stands for all of them; the best of three
// runs, the first of which gets the memory.
#include "dedup/cutting_rates.hpp"

#include <chrono>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/random.hpp"
#include "warren/chunk_gpu.hpp"

namespace warren::dedup {

namespace {

constexpr u64 sample_bytes = 64 * mib;

template <class Work>
double best_seconds_each(u64 bytes, const Work& work) {
    double best = 0;
    for (int run = 0; run < 3; ++run) {
        const auto begin = std::chrono::steady_clock::now();
        if (!work()) return 0;
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        if (best == 0 || passed.count() < best) best = passed.count();
    }
    return best / static_cast<double>(bytes);
}

CuttingRates measure(const Splitter& splitter) {
    if (splitter.block_bytes != 0) return {true, 0, 0};
    CuttingRates rates;
    chunk::GpuChunker gpu;
    chunk::Chunker chunker;
    if (!chunk::GpuChunker::has_kernel(splitter.rule) || gpu.open(splitter.rule) != Errc::ok ||
        chunker.open(splitter.rule, splitter.threads) != Errc::ok) {
        return rates;
    }
    std::vector<std::byte> sample(sample_bytes);
    Random random(1);
    for (u64 at = 0; at < sample_bytes; at += 8) {
        const u64 word = random.next();
        std::memcpy(&sample[at], &word, 8);
    }
    gpu.pin(sample);
    std::vector<u64> ends;
    rates.gpu_seconds_each =
        best_seconds_each(sample_bytes, [&] { return gpu.cut(sample, ends) == Errc::ok; });
    const std::span<const std::byte> part(sample.data(), sample_bytes / 4);
    rates.cpu_seconds_each = best_seconds_each(part.size(), [&] {
        chunker.feed(part, ends);
        chunker.finish(ends);
        return true;
    });
    rates.has_gpu = rates.gpu_seconds_each != 0;
    return rates;
}

}  // namespace

CuttingRates cutting_rates(const Splitter& splitter) {
    static std::mutex mutex;
    static chunk::Rule rule;
    static u64 block_bytes = 0;
    static bool is_measured = false;
    static CuttingRates rates;
    const std::lock_guard lock(mutex);
    if (!is_measured || splitter.rule != rule || splitter.block_bytes != block_bytes)
        rates = measure(splitter);
    is_measured = true;
    rule = splitter.rule;
    block_bytes = splitter.block_bytes;
    return rates;
}

}  // namespace warren::dedup

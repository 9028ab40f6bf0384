// SPDX-License-Identifier: Apache-2.0
// Measures the inputs of the model in src/hash/model.hpp by one call of each kind, made the way a
// caller makes it, so that the rates include how the stages slow each other down.
//
// Invariant: the first call is a small one, and carries the one-time costs of the process.
#include <cstring>
#include <memory>
#include <vector>

#include "base/stopwatch.hpp"
#include "base/workers.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "hash/device.hpp"

namespace warren::hash {

double startup_left_seconds() {
    // Assumed, since measuring would start the GPU: 0.5 s to load the driver, create and destroy a
    // context and allocate a pipeline's memory, and 0.2 s for measure_device().
    constexpr double assumed_seconds = 0.7;
    return gpu::was_used() ? 0 : assumed_seconds;
}

namespace {

/// Measured calls of one algorithm.
class Calls {
 public:
    explicit Calls(Algorithm algorithm) : algorithm_(algorithm) {}

    Errc hash(const Pieces& pieces, Sample& sample) {
        digests_.resize(pieces.count() * digest_bytes(algorithm_));
        sample.input_bytes = pieces.bytes();
        sample.output_bytes = digests_.size();
        return hash_on_device(algorithm_, pieces, {}, digests_.data(), {}, sample.stages);
    }

    /// Digests of windows of 20 bytes at stride 4, truncated to 4 bytes: as much output as input.
    Errc keep_digests(Bytes data, Sample& sample) {
        constexpr u32 kept_bytes = 4;
        const Windows windows = {algorithm_, 20, 4};
        digests_.resize(window_count(windows, data.size()) * kept_bytes);
        sample.input_bytes = data.size();
        sample.output_bytes = digests_.size();
        return hash_windows_on_device(
            windows, data, {.digests = digests_.data(), .kept_bytes = kept_bytes}, sample.stages);
    }

    Errc match(Bytes data, double& rate) {
        const Windows windows = {algorithm_, 48, 1};
        const u64 count = window_count(windows, data.size());
        std::vector<u64> bitmap((count + 63) / 64);
        Stages stages;
        WARREN_TRY(hash_windows_on_device(windows, data, {.bitmap = bitmap.data(), .match_mask = 1},
                                          stages));
        rate = static_cast<double>(count) * 64 / stages.kernel;
        return Errc::ok;
    }

 private:
    Algorithm algorithm_;
    std::vector<u8> digests_;
};

/// Repeats a call until caches and threads are warm, and keeps the fastest.
template <class Call>
Errc fastest(const Call& call, Sample& best) {
    constexpr int rounds = 3;
    for (int round = 0; round < rounds; ++round) {
        Sample sample;
        WARREN_TRY(call(sample));
        if (round == 0 || sample.stages.total < best.stages.total) best = sample;
    }
    return Errc::ok;
}

/// Allocates pageable memory and touches it on all cores: faulting it in on one core would take
/// longer than all the measurements.
std::unique_ptr<std::byte[]> touched(u64 bytes) {
    auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    Workers(0).run_ranges(bytes, mib, [&](u64 first, u64 last, u32) {
        std::memset(memory.get() + first, 0x5a, last - first);
    });
    return memory;
}

}  // namespace

Errc measure_device(Algorithm algorithm, Rates& rates) {
    constexpr u64 large_bytes = 256 * mib;
    constexpr u64 middle_bytes = 64 * mib;
    constexpr u64 window_bytes = 32 * mib;
    constexpr u64 small_bytes = 64 * kib;
    constexpr u64 piece_bytes = 4096;
    Calls calls(algorithm);
    Calibration measured;
    const Stopwatch clock;
    const std::vector<std::byte> little(small_bytes, std::byte{0x5a});
    WARREN_TRY(calls.hash(Pieces(little, piece_bytes), measured.small));
    measured.first_seconds = clock.seconds();
    WARREN_TRY(calls.hash(Pieces(little, piece_bytes), measured.small));

    const std::unique_ptr<std::byte[]> memory = touched(large_bytes);
    const Bytes data(memory.get(), large_bytes);
    const auto in_pieces = [&](u64 bytes, Sample& sample) {
        return calls.hash(Pieces(data.first(bytes), piece_bytes), sample);
    };
    const auto all = [&](Sample& sample) { return in_pieces(large_bytes, sample); };
    const auto part = [&](Sample& sample) { return in_pieces(middle_bytes, sample); };
    WARREN_TRY(fastest(all, measured.pageable));
    WARREN_TRY(fastest(part, measured.shorter));
    std::vector<Bytes> list;
    for (u64 at = 0; at < large_bytes; at += 2 * piece_bytes)
        list.push_back(data.subspan(at, 2 * piece_bytes));
    WARREN_TRY(
        fastest([&](Sample& sample) { return calls.hash(Pieces(list), sample); }, measured.list));

    const gpu::PinnedRange range(memory.get(), 2 * middle_bytes);
    if (!range.is_pinned()) return Errc::no_memory;
    const auto pinned = [&](Sample& sample) { return in_pieces(2 * middle_bytes, sample); };
    WARREN_TRY(fastest(pinned, measured.pinned));
    const bool has_windows = algorithm <= Algorithm::sha256;
    const Bytes windows = data.first(window_bytes);
    const auto keep = [&](Sample& sample) { return calls.keep_digests(windows, sample); };
    if (has_windows) WARREN_TRY(fastest(keep, measured.outputs));
    rates = fit_rates(measured);
    return has_windows ? calls.match(windows, rates.windows) : Errc::ok;
}

}  // namespace warren::hash

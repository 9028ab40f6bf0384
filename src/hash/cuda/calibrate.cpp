// SPDX-License-Identifier: Apache-2.0
// Measures what the model of src/hash/model.hpp is fed with: a call of each kind, made as a caller
// makes it, so that what stages take from each other is in the rates.
//
// Invariant: the first call is a small one, which pays for all that a process pays once.
#include <chrono>
#include <cstring>
#include <vector>

#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "hash/device.hpp"

namespace warren::hash {

double startup_left_seconds() {
    // Of a driver that is not loaded, a context and the memory of a pipeline, as far as can be said
    // without asking for them.
    constexpr double assumed_seconds = 0.4;
    return gpu::was_used() ? 0 : assumed_seconds;
}

namespace {

/// Calls of one algorithm, measured.
class Calls {
 public:
    explicit Calls(Algorithm algorithm) : algorithm_(algorithm) {}

    Errc hash(const Pieces& pieces, Sample& sample) {
        digests_.resize(pieces.count() * digest_bytes(algorithm_));
        sample.input_bytes = pieces.bytes();
        sample.output_bytes = digests_.size();
        return hash_on_device(algorithm_, pieces, {}, digests_.data(), {}, sample.stages);
    }

    /// Digests of windows of 20 bytes at stride 4, cut to 4 bytes: as much output as input.
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

}  // namespace

Errc measure_device(Algorithm algorithm, Rates& rates) {
    constexpr u64 large_bytes = 128 * mib;
    constexpr u64 small_bytes = 64 * kib;
    constexpr u64 piece_bytes = 4096;
    Calls calls(algorithm);
    Calibration measured;
    const std::vector<std::byte> pageable(large_bytes, std::byte{0x5a});
    const Bytes data = pageable;
    const auto start = std::chrono::steady_clock::now();
    WARREN_TRY(calls.hash(Pieces(data.first(small_bytes), piece_bytes), measured.small));
    const std::chrono::duration<double> first = std::chrono::steady_clock::now() - start;
    measured.first_seconds = first.count();
    WARREN_TRY(calls.hash(Pieces(data.first(small_bytes), piece_bytes), measured.small));

    gpu::PinnedBuffer<u8> buffer;
    WARREN_TRY(buffer.allocate(large_bytes));
    std::memset(buffer.data(), 0x5a, large_bytes);
    const Bytes pinned = std::as_bytes(std::span(buffer.data(), large_bytes));
    std::vector<Bytes> list;
    for (u64 at = 0; at < large_bytes; at += 2 * piece_bytes)
        list.push_back(data.subspan(at, 2 * piece_bytes));
    // The second round counts: in the first one caches and threads get warm.
    for (int round = 0; round < 2; ++round) {
        WARREN_TRY(calls.hash(Pieces(pinned, piece_bytes), measured.pinned));
        WARREN_TRY(calls.hash(Pieces(data, piece_bytes), measured.pageable));
        WARREN_TRY(calls.hash(Pieces(list), measured.list));
    }
    const bool has_windows = algorithm <= Algorithm::sha256;
    if (has_windows)
        WARREN_TRY(calls.keep_digests(pinned.first(large_bytes / 4), measured.outputs));
    rates = fit_rates(measured);
    return has_windows ? calls.match(pinned.first(large_bytes / 4), rates.windows) : Errc::ok;
}

}  // namespace warren::hash

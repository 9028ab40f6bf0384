// SPDX-License-Identifier: Apache-2.0
// The door of the library: arguments are checked, then the CPU or the GPU does the work.
#include "warren/hash.hpp"

#include <chrono>

#include "hash/pieces.hpp"

namespace warren::hash {

Errc hash_many(Algorithm algorithm, std::span<const Bytes> pieces, std::span<u8> digests,
               const Options& options, Stages* stages) {
    if (digests.size() != pieces.size() * digest_bytes(algorithm)) return Errc::invalid;
    return hash_anywhere(algorithm, Pieces(pieces), {}, digests.data(), options, stages);
}

Errc hash_pieces(Algorithm algorithm, Bytes data, u64 piece_bytes, std::span<u8> digests,
                 const Options& options, Stages* stages) {
    if (piece_bytes == 0) return Errc::invalid;
    const Pieces pieces(data, piece_bytes);
    if (digests.size() != pieces.count() * digest_bytes(algorithm)) return Errc::invalid;
    return hash_anywhere(algorithm, pieces, {}, digests.data(), options, stages);
}

Errc hash_one(Algorithm algorithm, Bytes data, std::span<u8> digest, const Options& options,
              Stages* stages) {
    return hash_many(algorithm, std::span(&data, 1), digest, options, stages);
}

Errc hash_anywhere(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning,
                   u8* digests, const Options& options, Stages* stages) {
    if (options.processor == Processor::gpu) return Errc::no_device;
    const auto start = std::chrono::steady_clock::now();
    hash_on_cpu(algorithm, pieces, beginning, digests, options);
    if (stages != nullptr) {
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        *stages = {};
        stages->kernel = stages->total = taken.count();
    }
    return Errc::ok;
}

}  // namespace warren::hash

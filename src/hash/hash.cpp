// SPDX-License-Identifier: Apache-2.0
// The entry points of the library, which check the arguments and choose the CPU or the GPU.
#include "warren/hash.hpp"

#include "base/stopwatch.hpp"
#include "hash/choice.hpp"
#include "hash/device.hpp"
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
    Stages taken;
    const Choice choice = choose(algorithm, pieces, options);
    Errc code = choice.code;
    if (choice.processor == Processor::gpu && code == Errc::ok) {
        code = hash_on_device(algorithm, pieces, beginning, digests, options, taken);
        taken.predicted = choice.predicted;
    }
    if (choice.processor == Processor::cpu || code == Errc::no_memory) {
        const char* const note = code == Errc::no_memory
                                     ? "the GPU has too little memory: the CPU did the work"
                                     : nullptr;
        const Stopwatch clock;
        hash_on_cpu(algorithm, pieces, beginning, digests, options);
        taken = {};
        taken.kernel = taken.total = clock.seconds();
        taken.predicted = choice.predicted;
        taken.note = note;
        code = Errc::ok;
    }
    if (stages != nullptr) *stages = taken;
    return code;
}

}  // namespace warren::hash

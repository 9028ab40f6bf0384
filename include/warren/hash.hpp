// SPDX-License-Identifier: Apache-2.0
// Digests of many pieces of data at once, on all cores or on a GPU, for C++ programs.
//
// A stream of MD5, SHA-1 or SHA-256 cannot be computed in parallel parts; many independent ones can
// run side by side, and a tree hash is made of many. On every processor the digests are those of
// the standards, bit for bit; docs/HASHING.md says what direct hashing is and what it is not.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::hash {

/// RFC 1321; FIPS 180-4 (two); BLAKE3; XXH3 with 128 bits, which does not resist forgery.
enum class Algorithm : u8 { md5, sha1, sha256, blake3, xxh3_128 };

inline constexpr Algorithm all_algorithms[] = {Algorithm::md5, Algorithm::sha1, Algorithm::sha256,
                                               Algorithm::blake3, Algorithm::xxh3_128};
inline constexpr u32 most_digest_bytes = 32;

/// The length of a digest.
constexpr u32 digest_bytes(Algorithm algorithm) {
    constexpr u32 lengths[] = {16, 20, 32, 32, 16};
    return lengths[static_cast<u32>(algorithm)];
}

/// "md5", "sha1", "sha256", "blake3" or "xxh3-128".
std::string_view name(Algorithm algorithm);

/// The algorithm of that name; dashes and the case of letters do not matter.
std::optional<Algorithm> algorithm_by_name(std::string_view name);

using Bytes = std::span<const std::byte>;

enum class Processor : u8 { automatic, cpu, gpu };

/// Which processor works. `automatic` takes the GPU if there is one and the model of
/// docs/HASHING.md predicts that it finishes first.
struct Options {
    u32 threads = 0;  // of the CPU; 0: as many as it has cores
    Processor processor = Processor::automatic;
};

/// Seconds of the five stages, in the order of the work. On a GPU copies and kernels overlap, so
/// that `total` is less than their sum. A stage that did not happen is 0.
struct Stages {
    double initialise = 0;
    double copy_in = 0;
    double staging = 0;  // of copy_in: bringing memory that is not pinned into memory that is
    double kernel = 0;
    double copy_out = 0;
    double finish = 0;
    double total = 0;
    double predicted = 0;  // the model's prediction of `total`; 0 if not asked
    Processor processor = Processor::cpu;
    const char* note = nullptr;  // why the GPU was asked for but not used
};

/// Whether there is a GPU that this program can use.
bool has_gpu();

/// The model's prediction for many pieces of some KiB to MiB in pageable memory.
struct Prediction {
    double cpu_seconds = 0;
    double gpu_seconds = 0;  // both 0 without a GPU
    double startup_seconds =
        0;  // that this process waited until the GPU was ready; not in the other
};

/// Asks the model about `bytes` in `calls` successive calls, each a list of pieces or one piece of
/// memory. The first call for an algorithm measures the machine: some 0.2 s and the start of the
/// GPU.
Prediction predict(Algorithm algorithm, u64 bytes, u64 calls = 1, bool is_list = true);

/// The model's prediction for the CPU alone: starts no GPU.
double predict_on_cpu(Algorithm algorithm, u64 bytes);

/// Seconds that the first use of a GPU takes in this process, assumed without asking a driver; 0
/// once it is in use, and in a build without CUDA.
double gpu_startup_seconds();

/// Whether work that takes the CPU so long justifies starting a GPU, which is assumed to be twice
/// as fast until measured. True once it is in use.
bool is_worth_a_gpu(double cpu_seconds);

/// The digest of each piece, one behind the other. Pieces may have any length and alignment.
/// Errc::invalid unless `digests` has pieces.size() * digest_bytes(); Errc::no_device for
/// Processor::gpu without one.
Errc hash_many(Algorithm algorithm, std::span<const Bytes> pieces, std::span<u8> digests,
               const Options& options = {}, Stages* stages = nullptr);

/// As hash_many() for `data` cut into pieces of `piece_bytes`, the last one shorter; no data are no
/// pieces. Errc::invalid for pieces of 0 bytes.
Errc hash_pieces(Algorithm algorithm, Bytes data, u64 piece_bytes, std::span<u8> digests,
                 const Options& options = {}, Stages* stages = nullptr);

/// The digest of one stream. BLAKE3 uses its tree and all threads, and a GPU from 1 GiB on; the
/// other algorithms use one core.
Errc hash_one(Algorithm algorithm, Bytes data, std::span<u8> digest, const Options& options = {},
              Stages* stages = nullptr);

/// Digests a stream that arrives in parts. Parts of a MiB and more let BLAKE3 use its threads.
class Stream {
 public:
    explicit Stream(Algorithm algorithm, u32 threads = 1);
    ~Stream();
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;

    void update(Bytes part);
    /// Writes digest_bytes() and makes the stream empty again.
    void finish(std::span<u8> digest);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

// Direct hashing: StoreGPU's way to hash one large block in parallel. Not plain MD5 or SHA-1.

/// The piece size of a direct hash if none is given.
inline constexpr u64 direct_piece_bytes = 4096;

/// The direct hash, version 1, of `data` (docs/HASHING.md). Errc::invalid for pieces of 0 bytes or
/// an algorithm other than MD5, SHA-1 and SHA-256, whose only parallel form this is.
Errc hash_direct(Algorithm algorithm, Bytes data, std::span<u8> digest,
                 u64 piece_bytes = direct_piece_bytes, const Options& options = {},
                 Stages* stages = nullptr);

// Sliding windows: the digest of every window of `window_bytes`, a new one each `stride_bytes`.

struct Windows {
    Algorithm algorithm = Algorithm::sha1;
    u64 window_bytes = 48;
    u64 stride_bytes = 1;
};

/// How many windows lie wholly within `data_bytes`; 0 if a size is 0 or the window is longer.
constexpr u64 window_count(const Windows& windows, u64 data_bytes) {
    if (windows.window_bytes == 0 || windows.stride_bytes == 0) return 0;
    if (data_bytes < windows.window_bytes) return 0;
    return (data_bytes - windows.window_bytes) / windows.stride_bytes + 1;
}

/// The first `kept_bytes` of each window's digest, one behind the other. Errc::invalid if a size is
/// 0, `kept_bytes` is more than a digest, or `output` is not window_count() * kept_bytes.
Errc hash_windows(const Windows& windows, Bytes data, u32 kept_bytes, std::span<u8> output,
                  const Options& options = {}, Stages* stages = nullptr);

/// Bit w of `bitmap` (bit w % 64 of word w / 64) says whether the low `zero_bits` of window w's
/// digest, read as a big-endian number as it is printed, are all 0. The bits behind the last window
/// are 0. Errc::invalid if a size is 0, zero_bits is 0 or above 32, or `bitmap` is not
/// (window_count() + 63) / 64 words.
Errc match_windows(const Windows& windows, Bytes data, u32 zero_bits, std::span<u64> bitmap,
                   const Options& options = {}, Stages* stages = nullptr);

}  // namespace warren::hash

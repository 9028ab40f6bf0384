// SPDX-License-Identifier: Apache-2.0
// Digests of many pieces of data in one call, on all cores or on a GPU, for C++ programs.
//
// A single stream of MD5, SHA-1 or SHA-256 cannot be computed in parallel, but many independent
// ones can, and a tree hash consists of many. On every processor the digests are exactly those of
// the standards; docs/HASHING.md defines direct hashing, which is not standard.
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

/// MD5: RFC 1321. SHA-1 and SHA-256: FIPS 180-4. BLAKE3. XXH3 with 128 bits, which does not resist
/// forgery.
enum class Algorithm : u8 { md5, sha1, sha256, blake3, xxh3_128 };

inline constexpr Algorithm all_algorithms[] = {Algorithm::md5, Algorithm::sha1, Algorithm::sha256,
                                               Algorithm::blake3, Algorithm::xxh3_128};
inline constexpr u32 most_digest_bytes = 32;

/// The length of a digest in bytes.
constexpr u32 digest_bytes(Algorithm algorithm) {
    constexpr u32 lengths[] = {16, 20, 32, 32, 16};
    return lengths[static_cast<u32>(algorithm)];
}

/// "md5", "sha1", "sha256", "blake3" or "xxh3-128".
std::string_view name(Algorithm algorithm);

/// The algorithm with this name, if there is one. Dashes and case are ignored.
std::optional<Algorithm> algorithm_by_name(std::string_view name);

using Bytes = std::span<const std::byte>;

enum class Processor : u8 { automatic, cpu, gpu };

/// Which processor computes. `automatic` uses the GPU if there is one and the model of
/// docs/HASHING.md predicts that it finishes first.
struct Options {
    u32 threads = 0;  // CPU threads; 0: as many as there are cores
    Processor processor = Processor::automatic;
};

/// Seconds spent in the five stages of a call, in order. On a GPU copies and kernels overlap, so
/// `total` is less than the sum of the stages. A stage that did not take place is 0.
struct Stages {
    double initialise = 0;
    double copy_in = 0;
    double staging = 0;  // part of copy_in: copying pageable memory to pinned memory
    double kernel = 0;
    double copy_out = 0;
    double finish = 0;
    double total = 0;
    double predicted = 0;  // the predicted `total`; 0 if no prediction was made
    Processor processor = Processor::cpu;
    const char* note = nullptr;  // why a GPU was requested but not used
};

/// Whether there is a GPU that this program can use.
bool has_gpu();

/// The predicted time for many pieces of some KiB to MiB in pageable memory.
struct Prediction {
    double cpu_seconds = 0;
    double gpu_seconds = 0;  // both 0 without a GPU
    double startup_seconds =
        0;  // that this process waited for the GPU to start; not included in the others
};

/// Predicts the time for `bytes` in `calls` successive calls, each with a list of pieces
/// (`is_list`) or with one contiguous piece. The first call for an algorithm measures the machine,
/// which takes about 0.2 s and the start of the GPU.
Prediction predict(Algorithm algorithm, u64 bytes, u64 calls = 1, bool is_list = true);

/// The predicted seconds on the CPU. Does not start a GPU.
double predict_on_cpu(Algorithm algorithm, u64 bytes);

/// The assumed time in seconds until a GPU is ready for its first use in this process, determined
/// without calling the driver. 0 once the GPU is in use, and in a build without CUDA.
double gpu_startup_seconds();

/// Whether work that takes the CPU `cpu_seconds` justifies starting a GPU, which is assumed to be
/// twice as fast until measured. True once the GPU is in use.
bool is_worth_a_gpu(double cpu_seconds);

/// Writes the digest of each piece, one after the other. Pieces may have any length and alignment.
/// Errc::invalid: `digests` does not have pieces.size() * digest_bytes() bytes. Errc::no_device:
/// Processor::gpu was requested and there is no GPU.
Errc hash_many(Algorithm algorithm, std::span<const Bytes> pieces, std::span<u8> digests,
               const Options& options = {}, Stages* stages = nullptr);

/// Like hash_many() for `data` divided into pieces of `piece_bytes`, of which the last may be
/// shorter. Empty data have no pieces. Errc::invalid if piece_bytes is 0.
Errc hash_pieces(Algorithm algorithm, Bytes data, u64 piece_bytes, std::span<u8> digests,
                 const Options& options = {}, Stages* stages = nullptr);

/// Writes the digest of one stream. BLAKE3 uses its tree structure and all threads, and a GPU from
/// 1 GiB on; the other algorithms use one core.
Errc hash_one(Algorithm algorithm, Bytes data, std::span<u8> digest, const Options& options = {},
              Stages* stages = nullptr);

/// Computes the digest of a stream that arrives in parts. BLAKE3 uses all its threads if the parts
/// have 1 MiB or more. An object may be used by one thread at a time.
class Stream {
 public:
    explicit Stream(Algorithm algorithm, u32 threads = 1);
    ~Stream();
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;

    void update(Bytes part);
    /// Writes digest_bytes() bytes and resets the stream to empty.
    void finish(std::span<u8> digest);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

// Direct hashing: StoreGPU's method to hash one large block in parallel. The result is not the
// standard MD5 or SHA-1.

/// The default piece size of a direct hash.
inline constexpr u64 direct_piece_bytes = 4096;

/// Writes the direct hash, version 1, of `data` (docs/HASHING.md). Errc::invalid: piece_bytes is 0,
/// or the algorithm is not MD5, SHA-1 or SHA-256. (The other algorithms are parallel by
/// themselves.)
Errc hash_direct(Algorithm algorithm, Bytes data, std::span<u8> digest,
                 u64 piece_bytes = direct_piece_bytes, const Options& options = {},
                 Stages* stages = nullptr);

// Sliding windows: the digest of every window of `window_bytes`, of which one begins every
// `stride_bytes`.

struct Windows {
    Algorithm algorithm = Algorithm::sha1;
    u64 window_bytes = 48;
    u64 stride_bytes = 1;
};

/// The number of windows that lie completely within `data_bytes`; 0 if a size is 0 or the window is
/// longer than the data.
constexpr u64 window_count(const Windows& windows, u64 data_bytes) {
    if (windows.window_bytes == 0 || windows.stride_bytes == 0) return 0;
    if (data_bytes < windows.window_bytes) return 0;
    return (data_bytes - windows.window_bytes) / windows.stride_bytes + 1;
}

/// Writes the first `kept_bytes` of each window's digest, one after the other. Errc::invalid: a
/// size is 0, `kept_bytes` exceeds the digest, or `output` does not have window_count() *
/// kept_bytes bytes.
Errc hash_windows(const Windows& windows, Bytes data, u32 kept_bytes, std::span<u8> output,
                  const Options& options = {}, Stages* stages = nullptr);

/// Sets bit w of `bitmap` (bit w % 64 of word w / 64) if the low `zero_bits` of window w's digest
/// are all 0, where the digest is read as a big-endian number, as it is printed. Bits past the last
/// window are 0. Errc::invalid: a size is 0, zero_bits is 0 or above 32, or `bitmap` does not have
/// (window_count() + 63) / 64 words.
Errc match_windows(const Windows& windows, Bytes data, u32 zero_bits, std::span<u64> bitmap,
                   const Options& options = {}, Stages* stages = nullptr);

}  // namespace warren::hash

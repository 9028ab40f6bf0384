// SPDX-License-Identifier: Apache-2.0
// Content-defined chunking: splits a stream at positions determined by its contents, so that an
// insertion shifts the positions after it but leaves the chunks there unchanged. A Rule defines the
// positions; presets produce exactly the cuts of LBFS, restic, FastCDC 2020, Xet, borg and
// StoreGPU.
//
// Invariant: the cuts depend only on the rule and the bytes. cut_serial() implements the rule as
// docs/CHUNKING.md states it; any number of threads, any division of the input into calls, and the
// GPU give the same cuts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::chunk {

enum class Method : u8 {
    rabin,    // fingerprint of the window modulo a polynomial over GF(2)
    gear,     // sum of shifted table entries over the last 64 bytes
    fastcdc,  // gear that restarts at the minimum, with two masks (FastCDC 2020)
    buzhash,  // rotated table entries; the window follows the cut (borg)
    md5,      // digest of the window (StoreGPU)
    sha1,
};

/// Where a stream is cut. After a cut at s, the next cut is at the first position in [s +
/// minimum_bytes, s + maximum_bytes] whose window matches, or at s + maximum_bytes if none does;
/// the last chunk ends with the stream. A window matches if (hash & mask) == value.
struct Rule {
    Method method = Method::rabin;
    u32 window_bytes = 0;  // always 64 for gear and fastcdc
    u32 stride_bytes = 1;  // md5, sha1: windows begin at multiples of this
    u32 seed = 0;          // buzhash: XORed with its table
    u64 minimum_bytes = 0;
    u64 average_bytes = 0;  // fastcdc: where `mask` replaces `early_mask`
    u64 maximum_bytes = 0;
    u64 mask = 0;
    u64 value = 0;
    u64 early_mask = 0;
    u64 polynomial = 0;  // rabin: bit i is the coefficient of x^i

    bool operator==(const Rule&) const = default;
};

/// The maximum_bytes of a rule without a maximum.
inline constexpr u64 unlimited_bytes = u64{1} << 62;

/// The names that preset() accepts, in the order of the documentation.
std::span<const std::string_view> preset_names();

/// The rule with this name, or Errc::invalid if there is none. The rule of restic has polynomial 0,
/// which the caller must replace with the polynomial of the repository. The rule of borg has seed
/// 0.
Result<Rule> preset(std::string_view name);

/// FastCDC 2020 with another average, which must be a power of two from 256 B to 4 MiB, and a
/// normalization level from 0 to 3. The minimum is a quarter of the average, the maximum four times
/// it. Errc::invalid for other values.
Result<Rule> fastcdc_rule(u64 average_bytes, u32 normalization = 1);

/// Returns a sentence that names the invalid value of a rule, or an empty string if the rule is
/// valid.
std::string describe_problem(const Rule& rule);

/// The ends of all chunks, computed by the reference code, one byte after the other. Requires: the
/// rule is valid.
std::vector<u64> cut_serial(const Rule& rule, std::span<const std::byte> bytes);

/// Returns the same ends as cut_serial(), faster. `threads` 0: as many as the machine has
/// processors.
std::vector<u64> cut(const Rule& rule, std::span<const std::byte> bytes, u32 threads = 0);

class GpuChunker;

/// Cuts a stream that arrives in parts of any size. An object may be used by one thread at a time.
class Chunker {
 public:
    Chunker();
    ~Chunker();
    Chunker(Chunker&&) noexcept;
    Chunker& operator=(Chunker&&) noexcept;

    /// Begins a stream. Returns Errc::invalid if describe_problem() rejects the rule.
    Errc open(const Rule& rule, u32 threads = 0);
    /// Takes the next bytes and appends the chunk ends that are certain by then, as positions in
    /// the stream.
    void feed(std::span<const std::byte> bytes, std::vector<u64>& ends);
    /// Takes the next bytes up to the end of a chunk and returns how many it took. Sets `is_end` to
    /// whether it stopped at the end of a chunk. Only for rabin.
    size_t feed_to_end(std::span<const std::byte> bytes, bool& is_end);
    /// Like feed(), but a GPU that was opened for the same rule scans the bytes. If the GPU fails,
    /// its error is returned, and the CPU completes the call with the same ends.
    Errc feed_by_gpu(GpuChunker& gpu, std::span<const std::byte> bytes, std::vector<u64>& ends);
    /// Ends the stream and appends the remaining chunk ends. The next feed() begins another stream.
    void finish(std::vector<u64>& ends);
    /// Discards the stream and begins another.
    void reset();
    /// Number of bytes taken so far.
    u64 position() const;
    /// Where the current chunk, whose end is not known yet, begins.
    u64 open_chunk() const;

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace warren::chunk

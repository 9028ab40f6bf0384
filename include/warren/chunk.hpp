// SPDX-License-Identifier: Apache-2.0
// Content-defined chunking: cuts a stream at positions that its contents choose, so that an
// insertion moves the cuts behind it but does not change the chunks. A Rule defines these
// positions; presets give the exact cuts of LBFS, restic, FastCDC 2020, Xet, borg and StoreGPU.
//
// Invariant: the cuts depend on the rule and the bytes alone. cut_serial() follows the rule as
// written in docs/CHUNKING.md; any number of threads, any division of the input into calls and the
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
    fastcdc,  // gear that starts afresh at the minimum, with two masks (FastCDC 2020)
    buzhash,  // rotated table entries; the window lies behind the cut (borg)
    md5,      // digest of the window (StoreGPU)
    sha1,
};

/// Where a stream is cut. From a cut at s the next one is at the first position in
/// [s + minimum_bytes, s + maximum_bytes] whose window matches, else at s + maximum_bytes; the end
/// of the stream ends the last chunk. A window matches if (hash & mask) == value.
struct Rule {
    Method method = Method::rabin;
    u32 window_bytes = 0;  // gear and fastcdc have 64
    u32 stride_bytes = 1;  // md5, sha1: windows begin at multiples of it
    u32 seed = 0;          // buzhash: xored to its table
    u64 minimum_bytes = 0;
    u64 average_bytes = 0;  // fastcdc: where `mask` takes the place of `early_mask`
    u64 maximum_bytes = 0;
    u64 mask = 0;
    u64 value = 0;
    u64 early_mask = 0;
    u64 polynomial = 0;  // rabin: bit i is the coefficient of x^i

    bool operator==(const Rule&) const = default;
};

/// The maximum of a rule without one.
inline constexpr u64 unlimited_bytes = u64{1} << 62;

/// The names that preset() knows, in the order of the documentation.
std::span<const std::string_view> preset_names();

/// The rule of that name; Errc::invalid if there is none. restic's has the polynomial 0, which the
/// caller sets to that of the repository; borg's has the seed 0.
Result<Rule> preset(std::string_view name);

/// FastCDC 2020 with another average, a power of two of 256 B to 4 MiB, and normalization level 0
/// to 3; minimum and maximum become a fourth and four times the average.
Result<Rule> fastcdc_rule(u64 average_bytes, u32 normalization = 1);

/// A sentence that names the value at fault in a rule; empty if the rule is good.
std::string describe_problem(const Rule& rule);

/// The ends of all chunks, by the reference code, one byte after the other. Requires: a good rule.
std::vector<u64> cut_serial(const Rule& rule, std::span<const std::byte> bytes);

/// The same cuts, faster. `threads` 0: as many as the machine has.
std::vector<u64> cut(const Rule& rule, std::span<const std::byte> bytes, u32 threads = 0);

class GpuChunker;

/// Cuts a stream that comes in pieces of any size.
class Chunker {
 public:
    Chunker();
    ~Chunker();
    Chunker(Chunker&&) noexcept;
    Chunker& operator=(Chunker&&) noexcept;

    /// Begins a stream. Errc::invalid for a rule that describe_problem() finds fault with.
    Errc open(const Rule& rule, u32 threads = 0);
    /// Takes the next bytes; appends the ends of chunks that are now certain, as positions in the
    /// stream.
    void feed(std::span<const std::byte> bytes, std::vector<u64>& ends);
    /// Takes the next bytes up to the end of a chunk and returns how many it took; `is_end` says
    /// whether it stopped at the end of a chunk. For rabin only.
    size_t feed_to_end(std::span<const std::byte> bytes, bool& is_end);
    /// As feed(), scanned by a GPU that was opened for the same rule. If the GPU fails, the CPU
    /// continues: the ends are the same, and the failure is returned.
    Errc feed_by_gpu(GpuChunker& gpu, std::span<const std::byte> bytes, std::vector<u64>& ends);
    /// Ends the stream: appends the remaining ends. The next feed() begins another stream.
    void finish(std::vector<u64>& ends);
    /// Discards the stream and begins another.
    void reset();
    /// Bytes taken so far.
    u64 position() const;
    /// Where the open chunk begins: the one whose end is not known yet.
    u64 open_chunk() const;

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace warren::chunk

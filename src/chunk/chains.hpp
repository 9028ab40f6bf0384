// SPDX-License-Identifier: Apache-2.0
// Finds whole chunks in parallel, for rules with gear hashes, without reading the bytes that the
// minimum skips. That requires knowing where a chunk begins. So a stretch is divided into segments,
// and in each a chain of chunks begins at a guess. Two chains meet after a chunk or two, since both
// cut at the same matches, and are equal from there on. A core follows four chains in parallel.
//
// Invariant: a chain counts only from a start that is known to be a cut, so the cuts are those of
// the serial rule for any input; where chains do not meet, the chunks are found one by one.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/workers.hpp"
#include "chunk/select.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk {

class Chains {
 public:
    Chains() = default;
    explicit Chains(const Rule& rule);

    /// Whether chains can be used for the rule: gear or fastcdc with value 0, a minimum of at least
    /// a window, and masks that have at least four bits in common.
    static bool has_way(const Rule& rule);
    /// The number of bytes from which on chains are worthwhile.
    u64 least_bytes() const { return least_bytes_; }
    /// False once chains have mostly failed to meet: then scanning every byte is faster.
    bool is_worth_it() const { return is_worth_it_; }

    /// Appends the ends of the chunks after `start`, a cut, as long as a chunk of the maximum
    /// length would end at `known` or before. Returns the last end. Requires: the stretch holds the
    /// bytes from `start` to `known`, at least least_bytes().
    u64 run(Workers& workers, const Stretch& stretch, u64 start, u64 known, std::vector<u64>& ends);

 private:
    /// A part of the stretch, with the chunk starts in it of a chain that began at `guess`. The
    /// last of `starts` is at `end` or after it.
    struct Segment {
        u64 guess = 0;
        u64 begin = 0;
        u64 end = 0;
        std::vector<u64> starts;
    };
    class Walk;

    void run_round(Workers& workers, const u8* bytes, u64 start, u64 known);
    bool join(const u8* bytes, Segment& segment, u64 known, u64& start, std::vector<u64>& ends);

    Rule rule_;
    u64 least_bytes_ = 0;
    bool is_worth_it_ = true;
    std::vector<Segment> segments_;
};

/// The state of a lane's hash.
struct ChainLane {
    u64 at = 0;  // the next byte to be hashed
    u64 hash = 0;
    u64 mask = 0;   // a match has none of these bits
    u64 found = 0;  // number of bytes up to the first match; 0 if there was none
};

inline constexpr u32 chain_lanes = 4;
using ChainLanes = std::array<ChainLane, chain_lanes>;

/// Advances every lane by `steps` bytes, or by fewer once a lane has found a match, and returns
/// their number. A match has none of the bits of `common`, which are part of every lane's mask.
u64 step_lanes_by_number(const u64* table, u64 common, const u8* bytes, ChainLanes& lanes,
                         u64 steps);
/// The same with AVX-512. Requires: can_step_lanes_by_vector().
u64 step_lanes_by_vector(const u64* table, u64 common, const u8* bytes, ChainLanes& lanes,
                         u64 steps);
bool can_step_lanes_by_vector();

}  // namespace warren::chunk

// SPDX-License-Identifier: Apache-2.0
// Whole chunks at once, for rules by gear: from each cut the bytes that the minimum skips are not
// looked at. That needs the cut before, so a stretch is divided into segments, and in each a chain
// of chunks begins at a guess. Chains from different starts meet after a chunk or two, since both
// cut at the same matches; from there on they are one. Four go side by side in a core.
//
// Invariant: a chain's chunks count only from a start that is known to be a cut, so the cuts are
// those of the serial rule on any input; where chains do not meet, they are found one by one.
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

    /// Whether there is a way for the rule: gear and fastcdc that match at 0, with a minimum of a
    /// window or more, and with masks that have four bits or more in common.
    static bool has_way(const Rule& rule);
    /// Bytes for which it is worth it.
    u64 least_bytes() const { return least_bytes_; }
    /// False once chains did not meet as a rule: the scan of every byte is faster there.
    bool is_worth_it() const { return is_worth_it_; }

    /// Appends the ends of chunks that follow `start`, a cut, as long as a longest chunk would end
    /// at `known` or before; answers the last one. Requires: the stretch holds the bytes from
    /// `start` to `known`, least_bytes() or more.
    u64 run(Workers& workers, const Stretch& stretch, u64 start, u64 known, std::vector<u64>& ends);

 private:
    /// A part of the stretch, and where chunks begin in it if one began at `guess`; the last of
    /// `starts` lies at `end` or behind.
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

/// Where a lane's hash is.
struct ChainLane {
    u64 at = 0;  // the byte that it takes in next
    u64 hash = 0;
    u64 mask = 0;   // a match has none of these bits
    u64 found = 0;  // how many bytes led to the first match; 0 if there was none
};

inline constexpr u32 chain_lanes = 4;
using ChainLanes = std::array<ChainLane, chain_lanes>;

/// Takes `steps` bytes into every lane's hash, or fewer as soon as a lane has found a match, and
/// answers how many. Every match has none of the bits of `common`, which the lanes' masks include.
u64 step_lanes_by_number(const u64* table, u64 common, const u8* bytes, ChainLanes& lanes,
                         u64 steps);
/// The same by vectors of AVX-512. Requires: can_step_lanes_by_vector().
u64 step_lanes_by_vector(const u64* table, u64 common, const u8* bytes, ChainLanes& lanes,
                         u64 steps);
bool can_step_lanes_by_vector();

}  // namespace warren::chunk

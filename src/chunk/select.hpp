// SPDX-License-Identifier: Apache-2.0
// Selects the cuts among the candidates: the minimum excludes some, the maximum forces others. A
// cut depends on the previous one, so this part is serial, but it processes only candidates, about
// one byte in thousands of the input.
//
// Invariant: a cut is selected as soon as the bytes seen make it certain, whatever follows them.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "warren/chunk.hpp"

namespace warren::chunk {

inline constexpr u64 no_candidate = ~u64{0};

/// In a list of fastcdc's candidates: flags, besides the end, for the two masks that a window
/// matches.
inline constexpr u32 late_flag = u32{1} << 31;
inline constexpr u32 early_flag = u32{1} << 30;
inline constexpr u32 list_end_mask = early_flag - 1;

/// The candidates of a stretch of the stream, in order: a list if they are few, the scan's bitmap
/// if they are many, which bounds the memory for any input.
class CandidateList {
 public:
    /// Takes the bits of `count` positions; bit i is the window that ends at base + i + 1. Windows
    /// that end before `least` are ignored.
    void assign(std::span<const u64> bits, u64 base, u64 count, u64 least);
    /// Takes a list of ascending ends, relative to `base`.
    void assign_list(std::span<const u32> ends, u64 base, u64 least);
    /// Takes those entries of a list with flags that have this flag.
    void assign_flagged(std::span<const u32> entries, u32 flag, u64 base, u64 least);

    /// The first candidate at `end` or after it, or no_candidate. Requires: `end` does not decrease
    /// from call to call.
    u64 next(u64 end) { return is_dense_ ? next_in_bits(end) : next_in_list(cursor_, end); }

    /// Calls visit(next) repeatedly until it returns false; next(end) is as above. The position in
    /// the list is then a local variable, which stays in a register.
    template <class Visit>
    void go_through(const Visit& visit) {
        if (is_dense_) {
            while (visit([this](u64 end) { return next_in_bits(end); })) {
            }
            return;
        }
        size_t cursor = cursor_;
        while (visit([this, &cursor](u64 end) { return next_in_list(cursor, end); })) {
        }
        cursor_ = cursor;
    }

 private:
    u64 next_in_bits(u64 end) const;
    u64 next_in_list(size_t& cursor, u64 end) const {
        // Usually none or one is skipped, unpredictably. So there is no branch, and all three are
        // loaded before it is known which one is needed.
        const u64* at = list_.data() + cursor;
        const u64 first = at[0];
        const u64 second = at[1];
        const u64 third = at[2];
        u64 found = first < end ? second : first;
        found = second < end ? third : found;
        cursor += static_cast<size_t>(first < end) + static_cast<size_t>(second < end);
        while (found < end)
            found = list_[++cursor];
        return found;
    }

    static constexpr size_t stops = 3;  // copies of no_candidate at the end of the list

    std::vector<u64> list_ = std::vector<u64>(stops, no_candidate);
    std::vector<u64> bits_;
    size_t cursor_ = 0;
    u64 base_ = 0;
    bool is_dense_ = false;
};

/// Bytes in memory; bytes[0] is at `base` of the stream.
struct Stretch {
    const u8* bytes;
    u64 base;
};

class Selector {
 public:
    Selector() = default;
    explicit Selector(const Rule& rule);

    /// Continues with the candidates up to `known`, the number of bytes seen so far, and appends
    /// the cuts that are certain. `early` and the stretch are used only for fastcdc; the stretch
    /// must hold the bytes from the previous call's `known` on.
    void run(CandidateList& candidates, CandidateList& early, u64 known, const Stretch& stretch,
             std::vector<u64>& ends);
    /// Ends the stream at `known` and appends the remaining ends.
    void finish(u64 known, std::vector<u64>& ends);

    /// Where the chunk whose end is not known yet begins.
    u64 start() const { return start_; }
    /// Windows that end before this position are within the minimum of that chunk and never
    /// candidates.
    u64 first_end() const { return start_ + first_bytes_; }
    /// Continues after a cut that was found by chains or on a GPU.
    void cut_at(u64 at);

 private:
    u64 next_candidate(CandidateList& candidates, CandidateList& early);
    void run_without_lag(CandidateList& candidates, u64 known, std::vector<u64>& ends);
    void look_at_head(u64 known, const Stretch& stretch);

    Rule rule_;
    u64 start_ = 0;
    u64 lag_bytes_ = 0;           // from the cut to the end of the window
    u64 first_bytes_ = 0;         // from the start to the first end of a window that counts
    u64 last_bytes_ = 0;          // to the last one
    u64 early_bytes_ = 0;         // fastcdc: to the first one tested with `mask`
    u64 pending_ = no_candidate;  // counts only if the stream continues after it
    u64 head_bytes_ = 0;          // fastcdc: up to where the head of the chunk was examined
    u64 head_hash_ = 0;
};

}  // namespace warren::chunk

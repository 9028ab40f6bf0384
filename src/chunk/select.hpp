// SPDX-License-Identifier: Apache-2.0
// Chooses the cuts among the candidates: the minimum skips some, the maximum forces others. What is
// chosen depends on the last cut, so this is the serial part; it looks at candidates only, a few
// bytes in ten thousand of the input.
//
// Invariant: a cut is chosen as soon as the bytes seen make it certain, whatever comes behind them.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "warren/chunk.hpp"

namespace warren::chunk {

inline constexpr u64 no_candidate = ~u64{0};

/// In a list of fastcdc's candidates: which of the two masks the window matches, beside its end.
inline constexpr u32 late_flag = u32{1} << 31;
inline constexpr u32 early_flag = u32{1} << 30;
inline constexpr u32 list_end_mask = early_flag - 1;

/// The candidates of a stretch of the stream, in order: a list if they are few, the scan's bitmap
/// if they are many, which bounds the memory for any input.
class CandidateList {
 public:
    /// Takes over the bits of `count` places; bit i is the window that ends at base + i + 1. Those
    /// that end before `least` are left out.
    void assign(std::span<const u64> bits, u64 base, u64 count, u64 least);
    /// Takes over a list: rising ends, counted from `base`.
    void assign_list(std::span<const u32> ends, u64 base, u64 least);
    /// Takes over those entries of a list with flags that have this one.
    void assign_flagged(std::span<const u32> entries, u32 flag, u64 base, u64 least);

    /// The first candidate from `end` on, or no_candidate. Requires: calls come with rising ends.
    u64 next(u64 end) { return is_dense_ ? next_in_bits(end) : next_in_list(cursor_, end); }

    /// Calls visit(next) in a loop until it returns false; next(end) is as above. The position in
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
        // Usually none or one is skipped, unpredictably: so there is no branch, and all three are
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

    static constexpr size_t stops = 3;  // no_candidate at the end of the list

    std::vector<u64> list_ = std::vector<u64>(stops, no_candidate);
    std::vector<u64> bits_;
    size_t cursor_ = 0;
    u64 base_ = 0;
    bool is_dense_ = false;
};

/// The bytes at hand: bytes[0] is at `base` in the stream.
struct Stretch {
    const u8* bytes;
    u64 base;
};

class Selector {
 public:
    Selector() = default;
    explicit Selector(const Rule& rule);

    /// Goes on with the candidates up to `known`, the bytes seen so far, and appends the cuts that
    /// are certain. `early` is looked at for fastcdc only, and so is the stretch: it must hold the
    /// bytes from the last call's `known` on.
    void run(CandidateList& candidates, CandidateList& early, u64 known, const Stretch& stretch,
             std::vector<u64>& ends);
    /// Ends the stream at `known`.
    void finish(u64 known, std::vector<u64>& ends);

    /// Where the chunk begins whose end is not known yet.
    u64 start() const { return start_; }
    /// Windows that end before are within the minimum of that chunk: none of them is a candidate.
    u64 first_end() const { return start_ + first_bytes_; }
    /// Takes a cut found by chains or on a GPU.
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
    u64 early_bytes_ = 0;         // fastcdc: to the first one that late candidates are for
    u64 pending_ = no_candidate;  // counts only if the stream goes on behind it
    u64 head_bytes_ = 0;          // fastcdc: how far the head of the chunk was looked at
    u64 head_hash_ = 0;
};

}  // namespace warren::chunk

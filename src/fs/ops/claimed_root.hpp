// SPDX-License-Identifier: Apache-2.0
// What is known of a directory that is being taken apart, in 32 bits, and the arrays of pairs that
// lose what is gone.
//
// A claimed directory has no root to show. What it was, what became of it, and how many of its
// parts are unfinished lies in the word for a device's number: whoever still changes a name of the
// directory changes its other counters. Invariant: the word is zero again when a directory outlives
// the step that claimed it.
#pragma once

#include "fs/core/tree.hpp"

namespace warren::ops {

struct ClaimedRoot {
    static constexpr u32 changed_bit = 1u << 8;   // something of it is gone
    static constexpr u32 leftover_bit = 1u << 9;  // names that need operations of their own stay
    static constexpr u32 waiting_bit = 1u << 10;  // and what the next step may free
    static constexpr u32 one_part = 1u << 16;     // unfinished

    u32 word = 0;

    static WARREN_HD ClaimedRoot of(u32 parts, u32 count, u32 height) {
        return {parts * one_part | height << 4 | count};
    }
    WARREN_HD u32 count() const { return word & 0xf; }
    WARREN_HD u32 height() const { return word >> 4 & 0xf; }
    WARREN_HD bool has_changed() const { return (word & changed_bit) != 0; }
    /// Whether some leaf stays; if none does, no array has pairs left.
    WARREN_HD bool keeps_some() const { return (word & (leftover_bit | waiting_bit)) != 0; }
    /// Whether all that stays are names that need operations of their own.
    WARREN_HD bool has_leftovers_only() const {
        return (word & (leftover_bit | waiting_bit)) == leftover_bit;
    }
};

/// Drops the pairs without a child; how many are left. One lane, or privately.
WARREN_HD inline u32 compact_pairs(core::TreePair* pairs, u32 count) {
    u32 kept = 0;
    const u64 first_key = relaxed_load(pairs[0].key);
    for (u32 i = 0; i < count; ++i) {
        const u64 child = relaxed_load(pairs[i].child.raw);
        if (child == 0) continue;
        relaxed_store(pairs[kept].key, kept == 0 ? first_key : relaxed_load(pairs[i].key));
        relaxed_store(pairs[kept].child.raw, child);
        ++kept;
    }
    return kept;
}

}  // namespace warren::ops

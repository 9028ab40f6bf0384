// SPDX-License-Identifier: Apache-2.0
// Trees without a disk: what lies in a directory follows from its seed and from how many files are
// in it and below it, so a tree of any size is made as it is walked, and forgotten.
//
// Invariant: a directory splits its files among itself and its subdirectories, so a tree has
// exactly as many files as was asked for.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace warren::walk {

inline constexpr u64 most_own_files = 1 << 20;
inline constexpr u64 most_children = 12;

/// The files of the directory itself: 20 / u^0.75 for u in (0, 1], a long tail up to a million.
inline u64 own_files(u64 seed, u64 files) {
    const double share = (static_cast<double>(Random(seed).next() >> 11) + 1) * 0x1p-53;
    const double root = std::sqrt(share);
    return std::min({static_cast<u64>(20 / (root * std::sqrt(root))), most_own_files, files});
}

/// Calls `take(seed, files)` for each subdirectory of a directory with `own` files of its own.
template <class Take>
void for_each_child(u64 seed, u64 files, u64 own, const Take& take) {
    u64 left = files - own;
    if (left == 0) return;
    Random random(seed);
    random.next();  // that of own_files()
    const u64 children = 1 + std::min<u64>(random.below(most_children), left / 40);
    for (u64 child = 0; child < children && left > 0; ++child) {
        u64 part = left;
        if (child + 1 < children) {
            // Some get much, most get little.
            const double share = static_cast<double>(random.next() >> 11) * 0x1p-53;
            part = static_cast<u64>(static_cast<double>(left) * share * share * share) + 1;
        }
        part = std::min(part, left);
        left -= part;
        take(std::max<u64>(random.next(), 1), part);
    }
}

}  // namespace warren::walk

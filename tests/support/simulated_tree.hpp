// SPDX-License-Identifier: Apache-2.0
// Trees without a disk: the contents of a directory follow from its seed and from the number of
// files in and below it. So a tree of any size is generated while it is walked, and not stored.
//
// Invariant: a directory divides its files among itself and its subdirectories, so a tree has
// exactly the requested number of files.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace warren::walk {

inline constexpr u64 most_own_files = 1 << 20;
inline constexpr u64 most_children = 12;

/// The number of files in the directory itself: 20 / u^0.75 for u in (0, 1], a long tail up to a
/// million.
inline u64 own_files(u64 seed, u64 files) {
    const double share = (static_cast<double>(Random(seed).next() >> 11) + 1) * 0x1p-53;
    const double root = std::sqrt(share);
    return std::min({static_cast<u64>(20 / (root * std::sqrt(root))), most_own_files, files});
}

/// Calls `take(seed, files)` for each subdirectory of a directory that itself has `own` files.
template <class Take>
void for_each_child(u64 seed, u64 files, u64 own, const Take& take) {
    u64 left = files - own;
    if (left == 0) return;
    Random random(seed);
    random.next();  // the number that own_files() used
    const u64 children = 1 + std::min<u64>(random.below(most_children), left / 40);
    for (u64 child = 0; child < children && left > 0; ++child) {
        u64 part = left;
        if (child + 1 < children) {
            // A few get most of the files.
            const double share = static_cast<double>(random.next() >> 11) * 0x1p-53;
            part = static_cast<u64>(static_cast<double>(left) * share * share * share) + 1;
        }
        part = std::min(part, left);
        left -= part;
        take(std::max<u64>(random.next(), 1), part);
    }
}

}  // namespace warren::walk

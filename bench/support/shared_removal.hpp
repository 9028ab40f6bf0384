// SPDX-License-Identifier: Apache-2.0
// How much longer does it take to remove a tree if half of its blocks are shared? In two ways:
// - every other file of each directory has one block that it shares, the others one of their own;
// - each file has two blocks, one of which it shares.
// A clone of the tree, which stays, has the other references. Beside each the same tree, written in
// the same order, without a clone.
//
// Invariant: the removal frees as many inodes as without a clone; it is timed until the call
// returns.
#pragma once

#include <string>

#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"
#include "warren/volume.hpp"

namespace warren::bench {

/// Makes the trees of `scale` in the volume and removes them, `scale.large_runs` times behind a
/// first time that does not count; adds their rows, and the bound on each, to the report.
void measure_shared_removal(Volume& volume, const std::string& label, const Scale& scale,
                            Report& report);

}  // namespace warren::bench

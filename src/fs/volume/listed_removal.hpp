// SPDX-License-Identifier: Apache-2.0
// Removal of a tree of which a replica lists the inodes and blocks: the workers of the CPU free
// them by their bits, and read neither directories nor names.
//
// The list is that of one version of the image. The freeze barrier closes, and if no block of the
// tree is marked as changed since then (core/change_marks.hpp), everything is freed before the
// barrier opens; otherwise nothing is. The root stays, as an empty directory in the orphan
// directory.
#pragma once

#include <functional>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Removes the directory `root`, which is in the orphan directory, and everything below it:
/// `on_cpu` removes what the replica's list does not, and also adds to `removal`. Requires: there
/// is a replica.
Errc remove_listed_tree(VolumeImplementation& volume, Handle root, Removal& removal,
                        const std::function<Errc()>& on_cpu);

}  // namespace warren

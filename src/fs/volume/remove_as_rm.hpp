// SPDX-License-Identifier: Apache-2.0
// Removes a tree name by name with the rights of its caller, as `rm -r` does: for trees whose
// removal cannot be permitted as a whole, see VolumeImplementation::detach_permitted(), and for
// those that the orphan directory has no room for.
#pragma once

#include <string_view>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Removes the directory (directory, name) and all below it that `caller` may remove, and counts
/// the names in `removal`. What may not be removed stays, with the directories above it; returns
/// the first refusal.
Errc remove_as_rm(VolumeImplementation& volume, const Caller& caller, Handle directory,
                  std::string_view name, Removal& removal, const ProgressCallback& progress = {});

}  // namespace warren

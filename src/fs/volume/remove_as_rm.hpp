// SPDX-License-Identifier: Apache-2.0
// Removes a tree name by name with the caller's rights, as `rm -r` does: for trees that cannot be
// detached as a whole with these rights (VolumeImplementation::detach_permitted()), and for those
// for which the orphan directory has no space.
#pragma once

#include <string_view>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Removes the directory (directory, name) and everything below it that `caller` may remove, and
/// counts the names in `removal`. Names that the caller may not remove stay, with the directories
/// above them; the result is then the first refusal.
Errc remove_as_rm(VolumeImplementation& volume, const Caller& caller, Handle directory,
                  std::string_view name, Removal& removal, const ProgressCallback& progress = {});

}  // namespace warren

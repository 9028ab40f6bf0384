// SPDX-License-Identifier: Apache-2.0
// Scans by the volume's own threads, for engines that do not scan by themselves: find, du, and the
// check whether a caller may remove a tree. Entries that are removed meanwhile are skipped.
#pragma once

#include <functional>
#include <vector>

#include "fs/bulk/scan/scan_call.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// See BulkCommands::scan(). Adds to `listed` the number of names in what was read.
Errc scan_on_host(VolumeImplementation& volume, const ScanCall& call, u64& listed);
/// Scans some of the positions in `left`, until `is_full` returns true. Sets `left` to the
/// positions still to be listed.
Errc scan_on_host(VolumeImplementation& volume, const ScanCall& call,
                  const std::function<bool()>& is_full, std::vector<ScanPosition>& left,
                  u64& listed);

}  // namespace warren

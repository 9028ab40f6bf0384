// SPDX-License-Identifier: Apache-2.0
// Scans by the volume's own threads, for all engines that do not scan by themselves: find, du, and
// the check that a caller may remove a tree. An entry that is removed meanwhile is skipped.
#pragma once

#include <functional>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

class HostScan {
 public:
    explicit HostScan(VolumeImplementation& volume) : volume_(volume) {}

    /// Visits what lies at some of the positions in `left`, until `steps.is_full`; `left` becomes
    /// the positions still to be listed.
    Errc scan_on(const core::Credentials& caller, const ops::FileFilter& files,
                 const std::function<bool(const Scanned&)>& visit, const ScanSteps& steps,
                 std::vector<ScanPosition>& left);
    /// See Engine::usage().
    Errc usage(const core::Credentials& caller, Handle root, const UsageOptions& options,
               std::vector<DirectoryUsage>& answer);
    /// Errc::access or Errc::not_permitted if `caller` could not remove everything below `root`.
    Errc check_removable(const core::Credentials& caller, Handle root, core::TreeCheck check);

 private:
    VolumeImplementation& volume_;
};

}  // namespace warren

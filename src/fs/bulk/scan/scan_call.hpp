// SPDX-License-Identifier: Apache-2.0
// A scan as the volume passes it to an engine or to its own threads: what to look for, where, and
// the receiver of the results. Invariant: the visitor may be called by many threads at the same
// time, and may call the volume.
#pragma once

#include <functional>
#include <vector>

#include "fs/bulk/scan/scan_output.hpp"
#include "fs/bulk/scan/scan_work.hpp"
#include "fs/bulk/scan/visited_entries.hpp"
#include "warren/scan_table.hpp"
#include "warren/volume.hpp"

namespace warren {

struct ScanCall {
    bulk::ScanPlan plan;
    Handle root = {};
    // The receiver, by the plan's purpose; a check has none.
    /// Called for what lies below the root; see Volume::scan().
    const std::function<bool(const Scanned&)>* visit = nullptr;
    /// With `visit`: receives what was visited, if an engine fails in between. The volume's own
    /// threads do not visit it again.
    VisitedEntries* visited = nullptr;
    /// Where a GPU scans, preferred to `visit`, which remains for results without room there.
    ScanTableOrder* table = nullptr;
    Attributes root_attributes = {};  // with `table`
    /// What directories hold by themselves; see Volume::usage(). Has the root's own share already.
    std::vector<DirectoryUsage>* usage = nullptr;
    /// Calls `body(i)` for each i below `count`, by many threads.
    std::function<void(u64 count, const std::function<void(u64)>& body)> for_each = {};
    std::function<Errc()> wait = {};  // see ScanSteps
    ProgressCallback progress = {};   // with `usage`: told how many names are measured
    /// For ScanPurpose::list: called once, with all masks, while the version of the image is held.
    const std::function<Errc(const bulk::ScanOutput&)>* take_masks = nullptr;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The parameters of a scan that the volume passes to an engine. Invariant: the visitor may be
// called by many threads at once, and may call the volume.
#pragma once

#include <functional>

#include "fs/bulk/scan/scan_filter.hpp"
#include "fs/core/permission.hpp"
#include "warren/volume.hpp"

namespace warren {

struct ScanCall {
    core::Credentials caller;
    const Attributes& root;
    const ops::FileFilter& filter;
    const std::function<bool(const Scanned&)>& visit;
    /// Calls `body(i)` for each i below `count`, by many threads.
    std::function<void(u64 count, const std::function<void(u64)>& body)> for_each;
    std::function<Errc()> wait = {};  // see ScanSteps
};

}  // namespace warren

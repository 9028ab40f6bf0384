// SPDX-License-Identifier: Apache-2.0
// Settings of a mount's page cache in the kernel, under /sys/class/bdi.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::fuse {

/// `device` is MAJOR:MINOR of the mount. Increases the kernel's read-ahead, and limits the dirty
/// pages that it may hold back if these are much for a volume of `volume_bytes`. A process without
/// the right to change these settings leaves them as they are. Returns the bytes that the kernel
/// may hold back from now on.
u64 set_up_page_cache(const std::string& device, u64 volume_bytes);

}  // namespace warren::fuse

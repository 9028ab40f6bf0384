// SPDX-License-Identifier: Apache-2.0
// The kernel's settings of a mount's page cache, under /sys/class/bdi.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::fuse {

/// `device`: MAJOR:MINOR of the mount. Lets the kernel read further ahead, and hold back less of
/// what was written where that is much for a volume of `volume_bytes`. A process without the
/// right to set these leaves them. Returns the bytes that the kernel may hold back from now on.
u64 set_up_page_cache(const std::string& device, u64 volume_bytes);

}  // namespace warren::fuse

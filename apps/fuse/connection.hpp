// SPDX-License-Identifier: Apache-2.0
// The kernel's end of a mount: the connection over which it asks the daemon.
#pragma once

#include "base/descriptor.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// The file that cuts the connection of the mount with this device number when something is written
/// to it; it means that connection for as long as it is open, even if another mount gets the
/// number. None, with errno, if fusectl cannot be had or the mount is somebody else's.
Descriptor open_abort_file(u32 device_minor);

}  // namespace warren::fuse

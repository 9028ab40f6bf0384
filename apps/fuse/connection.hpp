// SPDX-License-Identifier: Apache-2.0
// The kernel's side of a mount: the FUSE connection over which it sends requests to the daemon.
#pragma once

#include "base/descriptor.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// Opens a file of the connection of the mount with this device number, with flags of open(2):
/// `abort` aborts it when something is written to it, `waiting` tells the number of requests that
/// are not answered. It refers to that connection as long as it is open, even if another mount gets
/// the number. Without fusectl, or for a mount of another user, returns no descriptor and sets
/// errno.
Descriptor open_connection_file(u32 device_minor, const char* file_name, int flags);

}  // namespace warren::fuse

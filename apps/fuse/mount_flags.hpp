// SPDX-License-Identifier: Apache-2.0
// Mount options as flags of mount(2), for options that libfuse does not pass on and for remounts.
#pragma once

#include <string>

#include "apps/fuse/mount.hpp"

namespace warren::fuse {

/// The present flags of `mountpoint`, as mount(2) takes them.
unsigned long current_mount_flags(const std::string& mountpoint);

/// `flags` with the changes of the options.
unsigned long changed_mount_flags(unsigned long flags, const MountOptions& options);

}  // namespace warren::fuse

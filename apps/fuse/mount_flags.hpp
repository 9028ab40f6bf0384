// SPDX-License-Identifier: Apache-2.0
// Mount options as flags of mount(2), for what libfuse does not pass on and for remounting.
#pragma once

#include <string>

#include "apps/fuse/mount.hpp"

namespace warren::fuse {

/// The flags that `mountpoint` has now, as mount(2) wants them.
unsigned long current_mount_flags(const std::string& mountpoint);

/// `flags` with what the options change.
unsigned long changed_mount_flags(unsigned long flags, const MountOptions& options);

}  // namespace warren::fuse

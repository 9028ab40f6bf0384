// SPDX-License-Identifier: Apache-2.0
// The mount's callbacks. Each converts a request of libfuse's low-level interface into a call of
// the volume, and the result into a reply, and does nothing else. Each group is in a file of its
// own.
#pragma once

#include "apps/fuse/library.hpp"

namespace warren::fuse {

/// All callbacks; the user data of the session is a MountState.
fuse_lowlevel_ops operations();

/// Looking up, creating, removing and renaming names, and forgetting inodes.
void add_name_operations(fuse_lowlevel_ops& operations);
/// Reading directories.
void add_directory_operations(fuse_lowlevel_ops& operations);
/// Attributes, extended attributes, and the state of the volume.
void add_inode_operations(fuse_lowlevel_ops& operations);
/// Opening, reading, writing and allocating.
void add_content_operations(fuse_lowlevel_ops& operations);

}  // namespace warren::fuse

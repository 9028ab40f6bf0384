// SPDX-License-Identifier: Apache-2.0
// Unmounting, as root or through fusermount3.
#pragma once

#include "apps/fuse/mount_table.hpp"
#include "warren/result.hpp"

namespace warren::fuse {

enum class Detach : u8 { when_unused, lazily, forcibly };

/// Unmounts `mounted`. Errc::exists: another mount covers it, and would be unmounted in its place.
/// Otherwise returns the error of umount2(2), or Errc::io if fusermount3 failed (which has printed
/// the reason, except with `forcibly`). `forcibly` aborts the connection first, like umount(8) -f.
Errc detach(const MountedPlace& mounted, Detach how);

}  // namespace warren::fuse

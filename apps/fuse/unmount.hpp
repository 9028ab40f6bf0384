// SPDX-License-Identifier: Apache-2.0
// Unmounting, as root or through fusermount3.
#pragma once

#include <string>

#include "warren/result.hpp"

namespace warren::fuse {

enum class Detach : u8 { when_unused, lazily, forcibly };

/// Unmounts the topmost mount on `mountpoint`. Returns the error of umount2(2), or Errc::io if
/// fusermount3 failed (which has printed the reason, except with `forcibly`). `forcibly` aborts the
/// connection first, like umount(8) -f.
Errc detach(const std::string& mountpoint, Detach how);

}  // namespace warren::fuse

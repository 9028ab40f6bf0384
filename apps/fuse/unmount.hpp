// SPDX-License-Identifier: Apache-2.0
// Taking a mount away, as root or through fusermount3.
#pragma once

#include <string>

#include "warren/result.hpp"

namespace warren::fuse {

enum class Detach : u8 { when_unused, lazily, forcibly };

/// Unmounts what is on top of `mountpoint`; the error of umount2(2), or Errc::io if fusermount3
/// failed (it has said why, but not if `forcibly`). `forcibly` cuts the connection first, as
/// umount(8) -f does.
Errc detach(const std::string& mountpoint, Detach how);

}  // namespace warren::fuse

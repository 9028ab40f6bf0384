// SPDX-License-Identifier: Apache-2.0
// The life of a mount from opening the volume to closing it.
//
// Invariant: the volume outlives everything that uses it, and closing it is the last thing done.
#pragma once

#include <functional>
#include <string>

#include "apps/fuse/mount.hpp"

namespace warren::fuse {

/// Tells once how the start went: exit code 0 and maybe a warning, or a failure and its reason.
using StartReport = std::function<void(int exit_code, const std::string& text)>;

/// Opens, mounts and serves until the mount is gone. Requires: image and mountpoint are absolute,
/// no other thread is running. Answers the exit code.
int serve_mount(const MountOptions& options, const StartReport& report);

}  // namespace warren::fuse

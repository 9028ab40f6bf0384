// SPDX-License-Identifier: Apache-2.0
// The life of a mount from opening the volume to closing it.
//
// Invariant: the volume outlives everything that uses it; closing it comes last.
#pragma once

#include <functional>
#include <string>

#include "apps/fuse/mount.hpp"

namespace warren::fuse {

/// Reports the start once: exit code 0 and possibly a warning, or a failure and its reason.
using StartReport = std::function<void(int exit_code, const std::string& text)>;

/// Opens, mounts and serves a volume until it is unmounted. Requires: image and mountpoint are
/// absolute, no other thread is running. Returns the exit code.
int serve_mount(const MountOptions& options, const StartReport& report);

}  // namespace warren::fuse

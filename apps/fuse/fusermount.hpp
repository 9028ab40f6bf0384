// SPDX-License-Identifier: Apache-2.0
// The set-user-ID program of libfuse with which users other than root mount.
#pragma once

#include <string>

namespace warren::fuse {

/// The path of fusermount3, on PATH or in its usual directory; empty if it is not installed.
std::string find_fusermount();

inline constexpr const char* fusermount_missing =
    "is not installed (package fuse3); only root can mount without it";

}  // namespace warren::fuse

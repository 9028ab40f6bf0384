// SPDX-License-Identifier: Apache-2.0
// The set-user-ID program of libfuse, by which users other than root mount.
#pragma once

#include <string>

namespace warren::fuse {

/// The path of fusermount3, if it is on PATH or where systems keep it; else empty.
std::string find_fusermount();

inline constexpr const char* fusermount_missing =
    "is not installed (package fuse3); only root can mount without it";

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// How the client's side of the control socket refers to files: by a descriptor of a directory and a
// name, or by an O_PATH descriptor of the file. The kernel resolves paths in this process and with
// its rights.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/descriptor.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// A directory that the kernel has resolved, and a name in it ("" is the directory itself).
struct Place {
    Descriptor directory;
    std::string name;
    struct statx facts {};  // of the directory
};

Errc open_directory(const std::string& path, int more_flags, Place& place);

/// Splits `path` before its last component; false if that cannot name a directory entry.
bool split(std::string path, std::string& parent, std::string& name);

/// Splits off the last component and opens the directory before it.
Errc open_parent(const std::string& path, Place& place);

/// The directory's absolute path with a trailing slash; empty if it exceeds PATH_MAX.
std::string resolved_path(const Place& place);

/// Makes the kernel write back the dirty pages of the file system of `directory`, since the daemon
/// sees only what was written. This is done here because the daemon must not wait for its own
/// mount, and so that this process's rights apply: if it may not read the directory, another
/// directory of the mount is used.
Errc flush(int directory);

/// Makes the kernel write back a range, and returns an O_PATH descriptor of the file.
Errc show(int file, u64 offset, u64 length, Descriptor& shown);

/// Errc::busy if `name` is a mount point for this process or contains one ("": if any name in the
/// directory does), like rmdir(2) and rename(2).
Errc check_nothing_mounted(const Place& place, const std::string& name);

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// How the client's side of the control socket names files: by a descriptor of a directory and a
// name, or by a descriptor that leads to the file and has nothing open. The kernel follows paths,
// in this process and with its rights.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "base/descriptor.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

inline Errc last_error() {
    return static_cast<Errc>(errno);
}

/// A directory that the kernel has found for us, and a name in it ("" is the directory itself).
struct Place {
    Descriptor directory;
    std::string name;
    struct statx facts {};  // of the directory
};

Errc open_directory(const std::string& path, int more_flags, Place& place);

/// Splits `path` before its last component; false if that names no entry of a directory.
bool split(std::string path, std::string& parent, std::string& name);

/// Splits off the last component and opens the directory before it.
Errc open_parent(const std::string& path, Place& place);

/// The directory's path from the root, with a slash at its end; empty if it is too long for one.
std::string resolved_path(const Place& place);

/// Makes the kernel write out what it holds back of the file system that `directory` lies on, since
/// the daemon sees only what has been written. It is done here because the daemon must not wait for
/// its own mount, and with this process's rights: of a directory that it may not read, another one
/// of the mount must do.
Errc flush(int directory);

/// Makes the kernel write out what it holds back of a range, and names the file by a descriptor
/// that does not have it open.
Errc show(int file, u64 offset, u64 length, Descriptor& shown);

/// Errc::busy if `name` is a mount point or has one below, as rmdir(2) and rename(2) answer.
Errc check_nothing_mounted(const Place& place, const std::string& name);

}  // namespace warren::fuse

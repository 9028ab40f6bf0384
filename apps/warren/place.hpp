// SPDX-License-Identifier: Apache-2.0
// A name in an open directory, which is how the tools that walk a tree refer to files: no path is
// resolved again, so concurrent changes of the tree cannot divert a tool, and no path is too long.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include "base/descriptor.hpp"
#include "warren/types.hpp"

namespace warren::cli {

/// The longest path that one system call gets, below PATH_MAX. A longer one is resolved in steps.
inline constexpr size_t call_path_bytes_max = 4000;

/// A name in a directory, or a path with AT_FDCWD. A directory of -1 does not exist yet. If the
/// file itself is open, `file` saves looking up the name.
struct Place {
    int directory = -1;
    const char* name = "";
    int file = -1;
};

/// A path to the place for system calls without a directory argument; the name itself is not
/// followed if it is a link.
std::string path_for_system(const Place& place);

/// Changes the mode of a name, without following a link; returns 0 or an errno.
int change_mode(const Place& place, u32 mode);

/// The result of lstat(2); returns 0 or an errno.
int look_at(const Place& place, struct stat& status);

/// The device number of the file system, encoded like walk::device_of().
inline u64 device_of(const struct stat& status) {
    return u64{major(status.st_dev)} << 32 | minor(status.st_dev);
}

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// A name in an open directory, which is how tools on the walk speak of files: no path is looked up
// again, so a tree that is changed meanwhile cannot lead a tool elsewhere, and no path is too long.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include "base/descriptor.hpp"
#include "warren/types.hpp"

namespace warren::cli {

/// A name in a directory, or a path with AT_FDCWD. A directory of -1: there is none yet. Where the
/// file itself is open, `file` spares looking the name up.
struct Place {
    int directory = -1;
    const char* name = "";
    int file = -1;
};

/// A path by which calls that know no directories reach the place without following its name.
std::string path_for_system(const Place& place);

/// Changes the mode of a name that is not followed if it is a link; 0 or errno.
int change_mode(const Place& place, u32 mode);

/// What lstat(2) tells; 0 or errno.
int look_at(const Place& place, struct stat& status);

/// The file system, as walk::device_of() writes it.
inline u64 device_of(const struct stat& status) {
    return u64{major(status.st_dev)} << 32 | minor(status.st_dev);
}

}  // namespace warren::cli

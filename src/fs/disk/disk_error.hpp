// SPDX-License-Identifier: Apache-2.0
// What the error numbers of the system mean for a disk. There are three things that a volume does
// about them: it tells of a full medium, of one that may not be written, and of all else as EIO.
#pragma once

#include <cerrno>

#include "warren/result.hpp"

namespace warren {

inline Errc disk_error(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return Errc::no_space;
        case EROFS:
        case EBADF:
            return Errc::read_only;
        default:
            return Errc::io;
    }
}

}  // namespace warren

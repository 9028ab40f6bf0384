// SPDX-License-Identifier: Apache-2.0
// Maps errno values of disk requests to Errc. A volume distinguishes three cases: a full medium, a
// read-only medium, and any other failure (EIO).
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

// SPDX-License-Identifier: Apache-2.0
// errno as the type in which errors are returned.
#pragma once

#include <cerrno>

#include "warren/result.hpp"

namespace warren {

/// The error of the last system call that failed on this thread: errno.
inline Errc last_error() {
    return static_cast<Errc>(errno);
}

}  // namespace warren

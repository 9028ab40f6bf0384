// SPDX-License-Identifier: Apache-2.0
// A failure as a user is told of it.
#pragma once

#include <string>

#include "warren/result.hpp"

namespace warren {

/// Why something could not be done. `message` is one line for the user, which names the path.
struct Failure {
    Errc code = Errc::ok;
    std::string message;
};

inline Errc code_of(const Failure& failure) {
    return failure.code;
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// One of many copies that are made together.
#pragma once

#include <cstddef>

#include "warren/types.hpp"

namespace warren {

struct CopyPiece {
    const std::byte* from;
    std::byte* to;
    u64 bytes;
};

}  // namespace warren

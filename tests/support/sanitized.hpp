// SPDX-License-Identifier: Apache-2.0
// What a test asks when it runs under a sanitizer, where it takes five to twenty times as long.
#pragma once

#include "warren/types.hpp"

namespace warren {

inline constexpr bool is_sanitized = WARREN_SANITIZED;

/// Of a test's very many cases that run the same code it takes each case_step-th.
inline constexpr u64 case_step = is_sanitized ? 5 : 1;

}  // namespace warren

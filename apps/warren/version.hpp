// SPDX-License-Identifier: Apache-2.0
// The version that --version prints.
#pragma once

namespace warren::cli {

inline constexpr const char* version = "0.1.0";

}  // namespace warren::cli

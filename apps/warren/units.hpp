// SPDX-License-Identifier: Apache-2.0
// Sizes as people write and read them. A suffix counts in powers of 1024 (K, KiB), with a final B
// in powers of 1000 (KB), as in coreutils.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "warren/types.hpp"

namespace warren::cli {

/// "2G", "1.5T", "512M", "10MB", "4096"; nothing if it is no size or does not fit 64 bits.
std::optional<u64> parse_size(std::string_view text);

/// A whole decimal number, nothing else.
std::optional<u64> parse_number(std::string_view text);

/// As `du -h`: rounded up, one digit behind the point below ten: "4.0K", "12M", "0".
/// With a `base` of 1000 as `du --si`: "4.1k".
std::string short_size(u64 bytes, u64 base = 1024);

/// For sentences: "2.0 GiB", "312 bytes".
std::string long_size(u64 bytes);

/// "1 file", "12,345 files".
std::string counted(u64 count, std::string_view one, std::string_view many);

/// Digits in groups of three.
std::string grouped(u64 number);

}  // namespace warren::cli

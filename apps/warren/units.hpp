// SPDX-License-Identifier: Apache-2.0
// Parses and formats sizes for users. A suffix counts in powers of 1024 (K, KiB) or, with a final
// B, in powers of 1000 (KB), as in coreutils.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "warren/types.hpp"

namespace warren::cli {

/// "2G", "1.5T", "512M", "10MB", "4096"; nullopt if it is not a size or exceeds 64 bits.
std::optional<u64> parse_size(std::string_view text);

/// A decimal integer and nothing else.
std::optional<u64> parse_number(std::string_view text);

/// Like `du -h`: rounded up, with one decimal digit below ten: "4.0K", "12M", "0". With a `base` of
/// 1000 like `du --si`: "4.1k".
std::string short_size(u64 bytes, u64 base = 1024);

/// For prose: "2.0 GiB", "312 bytes".
std::string long_size(u64 bytes);

/// "1 file", "12,345 files".
std::string counted(u64 count, std::string_view one, std::string_view many);

/// With the digits in groups of three.
std::string grouped(u64 number);

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// One line of a checksum list, as sha256sum and b3sum write and read it: "HEX  FILE", or with --tag
// "NAME (FILE) = HEX". A name that contains a newline, a carriage return or a backslash is escaped,
// and a backslash before the line marks it so.
//
// Invariant: parsing a line that was written here yields the same name, byte for byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warren/hash.hpp"

namespace warren::cli {

enum class LineEnd : char { newline = '\n', zero = '\0' };

/// The digest in hexadecimal.
std::string hex_of(std::span<const u8> digest);

/// One line with its terminator. Names are not escaped if lines end with a zero byte.
std::string checksum_line(hash::Algorithm algorithm, std::span<const u8> digest,
                          std::string_view file, bool tagged, LineEnd end);

struct ChecksumLine {
    hash::Algorithm algorithm;
    std::vector<u8> digest;
    std::string file;
};

/// Parses a line without its terminator; nullopt if it is malformed. `algorithm` is the algorithm
/// of lines without a tag.
std::optional<ChecksumLine> parse_checksum_line(std::string_view line, hash::Algorithm algorithm);

}  // namespace warren::cli

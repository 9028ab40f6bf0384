// SPDX-License-Identifier: Apache-2.0
// One line of a list of digests, as sha256sum and b3sum write and read it: "HEX  FILE", or with
// --tag "NAME (FILE) = HEX". A name with a newline, a carriage return or a backslash is escaped,
// and a backslash before the line says so.
//
// Invariant: reading a written line gives back the name, byte for byte.
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

/// One line with its end. Names are not escaped where zero bytes end the lines.
std::string checksum_line(hash::Algorithm algorithm, std::span<const u8> digest,
                          std::string_view file, bool tagged, LineEnd end);

struct ChecksumLine {
    hash::Algorithm algorithm;
    std::vector<u8> digest;
    std::string file;
};

/// Reads a line without its end; nothing if it is no such line. `algorithm` is what a line without
/// a tag means.
std::optional<ChecksumLine> parse_checksum_line(std::string_view line, hash::Algorithm algorithm);

}  // namespace warren::cli

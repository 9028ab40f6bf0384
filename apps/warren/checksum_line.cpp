// SPDX-License-Identifier: Apache-2.0
// The tags are the algorithm names that the BSD tools and coreutils use, so that lists are
// interchangeable.
#include "apps/warren/checksum_line.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr std::string_view tags[] = {"MD5", "SHA1", "SHA256", "BLAKE3", "XXH128"};

bool needs_escape(std::string_view file) {
    return file.find_first_of("\n\r\\") != std::string_view::npos;
}

std::string escaped_name(std::string_view file) {
    std::string text;
    for (const char c : file) {
        if (c == '\n') {
            text += "\\n";
        } else if (c == '\r') {
            text += "\\r";
        } else if (c == '\\') {
            text += "\\\\";
        } else {
            text += c;
        }
    }
    return text;
}

std::optional<std::string> unescaped(std::string_view text) {
    std::string file;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            file += text[i];
            continue;
        }
        if (++i == text.size()) return std::nullopt;
        switch (text[i]) {
            case 'n':
                file += '\n';
                break;
            case 'r':
                file += '\r';
                break;
            case '\\':
                file += '\\';
                break;
            default:
                return std::nullopt;
        }
    }
    return file;
}

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool parse_hex(std::string_view text, std::vector<u8>& digest) {
    if (text.size() % 2 != 0) return false;
    for (size_t i = 0; i < text.size(); i += 2) {
        const int high = digit_of(text[i]);
        const int low = digit_of(text[i + 1]);
        if (high < 0 || low < 0) return false;
        digest.push_back(static_cast<u8>(high * 16 + low));
    }
    return true;
}

/// "NAME (FILE) = HEX"; false if the line does not have this form.
bool parse_tagged(std::string_view line, std::string_view& file, std::string_view& hex,
                  hash::Algorithm& algorithm) {
    const size_t open = line.find(" (");
    const size_t close = line.rfind(") = ");
    if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2) {
        return false;
    }
    const auto named = hash::algorithm_by_name(line.substr(0, open));
    if (!named) return false;
    algorithm = *named;
    file = line.substr(open + 2, close - open - 2);
    hex = line.substr(close + 4);
    return true;
}

}  // namespace

std::string hex_of(std::span<const u8> digest) {
    std::string text;
    for (const u8 byte : digest) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

std::string checksum_line(hash::Algorithm algorithm, std::span<const u8> digest,
                          std::string_view file, bool tagged, LineEnd end) {
    const bool escapes = end == LineEnd::newline && needs_escape(file);
    std::string name = escapes ? escaped_name(file) : std::string(file);
    if (end == LineEnd::newline) name = masked_name(name);
    std::string line = escapes ? "\\" : "";
    if (tagged) {
        line += std::string(tags[static_cast<u32>(algorithm)]) + " (" + name + ") = ";
        line += hex_of(digest);
    } else {
        line += hex_of(digest) + "  " + name;
    }
    return line + static_cast<char>(end);
}

std::optional<ChecksumLine> parse_checksum_line(std::string_view line, hash::Algorithm algorithm) {
    const bool escapes = line.starts_with('\\');
    if (escapes) line.remove_prefix(1);
    std::string_view file;
    std::string_view hex;
    ChecksumLine result{algorithm, {}, {}};
    if (!parse_tagged(line, file, hex, result.algorithm)) {
        // The digest is followed by two spaces or, for binary files, a space and a star.
        const size_t space = line.find(' ');
        if (space == std::string_view::npos || space + 2 >= line.size()) return std::nullopt;
        if (line[space + 1] != ' ' && line[space + 1] != '*') return std::nullopt;
        hex = line.substr(0, space);
        file = line.substr(space + 2);
    }
    if (!parse_hex(hex, result.digest)) return std::nullopt;
    if (result.digest.size() != hash::digest_bytes(result.algorithm)) return std::nullopt;
    const std::optional<std::string> name = escapes ? unescaped(file) : std::string(file);
    if (!name || name->empty()) return std::nullopt;
    result.file = *name;
    return result;
}

}  // namespace warren::cli

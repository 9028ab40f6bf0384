// SPDX-License-Identifier: Apache-2.0
// Names of the algorithms. Users write them in many ways: "SHA-256", "sha256", "xxh3_128" and
// "xxh128" are all accepted, and one form is printed.
#include <array>
#include <string>

#include "warren/hash.hpp"

namespace warren::hash {
namespace {

struct Name {
    std::string_view letters;
    Algorithm algorithm;
};

constexpr Name names[] = {
    {"md5", Algorithm::md5},         {"sha1", Algorithm::sha1},
    {"sha256", Algorithm::sha256},   {"blake3", Algorithm::blake3},
    {"b3", Algorithm::blake3},       {"xxh3128", Algorithm::xxh3_128},
    {"xxh128", Algorithm::xxh3_128}, {"xxh3", Algorithm::xxh3_128},
};

}  // namespace

std::string_view name(Algorithm algorithm) {
    constexpr std::array<std::string_view, 5> printed = {"md5", "sha1", "sha256", "blake3",
                                                         "xxh3-128"};
    return printed[static_cast<u32>(algorithm)];
}

std::optional<Algorithm> algorithm_by_name(std::string_view text) {
    std::string letters;
    for (const char c : text) {
        if (c == '-' || c == '_') continue;
        letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    for (const Name& one : names) {
        if (one.letters == letters) return one.algorithm;
    }
    return std::nullopt;
}

}  // namespace warren::hash

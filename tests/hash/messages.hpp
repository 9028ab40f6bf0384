// SPDX-License-Identifier: Apache-2.0
// Messages for the tests of hashing, and digests in hexadecimal. The same seed gives the same
// messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "warren/hash.hpp"

namespace warren::hash {

inline Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string hex(std::span<const u8> digest) {
    std::string text;
    for (const u8 byte : digest) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

/// The bytes i % 251.
inline std::vector<std::byte> pattern_message(u64 length) {
    std::vector<std::byte> message(length);
    for (u64 i = 0; i < length; ++i)
        message[i] = static_cast<std::byte>(i % 251);
    return message;
}

inline std::vector<std::byte> random_message(Random& random, u64 length) {
    std::vector<std::byte> message(length);
    for (std::byte& byte : message)
        byte = static_cast<std::byte>(random.next());
    return message;
}

/// Random pieces of `data`, most of them shorter than `usual`, some up to ten times as long.
inline std::vector<Bytes> random_pieces(Random& random, Bytes data, u64 count, u64 usual) {
    std::vector<Bytes> pieces;
    for (u64 i = 0; i < count; ++i) {
        const u64 longest = random.one_in(20) ? 10 * usual : random.one_in(3) ? 200 : usual;
        const u64 length = random.below(std::min<u64>(longest, data.size()));
        pieces.push_back(data.subspan(random.below(data.size() - length), length));
    }
    return pieces;
}

}  // namespace warren::hash

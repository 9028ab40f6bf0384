// SPDX-License-Identifier: Apache-2.0
// Patterns of names: * matches any bytes, ? one byte, [a-z] and [!a-z] one byte that is in a set or
// not, and \ makes the next byte literal. They match bytes, not characters: a caller that wants the
// characters of a locale uses a wider pattern and filters the results.
//
// Matching does not recurse: after a mismatch only the last star needs to be tried again.
#pragma once

#include "base/host_device.hpp"

namespace warren::core {

/// A pattern in the caller's memory.
struct NamePattern {
    const char* bytes = nullptr;
    u32 length = 0;
    bool folds_case = false;  // of ASCII letters

    WARREN_HD char fold(char byte) const {
        return folds_case && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a')
                                                        : byte;
    }
};

/// Compares `byte` with the set that begins after the bracket at `at`, and moves `at` to the end of
/// the set. A bracket that is never closed stands for itself.
WARREN_HD inline bool set_matches(const NamePattern& pattern, u32& at, char byte) {
    u32 i = at + 1;
    const bool negates = i < pattern.length && (pattern.bytes[i] == '!' || pattern.bytes[i] == '^');
    if (negates) ++i;
    const u32 first = i;
    bool found = false;
    const u8 wanted = static_cast<u8>(pattern.fold(byte));
    for (; i < pattern.length && (pattern.bytes[i] != ']' || i == first); ++i) {
        if (pattern.bytes[i] == '\\' && i + 1 < pattern.length) ++i;
        const u8 low = static_cast<u8>(pattern.fold(pattern.bytes[i]));
        u8 high = low;
        const bool is_range =
            i + 2 < pattern.length && pattern.bytes[i + 1] == '-' && pattern.bytes[i + 2] != ']';
        if (is_range) {
            i += 2;
            if (pattern.bytes[i] == '\\' && i + 1 < pattern.length) ++i;
            high = static_cast<u8>(pattern.fold(pattern.bytes[i]));
        }
        found = found || (low <= wanted && wanted <= high);
    }
    if (i >= pattern.length) return byte == '[';
    at = i;
    return found != negates;
}

/// Whether `name` matches the pattern. One lane.
WARREN_HD inline bool matches(const NamePattern& pattern, const char* name, u32 length) {
    u32 at = 0;
    u32 next = 0;
    u32 star = ~u32{0};  // after the last star, and the end of what it has matched
    u32 taken = 0;
    while (next < length || at < pattern.length) {
        if (at < pattern.length && pattern.bytes[at] == '*') {
            star = ++at;
            taken = next;
            continue;
        }
        bool fits = false;
        if (at < pattern.length && next < length) {
            const char byte = pattern.bytes[at];
            if (byte == '?') {
                fits = true;
            } else if (byte == '[') {
                fits = set_matches(pattern, at, name[next]);
            } else {
                if (byte == '\\' && at + 1 < pattern.length) ++at;
                fits = pattern.fold(pattern.bytes[at]) == pattern.fold(name[next]);
            }
        }
        if (fits) {
            ++at;
            ++next;
            continue;
        }
        if (star == ~u32{0} || taken >= length) return false;
        at = star;
        next = ++taken;
    }
    return true;
}

}  // namespace warren::core

// SPDX-License-Identifier: Apache-2.0
// The names of a part of a directory: in the format of getdents64(2), and packed for messages,
// where a name is written as its difference from the previous one.
//
// Invariant: the unpacked records have the names, types and inodes of the records that were packed,
// in the same order, without "." and "..".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "warren/types.hpp"

namespace warren::walk {

/// The layout in which getdents64(2) writes a name.
struct Name {
    u64 inode;
    i64 next;
    u16 size;
    u8 type;
    char text[];  // the name and its NUL
};

inline bool is_dot(const char* name) {
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/// Whether a directory entry can have this name: not empty, no '/' or NUL, and neither "." nor
/// "..".
bool is_entry_name(std::string_view name);

/// How many bytes of a directory are given away at once.
inline constexpr size_t records_most = 128 * kib;

/// Whether these are at most records_most bytes in the format of getdents64(2), without "." and
/// "..".
bool are_records(std::string_view bytes);

/// The result is at most as long as `records`.
std::string pack_names(std::string_view records);
/// Returns nothing if pack_names() does not produce such bytes from records_most bytes or less.
std::optional<std::string> unpack_names(std::string_view packed);

}  // namespace warren::walk

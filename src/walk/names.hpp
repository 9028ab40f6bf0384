// SPDX-License-Identifier: Apache-2.0
// The names of a part of a directory: as getdents64(2) writes them, and as they travel, where a
// name is written as its difference to the one before.
//
// Invariant: unpacked, the records have the names, types and inodes of those that were packed, in
// their order, without "." and "..".
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

/// Whether an entry can have this name, and it leads to nothing else.
bool is_entry_name(std::string_view name);

/// So many bytes of a directory are given away at once.
inline constexpr size_t records_most = 128 * kib;

/// Whether these are at most records_most bytes as getdents64(2) writes them, without "." and "..".
bool are_records(std::string_view bytes);

/// At most as long as `records`.
std::string pack_names(std::string_view records);
/// Nothing if pack_names() does not make such bytes of records_most or less.
std::optional<std::string> unpack_names(std::string_view packed);

}  // namespace warren::walk

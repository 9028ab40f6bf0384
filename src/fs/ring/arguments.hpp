// SPDX-License-Identifier: Apache-2.0
// The part of a command that does not fit into its cell: a block in the ring's arena that begins
// with an Arguments structure, followed by the groups, the name, the new name and the text, each at
// a multiple of 16. Their offsets are computed from their lengths, so a block contains no offset
// that could lead out of it.
//
// Invariant: the reader copies the block once and reads only the copy, so changes that the client
// makes afterwards have no effect.
#pragma once

#include <type_traits>

#include "fs/ops/command.hpp"

namespace warren::ring {

/// Ranges of the arena begin at multiples of this, and their lengths are rounded up to it.
inline constexpr u64 arena_granule = 64;
inline constexpr u64 arena_bytes_max = 16 * mib;

inline constexpr u32 name_bytes_max = 4096;  // a command with a longer one is Errc::invalid
inline constexpr u32 text_bytes_max = 64 * kib;

/// Processes share it: a change of it, or of AttributeChange, takes another protocol_version
/// (apps/fuse/control_protocol.hpp).
struct alignas(16) Arguments {
    u64 inode;
    u64 target_inode;
    u64 references;
    u64 from;
    u64 to;
    u64 length;
    u64 buffer_offset;  // in the arena, a multiple of arena_granule
    u64 buffer_bytes;   // 0: no buffer
    AttributeChange change;
    u32 target_generation;
    u32 device;
    u32 mode;
    u32 umask;
    u32 user;
    u32 group;
    i32 retry_reason;
    u32 group_count;
    u32 name_bytes;
    u32 new_name_bytes;
    u32 text_bytes;
    u32 zero;
};
static_assert(sizeof(Arguments) == 160 && std::has_unique_object_representations_v<Arguments>);

/// The offsets in the block of the parts that follow the structure.
struct ArgumentPlaces {
    u64 groups;
    u64 name;
    u64 new_name;
    u64 text;
    u64 end;  // the length of the block
};

WARREN_HD constexpr u64 padded(u64 bytes) {
    return (bytes + 15) / 16 * 16;
}

/// Requires: the lengths are within their bounds (are_bounded()).
WARREN_HD inline ArgumentPlaces places_of(const Arguments& arguments) {
    ArgumentPlaces places;
    places.groups = sizeof(Arguments);
    places.name = places.groups + padded(u64{arguments.group_count} * sizeof(u32));
    places.new_name = places.name + padded(arguments.name_bytes);
    places.text = places.new_name + padded(arguments.new_name_bytes);
    places.end = places.text + padded(arguments.text_bytes);
    return places;
}

WARREN_HD inline bool are_bounded(const Arguments& arguments) {
    return arguments.group_count <= core::groups_max && arguments.name_bytes <= name_bytes_max &&
           arguments.new_name_bytes <= name_bytes_max && arguments.text_bytes <= text_bytes_max;
}

/// The length of the longest possible block.
inline constexpr u64 block_bytes_max =
    sizeof(Arguments) + core::groups_max * sizeof(u32) + 2 * name_bytes_max + text_bytes_max;

/// A part of an arena.
struct ArenaRange {
    u64 offset = 0;
    u64 bytes = 0;
};

/// An arena, as mapped by the code that uses it.
struct Arena {
    std::byte* base = nullptr;
    u64 bytes = 0;

    WARREN_HD bool holds(const ArenaRange& range) const {
        return range.offset <= bytes && range.bytes <= bytes - range.offset;
    }
};

}  // namespace warren::ring

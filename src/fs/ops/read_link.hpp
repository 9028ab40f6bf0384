// SPDX-License-Identifier: Apache-2.0
// readlink(2): the target of a symbolic link, which lies in the inode, or in the inode and a block
// with the rest. A target never changes, but its inode may be removed meanwhile, so the version is
// confirmed last.
#pragma once

#include "fs/core/tree.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::ops {

using namespace warren::core;

/// Copies bytes that are stored as words. One lane.
WARREN_HD inline void copy_from_words(const u64* words, u32 length, char* target) {
    u64 word = 0;
    for (u32 i = 0; i < length; ++i) {
        if (i % 8 == 0) word = relaxed_load(words[i / 8]);
        target[i] = static_cast<char>(word >> i % 8 * 8);
    }
}

/// Reads the part of a long target that lies in a block of its own.
template <class Team>
WARREN_HD Errc read_link_rest(Operation<Team>& op, const InodeRef& inode, u32 length,
                              char* target) {
    const format::BlockPointer pointer{load(op.team, inode.at->area.words[0])};
    WARREN_TRY(op.confirm(inode.seen));
    if (!format::pointer_is_sound(pointer, false, op.store.size_bytes)) return Errc::corrupt;
    WARREN_LET(pinned, op.pin(pointer.offset()));
    auto& block = *reinterpret_cast<format::LinkTarget*>(*pinned);
    WARREN_TRY(
        require_own_block(op, *pinned, inode.seen, identity_of(BlockKind::link_target, inode)));
    const u32 found = load(op.team, block.length);
    WARREN_TRY(op.confirm(inode.seen));
    if (found != length) return Errc::corrupt;
    once(op.team, [&] {
        for (u32 i = 0; i < length; ++i) {
            target[i] = static_cast<char>(relaxed_load(block.bytes[i]));
        }
    });
    return Errc::ok;
}

/// Reads the target of a symbolic link; returns its length. Errc::invalid if the inode is not a
/// symbolic link, Errc::out_of_range if `capacity` is too small (4095 bytes always suffice).
template <class Team>
WARREN_HD Result<u64> read_link(Operation<Team>& op, Handle handle, char* target, u64 capacity) {
    WARREN_LET(inode, find_inode(op, handle));
    const u32 mode = load(op.team, inode->at->mode);
    const u64 size = load(op.team, inode->at->size);
    const u8 kind = load(op.team, inode->at->area_kind);
    WARREN_TRY(op.confirm(inode->seen));
    if (!format::is_symlink(mode)) return Errc::invalid;
    const bool is_long = kind == static_cast<u8>(AreaKind::target);
    if (!is_long && kind != static_cast<u8>(AreaKind::bytes)) return Errc::corrupt;
    const u64 shortest = is_long ? format::target_head_bytes + 1 : 1;
    const u64 longest = is_long ? format::target_length_max : format::area_bytes;
    if (size < shortest || size > longest) return Errc::corrupt;
    if (size > capacity) return Errc::out_of_range;
    const u64* words = inode->at->area.words;
    if (is_long) {
        once(op.team, [&] { copy_from_words(words + 1, format::target_head_bytes, target); });
        const u32 rest = static_cast<u32>(size) - format::target_head_bytes;
        WARREN_TRY(read_link_rest(op, *inode, rest, target + format::target_head_bytes));
    } else {
        once(op.team, [&] { copy_from_words(words, static_cast<u32>(size), target); });
    }
    WARREN_TRY(op.confirm(inode->seen));
    return size;
}

}  // namespace warren::ops

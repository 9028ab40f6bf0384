// SPDX-License-Identifier: Apache-2.0
// A task in the queue of a bulk step, packed into 16 bytes: a directory, a node of its tree, or a
// few of its leaves.
//
// Invariant: the subject of a task is never zero, because zero means "no task".
#pragma once

#include "base/host_device.hpp"
#include "fs/format/layout.hpp"

namespace warren::ops {

/// One piece of work. Requires: the volume has at most 2^32 blocks (volume_size_max).
struct TreeTask {
    static constexpr u8 directory_kind = 0;
    static constexpr u8 range_kind = 0x80;

    // Inode number of the directory (46 bits), two marks, index (8), kind or height of a node (8).
    u64 subject = 0;
    u64 part = 0;  // block number of the node (32 bits) and of its parent (32); 0: the root

    static constexpr u64 rooted_mark = u64{1} << 47;  // the directory is in the orphan directory
    static constexpr u64 must_mark = u64{1} << 46;    // processed even if the step is full

    static WARREN_HD TreeTask directory(u64 number, bool is_rooted = false) {
        return {number | (is_rooted ? rooted_mark : 0), 0};
    }
    /// The node at `place`, child number `index` of the node at `above`.
    static WARREN_HD TreeTask node(u64 number, u32 height, u64 place, u64 above, u32 index) {
        return {number | u64{index} << 48 | u64{height} << 56,
                place / format::block_size | above / format::block_size << 32};
    }
    /// The leaves that the node at `place` points to, from pair `begin` on.
    static WARREN_HD TreeTask range(u64 number, u64 place, u32 begin) {
        return {number | u64{begin} << 48 | u64{range_kind} << 56, place / format::block_size};
    }
    WARREN_HD u64 number() const { return subject & (must_mark - 1); }
    WARREN_HD u64 marks() const { return subject & (rooted_mark | must_mark); }
    WARREN_HD u32 index() const { return static_cast<u32>(subject >> 48 & 0xff); }
    WARREN_HD u8 kind() const { return static_cast<u8>(subject >> 56); }
    WARREN_HD bool is_rooted() const { return (subject & rooted_mark) != 0; }
    WARREN_HD u64 place() const { return (part & 0xffffffff) * format::block_size; }
    WARREN_HD u64 above() const { return (part >> 32) * format::block_size; }
};

}  // namespace warren::ops

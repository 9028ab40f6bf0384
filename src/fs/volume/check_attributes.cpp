// SPDX-License-Identifier: Apache-2.0
// A damaged attribute block is dropped as a whole: half of an access control list is worse than
// none.
#include "fs/volume/check_attributes.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "fs/volume/check_trees.hpp"

namespace warren::check {

using format::AttributeBlock;
using format::Block;

namespace {

constexpr u32 head_bytes = 4;

/// Whether the records fill what is in use, one behind the other, and no name is there twice.
bool are_records_good(const AttributeBlock& block) {
    const u32 used = block.bytes_used;
    if (used > sizeof block.records) return false;
    std::vector<std::string_view> names;
    for (u32 at = 0; at < used;) {
        if (used - at < head_bytes) return false;
        u16 lengths[2];
        std::memcpy(lengths, block.records + at, sizeof lengths);
        const u32 size = (head_bytes + u32{lengths[0]} + lengths[1] + 3) / 4 * 4;
        if (lengths[0] == 0 || lengths[0] > format::name_length_max || size > used - at) {
            return false;
        }
        names.emplace_back(reinterpret_cast<const char*>(block.records) + at + head_bytes,
                           lengths[0]);
        if (names.back().find('\0') != std::string_view::npos) return false;
        at += size;
    }
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) == names.end();
}

}  // namespace

u64 check_attributes(Context& context, u32 ordinal, const format::Inode& inode) {
    if (inode.attributes.raw == 0) return 0;
    TreeOwner owner = tree_owner(context, ordinal, inode);
    const u64 place = inode.attributes.offset();
    Block block;
    const bool is_good =
        is_good_pointer(context, inode.attributes, false) && context.read(place, block) &&
        is_sound_block(context, block, format::BlockKind::attributes, owner, place) &&
        are_records_good(reinterpret_cast<const AttributeBlock&>(block)) &&
        context.frames.claim(place, 1, FrameKind::metadata, context.trust(ordinal)) == 1;
    if (is_good) return 1;
    context.problem(ordinal, "its extended attributes are damaged");
    context.inodes.set(ordinal, mark_no_attributes);
    context.inodes.set(ordinal, mark_write);
    return 0;
}

}  // namespace warren::check

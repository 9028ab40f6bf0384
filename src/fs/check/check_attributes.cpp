// SPDX-License-Identifier: Apache-2.0
// A repair drops a damaged attribute block as a whole, because half of an access control list is
// worse than none.
#include "fs/check/check_attributes.hpp"

#include "fs/check/check_trees.hpp"
#include "fs/core/acl.hpp"

namespace warren::check {

using format::AttributeBlock;
using format::Block;

u64 check_attributes(Context& context, u32 ordinal, const format::Inode& inode) {
    if (inode.attributes.raw == 0) return 0;
    TreeOwner owner = tree_owner(context, ordinal, inode);
    const u64 place = inode.attributes.offset();
    Block block;
    const bool is_good =
        is_good_pointer(context, inode.attributes, false) && context.read(place, block) &&
        is_sound_block(context, block, format::BlockKind::attributes, owner, place) &&
        core::attributes_are_sound(reinterpret_cast<const AttributeBlock&>(block)) &&
        context.frames.claim(place, 1, FrameKind::metadata, context.trust(ordinal)) == 1;
    if (is_good) return 1;
    context.problem(ordinal, "its extended attributes are damaged");
    context.inodes.set(ordinal, mark_no_attributes);
    context.inodes.set(ordinal, mark_write);
    return 0;
}

}  // namespace warren::check

// SPDX-License-Identifier: Apache-2.0
// A path is built from its end: for each inode the leaf and the slot of its first name and the
// parent directory are known.
#include "fs/check/check_context.hpp"

#include <algorithm>
#include <cstring>

#include "base/quote.hpp"
#include "fs/check/directory_entries.hpp"
#include "fs/format/check_block.hpp"

namespace warren::check {

using format::Block;
using format::block_size;
using format::Inode;

namespace {

constexpr u32 path_depth_max = 64;

u64 block_of_inode(u64 number) {
    return number * format::inode_size / block_size * block_size;
}

/// The name in a slot, or "?" if the leaf can no longer be read or has changed since the check.
std::string name_in(Context& context, u64 place, u32 slot) {
    Block block;
    if (!context.read(place, block)) return "?";
    const auto& leaf = reinterpret_cast<const format::DirectoryLeaf&>(block);
    if (leaf.slots[slot].inode() == 0 || !has_name_within(leaf, slot)) return "?";
    return std::string(view_of(leaf, slot).name);
}

}  // namespace

bool Context::read(u64 place, Block& block) {
    return disk.read(place, block.bytes()) == Errc::ok;
}

bool Context::read_inode(u32 ordinal, Inode& inode) {
    const u64 number = inodes.number_of(ordinal);
    return disk.read(number * format::inode_size, std::as_writable_bytes(std::span(&inode, 1))) ==
           Errc::ok;
}

Errc Context::write_inode(u32 ordinal, const Inode& inode, u64 transaction) {
    const u64 number = inodes.number_of(ordinal);
    const u64 place = block_of_inode(number);
    const u32 slot = static_cast<u32>(number % format::inodes_per_block);
    Block alone{};
    reinterpret_cast<Inode*>(&alone)[slot] = inode;
    format::seal_inodes(alone, volume(), place, transaction);
    Block block;
    if (!read(place, block)) block = Block{};
    reinterpret_cast<Inode*>(&block)[slot] = reinterpret_cast<Inode*>(&alone)[slot];
    return disk.write(place, block.bytes());
}

Inode Context::usable_inode(u32 ordinal) {
    Inode inode{};
    const bool is_fresh = ordinal == fresh;
    if (!is_fresh && !read_inode(ordinal, inode)) inode = Inode{};
    if (is_fresh || (is_special(ordinal) && !format::is_directory(inode.mode))) {
        inode = Inode{};
        inode.mode = format::type_directory | (ordinal == root ? 0755u : 0700u);
        inode.area_kind = static_cast<u8>(format::AreaKind::tree);
        // A root with a height but no pairs is invalid, so the check will search for its leaves.
        inode.height = is_fresh ? 0 : 1;
    }
    return inode;
}

std::string path_of(Context& context, u32 ordinal) {
    const InodeMap& inodes = context.inodes;
    const std::string by_number = "inode " + std::to_string(inodes.number_of(ordinal));
    std::string path;
    u32 at = ordinal;
    for (u32 depth = 0; at != context.root; ++depth) {
        if (at == context.orphans) return "(orphans)" + quoted_if_needed(path);
        const bool has_name = inodes.name_blocks[at] != 0;
        if (!has_name || depth == path_depth_max) {
            return path.empty() ? by_number
                                : "(inode " + std::to_string(inodes.number_of(at)) + ")" +
                                      quoted_if_needed(path);
        }
        path.insert(0, "/" + name_in(context, u64{inodes.name_blocks[at]} * block_size,
                                     inodes.name_slots[at]));
        at = inodes.parents[at];
        if (at == nobody) return by_number;
    }
    return path.empty() ? "/" : quoted_if_needed(path);
}

}  // namespace warren::check

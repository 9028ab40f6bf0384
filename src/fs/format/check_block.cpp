// SPDX-License-Identifier: Apache-2.0
// Identity and checksums. They are computed only when a block is written to disk or read from it.
#include "fs/format/check_block.hpp"

#include <cstring>
#include <span>

#include "base/crc32c.hpp"
#include "base/zeros.hpp"
#include "fs/format/frame.hpp"

namespace warren::format {
namespace {

u32 block_crc(const Block& block) {
    const u32 zero = 0;
    const u32 start = crc32c(std::as_bytes(std::span(&zero, 1)));
    return crc32c(block.bytes().subspan(sizeof(u32)), start);
}

u32 inode_crc(const Inode& inode, u64 volume, u64 number) {
    const u64 identity[2] = {volume, number};
    Inode copy = inode;
    copy.crc = 0;
    copy.references = 0;
    return crc32c(std::as_bytes(std::span(&copy, 1)), crc32c(std::as_bytes(std::span(identity))));
}

}  // namespace

void seal_block(Block& block, u64 volume, u64 place, u64 transaction) {
    auto& header = reinterpret_cast<BlockHeader&>(block);
    if (header.kind == static_cast<u16>(BlockKind::inode_bitmap)) {
        auto& bitmap = reinterpret_cast<InodeBitmap&>(block);
        std::memset(bitmap.held, 0, sizeof bitmap.held);
    }
    header.volume = volume;
    header.place = place;
    header.transaction = transaction;
    header.crc = block_crc(block);
}

Errc check_block(const Block& block, BlockKind kind, u64 volume, u64 place) {
    const auto& header = reinterpret_cast<const BlockHeader&>(block);
    const bool sound = header.kind == static_cast<u16>(kind) && header.volume == volume &&
                       header.place == place && header.crc == block_crc(block);
    return sound ? Errc::ok : Errc::corrupt;
}

bool block_is_right(const Block& block) {
    return reinterpret_cast<const BlockHeader&>(block).crc == block_crc(block);
}

void seal_inodes(Block& block, u64 volume, u64 place, u64 transaction) {
    auto* inodes = reinterpret_cast<Inode*>(&block);
    for (u32 i = 0; i < inodes_per_block; ++i) {
        Inode& inode = inodes[i];
        if (inode.generation == 0) continue;
        inode.references = 0;
        inode.transaction = transaction;
        inode.crc = inode_crc(inode, volume, place / inode_size + i);
    }
}

bool inode_is_sound(const Inode& inode, u64 volume, u64 number) {
    if (inode.generation == 0) return is_all_zero(std::as_bytes(std::span(&inode, 1)));
    return inode.crc == inode_crc(inode, volume, number);
}

}  // namespace warren::format

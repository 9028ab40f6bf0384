// SPDX-License-Identifier: Apache-2.0
// What a block must look like follows from where it lies: its frame's kind says whether it holds
// inodes, an inode bitmap or a tree block, and the bitmaps say whether it holds anything yet.
#include "fs/cache/meta_loader.hpp"

#include <cstring>
#include <span>

#include "fs/core/frame_bits.hpp"
#include "fs/core/head_table.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/check_structure.hpp"

namespace warren {

using core::FrameOverlay;
using format::Block;
using format::BlockKind;
using format::FrameKind;

namespace {

bool is_tree_kind(u16 kind) {
    switch (static_cast<BlockKind>(kind)) {
        case BlockKind::directory_leaf:
        case BlockKind::directory_node:
        case BlockKind::extent_leaf:
        case BlockKind::extent_node:
        case BlockKind::attributes:
        case BlockKind::link_target:
            return true;
        default:
            return false;
    }
}

}  // namespace

Errc MetaLoader::load(u64 place) {
    if (store_.heads == nullptr) {
        std::lock_guard lock(mutex_);
        const u64 block = place / format::block_size;
        if (core::test_bit(store_.resident, block)) return Errc::ok;
        // The inodes of a frame are checked against its bitmap, which must be there first.
        const u64 frame_place = place / format::frame_size * format::frame_size;
        if (core::kind_of(store_, place / format::frame_size) == FrameKind::inodes &&
            place != frame_place &&
            !core::test_bit(store_.resident, frame_place / format::block_size)) {
            WARREN_TRY(fill(frame_place, *reinterpret_cast<Block*>(store_.base + frame_place)));
            // Release: pairs with the acquire in Operation::pin().
            device_atomic<u64>(store_.resident[frame_place / format::block_size / 64])
                .fetch_or(u64{1} << frame_place / format::block_size % 64,
                          hd::memory_order_release);
        }
        WARREN_TRY(fill(place, *reinterpret_cast<Block*>(store_.base + place)));
        // Release: pairs with the acquire in Operation::pin().
        device_atomic<u64>(store_.resident[block / 64])
            .fetch_or(u64{1} << block % 64, hd::memory_order_release);
        return Errc::ok;
    }
    if (pin(place) != nullptr) {
        unpin(place);
        return Errc::ok;
    }
    const u64 frame_place = place / format::frame_size * format::frame_size;
    const bool needs_bitmap =
        core::kind_of(store_, place / format::frame_size) == FrameKind::inodes &&
        place != frame_place;
    if (needs_bitmap) {
        for (;;) {
            WARREN_TRY(load(frame_place));
            if (pin(frame_place) != nullptr) break;
        }
    }
    Errc result = Errc::ok;
    {
        std::lock_guard lock(mutex_);
        const u32 found = core::link_head(*store_.heads, place);
        if (found != core::head_none) {
            core::unlink_head(*store_.heads, found);
        } else if (const Result<u32> head = find_victim(); !head) {
            result = head.code();
        } else {
            result = fill(place, store_.heads->blocks[*head]);
            if (result == Errc::ok) {
                core::insert_head(*store_.heads, *head, place);
                core::unlink_head(*store_.heads, *head);
            }
        }
    }
    if (needs_bitmap) unpin(frame_place);
    return result;
}

Errc MetaLoader::fill(u64 place, Block& block) {
    const u64 frame = place / format::frame_size;
    const FrameKind kind = core::kind_of(store_, frame);
    const u64 bit = place / format::block_size % format::blocks_per_frame;
    ++loads_;
    if (kind == FrameKind::inodes) {
        if (bit != 0) return fill_inodes(place, block);
        WARREN_TRY(disk_.read(place, std::as_writable_bytes(std::span(&block, 1))));
        return format::check_block(block, BlockKind::inode_bitmap, volume_, place);
    }
    if (kind != FrameKind::metadata && kind != FrameKind::free) return Errc::corrupt;
    const u64 used = relaxed_load(store_.frame(frame).used[bit / 64]);
    if (kind == FrameKind::free || (used >> bit % 64 & 1) == 0) {
        // Nothing is there yet: an operation is about to fill it, or has looked at a stale pointer.
        std::memset(&block, 0, sizeof block);
        return Errc::ok;
    }
    WARREN_TRY(disk_.read(place, std::as_writable_bytes(std::span(&block, 1))));
    const u16 found = reinterpret_cast<format::BlockHeader&>(block).kind;
    if (!is_tree_kind(found)) return Errc::corrupt;
    WARREN_TRY(format::check_block(block, static_cast<BlockKind>(found), volume_, place));
    const bool is_sound =
        format::structure_is_sound(block, static_cast<BlockKind>(found), store_.size_bytes);
    return is_sound ? Errc::ok : Errc::corrupt;
}

Errc MetaLoader::fill_inodes(u64 place, Block& block) {
    const u64 first = place / format::inode_size;
    const u32 slot = static_cast<u32>(first % format::inodes_per_frame);
    Block* bitmap_block = pin(place / format::frame_size * format::frame_size);
    if (bitmap_block == nullptr) return Errc::need_commit;
    const auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(bitmap_block);
    const u64 used = relaxed_load(bitmap.used[slot / 64]) >> slot % 64 & 0xffff;
    unpin(place / format::frame_size * format::frame_size);
    if (used == 0) {
        std::memset(&block, 0, sizeof block);
        return Errc::ok;
    }
    WARREN_TRY(disk_.read(place, std::as_writable_bytes(std::span(&block, 1))));
    auto* inodes = reinterpret_cast<format::Inode*>(&block);
    for (u32 i = 0; i < format::inodes_per_block; ++i) {
        const bool lives = (used >> i & 1) != 0 && inodes[i].generation != 0 &&
                           format::inode_is_sound(inodes[i], volume_, first + i) &&
                           format::area_is_sound(inodes[i], store_.size_bytes);
        if (!lives) inodes[i].generation = 0;
        inodes[i].references = 0;
    }
    return Errc::ok;
}

Result<u32> MetaLoader::find_victim() {
    const core::HeadTable& table = *store_.heads;
    for (u64 looked = 0; looked < u64{2} * table.head_count + 1; ++looked) {
        const u32 index = hand_;
        hand_ = (hand_ + 1) % table.head_count;
        core::Head& head = table.heads[index];
        if (head.place == core::place_none) return index;
        if (relaxed_load(head.links) != 0) continue;
        if (relaxed_load(head.used) != 0) {
            relaxed_store(head.used, 0);
            continue;
        }
        if (core::evict_head(table, index, store_.dirty)) return index;
    }
    return Errc::need_commit;
}

Block* MetaLoader::pin(u64 place) {
    if (store_.heads == nullptr) {
        const u64 block = place / format::block_size;
        // Acquire: pairs with the release in load().
        const u64 bits =
            device_atomic<u64>(store_.resident[block / 64]).load(hd::memory_order_acquire);
        return (bits >> block % 64 & 1) != 0 ? reinterpret_cast<Block*>(store_.base + place)
                                             : nullptr;
    }
    const u32 head = core::link_head(*store_.heads, place);
    return head == core::head_none ? nullptr : &store_.heads->blocks[head];
}

void MetaLoader::unpin(u64 place) {
    if (store_.heads == nullptr) return;
    const u32 head = core::link_head(*store_.heads, place);
    core::unlink_head(*store_.heads, head);
    core::unlink_head(*store_.heads, head);
}

}  // namespace warren

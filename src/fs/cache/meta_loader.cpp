// SPDX-License-Identifier: Apache-2.0
// What a block must look like follows from where it lies: its frame's kind says whether it holds
// inodes, an inode bitmap or a tree block, and the bitmaps say whether it holds anything yet.
#include "fs/cache/meta_loader.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/out_of_memory.hpp"
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

/// Makes `block` the resident one at `place` in the host's Store, which has the identity map.
void copy_in(const core::Store& store, u64 place, const Block& block) {
    auto& mine = *reinterpret_cast<Block*>(store.base + place);
    for (u32 i = 0; i < format::block_size / 8; ++i)
        relaxed_store(mine.words[i], block.words[i]);
    const u64 number = place / format::block_size;
    // Release: pairs with the acquire in MetaLoader::pin().
    device_atomic<u64>(store.resident[number / 64])
        .fetch_or(u64{1} << number % 64, hd::memory_order_release);
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

Errc MetaLoader::load_into(Engine& engine, u64 place) {
    std::lock_guard lock(mutex_);
    const u64 frame_place = place / format::frame_size * format::frame_size;
    const bool needs_bitmap =
        core::kind_of(store_, place / format::frame_size) == FrameKind::inodes &&
        place != frame_place;
    // While an inode's block is not in memory nobody changes the inode's bit.
    if (needs_bitmap) WARREN_TRY(bring_bitmap(engine, frame_place));
    Block block;
    WARREN_TRY(fill(place, block));
    ops::Evicted evicted;
    const Errc placed = engine.place_block(place, block, evicted);
    if (placed != Errc::ok) {
        keep_references(place, block);
        return placed;
    }
    if (evicted.place != core::place_none) keep_references(evicted.place, evicted.block);
    return Errc::ok;
}

/// Brings the host's copy of a bitmap of inodes up to date: with the engine's if it has one, else
/// with the disk's, which then is the newest.
Errc MetaLoader::bring_bitmap(Engine& engine, u64 place) {
    Block bitmap;
    const Errc read = engine.read_block(place, bitmap);
    if (read == Errc::ok) copy_in(store_, place, bitmap);
    if (read != Errc::need_block) return read;
    if (pin(place) != nullptr) return Errc::ok;
    WARREN_TRY(read_in(place, bitmap));
    copy_in(store_, place, bitmap);
    return Errc::ok;
}

Errc MetaLoader::fill(u64 place, Block& block) {
    ++loads_;
    const Errc code = read_in(place, block);
    if (code == Errc::ok) restore_references(place, block);
    return code;
}

/// Notes what only memory knows of a block that was evicted.
void MetaLoader::keep_references(u64 place, const Block& block) {
    const bool holds_inodes =
        core::kind_of(store_, place / format::frame_size) == FrameKind::inodes &&
        place % format::frame_size != 0;
    if (!holds_inodes) return;
    const auto* inodes = reinterpret_cast<const format::Inode*>(&block);
    std::vector<Kept> kept;
    for (u32 slot = 0; slot < format::inodes_per_block; ++slot) {
        const format::Inode& inode = inodes[slot];
        if (inode.references == 0) continue;
        kept.push_back({slot, inode.generation, inode.references});
        if (inode.generation == 0) {
            removed_.insert_or_assign(place / format::inode_size + slot, inode);
        }
    }
    if (!kept.empty()) kept_[place] = std::move(kept);
}

/// Puts back what keep_references() has noted.
void MetaLoader::restore_references(u64 place, Block& block) {
    const auto found = kept_.find(place);
    if (found == kept_.end()) return;
    auto* inodes = reinterpret_cast<format::Inode*>(&block);
    for (const Kept& kept : found->second) {
        format::Inode& inode = inodes[kept.slot];
        if (kept.generation == 0) {
            const auto removed = removed_.find(place / format::inode_size + kept.slot);
            inode = removed->second;
            removed_.erase(removed);
        }
        inode.references = kept.references;
    }
    kept_.erase(found);
}

/// Fills `block` with what the disk has at `place`, or with nothing.
Errc MetaLoader::read_in(u64 place, Block& block) {
    const Result<bool> is_written = holds_something(place);
    if (!is_written) return is_written.code();
    if (!*is_written) {
        std::memset(&block, 0, sizeof block);
        return Errc::ok;
    }
    WARREN_TRY(disk_.read(place, std::as_writable_bytes(std::span(&block, 1))));
    return accept(place, block);
}

/// The bits of the inodes in the block at `place` that are in use. Errc::need_commit if the bitmap
/// is not in memory.
Result<u64> MetaLoader::inodes_in_use(u64 place) {
    const u32 slot = static_cast<u32>(place / format::inode_size % format::inodes_per_frame);
    const u64 bitmap_place = place / format::frame_size * format::frame_size;
    Block* block = pin(bitmap_place);
    if (block == nullptr) return Errc::need_commit;
    const auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(block);
    const u64 used = relaxed_load(bitmap.used[slot / 64]) >> slot % 64 & 0xffff;
    unpin(bitmap_place);
    return used;
}

/// Whether the disk has something at `place`. If not, an operation is about to fill the block, or
/// has looked at a stale pointer.
Result<bool> MetaLoader::holds_something(u64 place) {
    const u64 frame = place / format::frame_size;
    const FrameKind kind = core::kind_of(store_, frame);
    const u64 bit = place / format::block_size % format::blocks_per_frame;
    if (kind == FrameKind::inodes) {
        if (bit == 0) return true;
        const Result<u64> used = inodes_in_use(place);
        if (!used) return used.code();
        return *used != 0;
    }
    if (kind == FrameKind::free) return false;
    if (kind != FrameKind::metadata) return Errc::corrupt;
    return (relaxed_load(store_.frame(frame).used[bit / 64]) >> bit % 64 & 1) != 0;
}

/// Checks what the disk had at `place`, and takes out what is not an inode.
Errc MetaLoader::accept(u64 place, Block& block) {
    const u64 bit = place / format::block_size % format::blocks_per_frame;
    if (core::kind_of(store_, place / format::frame_size) == FrameKind::inodes) {
        if (bit != 0) return accept_inodes(place, block);
        return format::check_block(block, BlockKind::inode_bitmap, volume_, place);
    }
    const u16 found = reinterpret_cast<format::BlockHeader&>(block).kind;
    if (!is_tree_kind(found)) return Errc::corrupt;
    WARREN_TRY(format::check_block(block, static_cast<BlockKind>(found), volume_, place));
    const bool is_sound =
        format::structure_is_sound(block, static_cast<BlockKind>(found), store_.size_bytes);
    return is_sound ? Errc::ok : Errc::corrupt;
}

Errc MetaLoader::accept_inodes(u64 place, Block& block) {
    const u64 first = place / format::inode_size;
    const Result<u64> used = inodes_in_use(place);
    if (!used) return used.code();
    auto* inodes = reinterpret_cast<format::Inode*>(&block);
    for (u32 i = 0; i < format::inodes_per_block; ++i) {
        const bool lives = (*used >> i & 1) != 0 && inodes[i].generation != 0 &&
                           format::inode_is_sound(inodes[i], volume_, first + i) &&
                           format::area_is_sound(inodes[i], store_.size_bytes);
        if (!lives) inodes[i].generation = 0;
        inodes[i].references = 0;
    }
    return Errc::ok;
}

void MetaLoader::load_frame(u64 frame) {
    constexpr u32 blocks = format::blocks_per_frame;
    const u64 first_place = frame * format::frame_size;
    const FrameKind kind = core::kind_of(store_, frame);
    if (kind != FrameKind::inodes && kind != FrameKind::metadata) return;
    auto* memory = reinterpret_cast<Block*>(store_.base + first_place);
    u64* resident = store_.resident + frame * (blocks / 64);
    if (std::any_of(resident, resident + blocks / 64, [](u64 word) { return word != 0; })) return;
    const auto show = [&](u32 block) {
        // Release: pairs with the acquire in Operation::pin().
        device_atomic<u64>(resident[block / 64])
            .fetch_or(u64{1} << block % 64, hd::memory_order_release);
    };
    u32 begin = 0;
    if (kind == FrameKind::inodes) {
        if (load(first_place) != Errc::ok) return;
        begin = 1;
    }
    const auto is_written = [&](u32 block) {
        const Result<bool> found = holds_something(first_place + block * format::block_size);
        return found && *found;
    };
    u32 end = blocks;
    while (end > begin && !is_written(end - 1))
        --end;
    const auto span = std::as_writable_bytes(std::span(memory + begin, end - begin));
    if (!span.empty() && disk_.read(first_place + begin * format::block_size, span) != Errc::ok) {
        std::memset(span.data(), 0, span.size());
        return;
    }
    for (u32 block = begin; block < blocks; ++block) {
        const bool was_read = block < end;
        if (is_written(block)) {
            // What cannot be right is looked at again by whoever wants it.
            const u64 place = first_place + block * format::block_size;
            if (accept(place, memory[block]) == Errc::ok) show(block);
            continue;
        }
        if (was_read) std::memset(&memory[block], 0, sizeof memory[block]);
        if (kind == FrameKind::inodes) show(block);
    }
}

void MetaLoader::adopt(u64 place, const Block& block) {
    // Not while somebody loads by what an engine says, which may be newer.
    const std::lock_guard lock(mutex_);
    copy_in(store_, place, block);
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
        const u64 place = head.place;
        if (!core::evict_head(table, index, store_.dirty)) continue;
        const Errc kept = or_no_memory([&] {
            keep_references(place, table.blocks[index]);
            return Errc::ok;
        });
        if (kept == Errc::ok) return index;
        core::insert_head(table, index, place);
        core::unlink_head(table, index);
        return kept;
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

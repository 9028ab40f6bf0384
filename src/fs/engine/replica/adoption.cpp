// SPDX-License-Identifier: Apache-2.0
// All version words are locked: a large batch changes inodes under nearly all.
#include "fs/engine/replica/adoption.hpp"

#include <algorithm>
#include <atomic>
#include <functional>

#include "fs/core/frozen_stripes.hpp"
#include "fs/core/permission.hpp"

namespace warren {

using format::Block;
using format::FrameKind;

namespace {

using LoneOperation = core::Operation<ThreadTeam>;

constexpr u64 blocks_at_once = 16;

const format::InodeBitmap& as_bitmap(const Block& block) {
    return reinterpret_cast<const format::InodeBitmap&>(block);
}

}  // namespace

bool Adoption::is_bitmap(u64 place) const {
    return place % format::frame_size == 0 &&
           core::kind_of(store_, place / format::frame_size) == FrameKind::inodes;
}

template <class Action>
void Adoption::each_entry(u64 place, const Block& block, const Action& action) const {
    const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
    const u64 first =
        (place - store_.frame_table_offset) / format::block_size * format::frames_per_table_block;
    for (u64 i = 0; i < format::frames_per_table_block && first + i < store_.frame_count; ++i)
        action(first + i, table.entries[i]);
}

bool Adoption::fits(const Replica::ForEach& for_each) const {
    std::atomic<bool> fit{true};
    for_parts(for_each, changes_.places.size(), blocks_at_once, [&](u64 i) {
        if (!fits(changes_.places[i], changes_.blocks[i]))
            fit.store(false, std::memory_order_relaxed);
    });
    return fit.load(std::memory_order_relaxed);
}

bool Adoption::fits(u64 place, const Block& block) const {
    if (place % format::block_size != 0 || place >= store_.size_bytes) return false;
    if (is_table(place)) {
        bool is_right = true;
        each_entry(place, block, [&](u64 frame, const format::FrameEntry& entry) {
            for (u32 w = 0; w < 8; ++w) {
                const Bits bits = bits_of(relaxed_load(store_.frame(frame).used[w]), entry.used[w]);
                is_right = is_right && (bits.taken & ~room_.blocks_in(frame, w)) == 0;
            }
        });
        return is_right;
    }
    const u64 frame = place / format::frame_size;
    const u64 in_frame = place / format::block_size % format::blocks_per_frame;
    if (core::kind_of(store_, frame) == FrameKind::metadata) {
        const bool is_new =
            (room_.blocks_in(frame, static_cast<u32>(in_frame / 64)) >> in_frame % 64 & 1) != 0;
        if (is_new) return true;
        if (!core::test_bit(store_.frame(frame).used, in_frame)) return false;
    } else if (core::kind_of(store_, frame) != FrameKind::inodes) {
        return false;
    }
    // A block that is not in memory may be being loaded, unless it is reserved for the run.
    if (!core::is_resident(store_, place)) return room_.is_new_block(place);
    if (!is_bitmap(place)) return true;
    const auto& here = core::block_at<format::InodeBitmap>(store_, place);
    for (u32 w = 0; w < core::bitmap_words; ++w) {
        const Bits bits = bits_of(relaxed_load(here.used[w]), as_bitmap(block).used[w]);
        if ((bits.taken & ~room_.numbers_in(frame, w)) != 0) return false;
    }
    return true;
}

void Adoption::apply(const Replica::ForEach& for_each) const {
    const u64 count = changes_.places.size();
    if (count == 0) return;
    for_parts(for_each, core::version_stripes, core::stripes_at_once,
              [&](u64 stripe) { core::lock_frozen_stripe(store_, stripe); });
    core::fence_release();  // pairs with fence_acquire() in Operation::unchanged()
    // Before their blocks are copied, in which their generations have ended.
    for_each(count, [&](u64 i) {
        core::fence_release();  // as above
        if (is_bitmap(changes_.places[i])) remove_inodes(changes_.places[i], changes_.blocks[i]);
    });
    for_parts(for_each, count, blocks_at_once, [&](u64 i) {
        core::fence_release();  // as above
        take_block(i);
    });
    for (u64 i = 0; i < count; ++i) {
        const u64 place = changes_.places[i];
        if (is_bitmap(place)) take_bitmap(place, changes_.blocks[i]);
        if (is_table(place)) {
            each_entry(place, changes_.blocks[i], [&](u64 frame, const format::FrameEntry& entry) {
                take_entry(frame, entry);
            });
        }
    }
    take_counters();
    unmark();
    for_parts(for_each, core::version_stripes, core::stripes_at_once,
              [&](u64 stripe) { core::unlock_frozen_stripe(store_, stripe); });
    core::check_step_credits(*store_.state);
}

/// Removes the inodes that the run has removed. It has held the numbers of those with references.
void Adoption::remove_inodes(u64 place, const Block& block) const {
    const u64 frame = place / format::frame_size;
    auto& bitmap = core::block_at<format::InodeBitmap>(store_, place);
    bool has_removed = false;
    for (u32 w = 0; w < core::bitmap_words; ++w) {
        u64 left = bits_of(relaxed_load(bitmap.used[w]), as_bitmap(block).used[w]).freed;
        has_removed = has_removed || left != 0;
        for (; left != 0; left &= left - 1) {
            const auto slot = static_cast<u64>(hd::countr_zero(left));
            const core::InodeRef inode =
                core::inode_at(store_, frame * format::inodes_per_frame + w * 64 + slot);
            const bool is_held = (as_bitmap(block).held[w] >> slot & 1) != 0;
            core::clear_inode_alone(store_, inode, relaxed_load(inode.at->generation), bitmap,
                                    is_held);
            // The image has the same.
            core::clear_bit(store_.changed, inode.block_place() / format::block_size);
        }
    }
    if (has_removed) core::set_bit(core::space_hints(store_, FrameKind::inodes), frame);
}

/// Takes over a block, unless only some of its words are taken, and marks it dirty.
void Adoption::take_block(u64 index) const {
    const u64 place = changes_.places[index];
    if (!is_table(place) && !is_bitmap(place)) {
        auto& target = core::block_at<Block>(store_, place);
        ops::CopyWords()(ThreadTeam{}, changes_.blocks[index], target);
        core::make_resident(store_, place);
    }
    LoneOperation(ThreadTeam{}, store_).mark_dirty(place);
}

void Adoption::take_bitmap(u64 place, const Block& block) const {
    auto& bitmap = core::block_at<format::InodeBitmap>(store_, place);
    for (u32 w = 0; w < core::bitmap_words; ++w) {
        const u64 taken = bits_of(relaxed_load(bitmap.used[w]), as_bitmap(block).used[w]).taken;
        if (taken == 0) continue;
        device_atomic<u64>(bitmap.used[w]).fetch_or(taken, hd::memory_order_relaxed);
    }
}

void Adoption::take_entry(u64 frame, const format::FrameEntry& entry) const {
    format::FrameEntry& here = store_.frame(frame);
    for (u32 w = 0; w < 8; ++w) {
        const Bits bits = bits_of(relaxed_load(here.used[w]), entry.used[w]);
        if (bits.taken != 0) {
            device_atomic<u64>(here.used[w]).fetch_or(bits.taken, hd::memory_order_relaxed);
        }
        if (bits.freed == 0) continue;
        const u64 first = frame * format::blocks_per_frame + w * 64;
        for (u64 left = relaxed_load(store_.dirty[first / 64]) & bits.freed; left != 0;
             left &= left - 1) {
            const u64 block = first + static_cast<u64>(hd::countr_zero(left));
            LoneOperation(ThreadTeam{}, store_).clear_dirty(block * format::block_size);
        }
        core::end_use_in_word(store_, frame, w, bits.freed);
    }
    if (relaxed_load(here.references) != entry.references) {
        // Release: pairs with the acquire in counts_pointer().
        device_atomic<u64>(here.references).store(entry.references, hd::memory_order_release);
    }
}

void Adoption::take_counters() const {
    core::StoreState& state = *store_.state;
    const core::StoreState& there = changes_.state;
    relaxed_store(state.blocks_used, there.blocks_used);
    relaxed_store(state.inodes_used, there.inodes_used);
    relaxed_store(state.generation, there.generation);
    if (there.rights_changes != 0) core::note_rights_change(store_, changes_.places[0]);
}

/// The image has these changes already.
void Adoption::unmark() const {
    for (const u64 place : changes_.places)
        core::clear_bit(store_.changed, place / format::block_size);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// All version words are locked: a large batch changes inodes under nearly all.
#include "fs/engine/replica/adoption.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>

#include "base/out_of_memory.hpp"
#include "base/phase.hpp"
#include "base/streaming_stores.hpp"
#include "fs/core/clear_inodes.hpp"
#include "fs/core/frozen_stripes.hpp"
#include "fs/core/permission.hpp"

namespace warren {

using format::Block;
using format::FrameKind;

namespace {

using LoneOperation = core::Operation<ThreadTeam>;

constexpr u64 blocks_at_once = 64;
constexpr u64 threads_max = 256;  // that may take part; late ones find nothing to do
constexpr u32 bitmap_parts = 4;   // of a bitmap, each of which a thread takes
static_assert(core::bitmap_words % bitmap_parts == 0);
constexpr u64 block_lines = format::block_size / line_bytes;
constexpr u64 inode_lines = format::inode_size / line_bytes;
static_assert(offsetof(format::Inode, generation) < line_bytes);

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

/// Whether the block at `place`, which fits, is one of FreeNumbers::new_blocks. It is not resident,
/// and reserved, so no thread shows it; but one that knows the number of an inode may look there.
bool Adoption::is_hidden(u64 place) const {
    return core::kind_of(store_, place / format::frame_size) == FrameKind::inodes &&
           !core::is_resident(store_, place);
}

/// Waits until the first `end` changed blocks are there, unless the memory has failed.
Errc Adoption::await(u64 end) {
    // Acquire: pairs with the release of the thread that has waited.
    while (arrived_.load(std::memory_order_acquire) < end) {
        if (const Errc code = failure_.load(std::memory_order_relaxed); code != Errc::ok)
            return code;
        const std::unique_lock lock(awaiting_, std::try_to_lock);
        if (!lock) {
            std::this_thread::yield();
        } else if (arrived_.load(std::memory_order_relaxed) < end) {
            const Errc code = or_no_memory([this]() -> Errc {
                WARREN_LET(arrived, memory_.await_changes());
                arrived_.store(*arrived, std::memory_order_release);
                return Errc::ok;
            });
            if (code != Errc::ok) failure_.store(code, std::memory_order_relaxed);
        }
    }
    return Errc::ok;
}

/// Checks changed blocks as they arrive, and copies those that are hidden, all but the first cache
/// line of each inode, which has its generation: without that, no inode seems to exist there.
void Adoption::receive(u64 begin, u64 end) {
    if (await(end) != Errc::ok) return;
    for (u64 i = begin; i < end; ++i) {
        if (!fits(changes_.places[i], changes_.blocks[i])) {
            fit_.store(false, std::memory_order_relaxed);
        } else if (is_hidden(changes_.places[i])) {
            copy_inode_lines(i, 1, inode_lines - 1);
        }
    }
    fence_streamed();
}

Errc Adoption::apply(const Replica::ForEach& for_each) {
    const u64 count = changes_.places.size();
    if (count == 0) return Errc::ok;
    Phase receiving(count, blocks_at_once);
    Phase locking(core::version_stripes, core::stripes_at_once);
    Phase removing(count * bitmap_parts, blocks_at_once);
    Phase taking(count, blocks_at_once);
    Phase ending(1, 1);
    Phase unlocking(core::version_stripes, core::stripes_at_once);
    const auto is_sound = [this] {
        return failure_.load(std::memory_order_relaxed) == Errc::ok &&
               fit_.load(std::memory_order_relaxed);
    };
    const auto take_part = [&](u64) {
        receiving.run_ranges([&](u64 first, u64 last) noexcept { receive(first, last); });
        if (!is_sound()) return;
        locking.run([&](u64 stripe) noexcept { core::lock_frozen_stripe(store_, stripe); });
        // Both pair with fence_acquire() in Operation::unchanged().
        core::fence_release();
        fence_streamed();
        // Before their blocks are copied, in which their generations have ended. The parts of a
        // bitmap are far from each other, for different threads.
        removing.run([&](u64 i) noexcept {
            const u64 place = changes_.places[i % count];
            if (!is_bitmap(place)) return;
            remove_inodes(place, changes_.blocks[i % count], static_cast<u32>(i / count));
        });
        taking.run_ranges([&](u64 first, u64 last) noexcept { take_blocks(first, last); });
        ending.run([&](u64) noexcept { take_the_rest(); });
        unlocking.run([&](u64 stripe) noexcept { core::unlock_frozen_stripe(store_, stripe); });
    };
    for_each(threads_max, std::ref(take_part));
    // Asked again, a memory that has failed tells this thread the reason.
    if (failure_.load(std::memory_order_relaxed) != Errc::ok) return memory_.await_changes().code();
    if (!is_sound()) return Errc::corrupt;
    core::check_step_credits(*store_.state);
    return Errc::ok;
}

/// Removes the inodes that the run has removed, those of a part of the bitmap. The run has held the
/// numbers of those with references.
void Adoption::remove_inodes(u64 place, const Block& block, u32 part) const {
    const u64 frame = place / format::frame_size;
    const auto& bitmap = core::block_at<format::InodeBitmap>(store_, place);
    const format::InodeBitmap& there = as_bitmap(block);
    constexpr u32 words = core::bitmap_words / bitmap_parts;
    bool has_removed = false;
    for (u32 w = part * words; w < (part + 1) * words; ++w) {
        const u64 removed = bits_of(relaxed_load(bitmap.used[w]), there.used[w]).freed;
        if (removed == 0) continue;
        has_removed = true;
        // Whole lines would differ from those of the image.
        const u64 held = there.held[w] & removed;
        core::end_generations(store_, frame, w, removed, held, false);
        core::free_inodes_alone(store_, frame, w, removed, held);
        for (u64 slot = 0; slot < 64; slot += format::inodes_per_block)
            unmark(place + (u64{w} * 64 + slot) * format::inode_size);
    }
    if (has_removed) core::set_bit(core::space_hints(store_, FrameKind::inodes), frame);
}

/// Copies some of the cache lines of each inode of a block.
void Adoption::copy_inode_lines(u64 i, u64 first, u64 count) const {
    const std::span<const std::byte> from = changes_.blocks[i].bytes();
    const std::span<std::byte> to = target_of(i).bytes();
    for (u64 at = first * line_bytes; at < format::block_size; at += format::inode_size)
        copy_lines(&from[at], &to[at], count);
}

/// Takes over blocks, except where only some of their words are taken, and marks them dirty: those
/// of a word of the bitmaps, which follow each other, at once, so that threads seldom change the
/// same cache line.
void Adoption::take_blocks(u64 begin, u64 end) const {
    const auto block_of = [&](u64 i) { return changes_.places[i] / format::block_size; };
    for (u64 i = begin; i < end;) {
        const u64 word = block_of(i) / 64;
        u64 dirty = 0;
        u64 filled = 0;
        for (; i < end && block_of(i) / 64 == word; ++i) {
            const u64 place = changes_.places[i];
            const u64 bit = u64{1} << block_of(i) % 64;
            dirty |= bit;
            if (is_table(place) || is_bitmap(place)) continue;
            if (is_hidden(place)) {
                // What receive() has left. The version words are locked.
                copy_inode_lines(i, 0, 1);
            } else {
                copy_lines(&changes_.blocks[i], &target_of(i), block_lines);
            }
            filled |= bit;
        }
        fence_streamed();
        if (filled != 0) core::make_word_resident(store_, word, filled);
        LoneOperation(ThreadTeam{}, store_).mark_word_dirty(word, dirty);
    }
}

/// Takes over the words of bitmaps and of the frame table, and the counters.
void Adoption::take_the_rest() const {
    for (u64 i = 0; i < changes_.places.size(); ++i) {
        const u64 place = changes_.places[i];
        if (is_bitmap(place)) take_bitmap(place, changes_.blocks[i]);
        if (is_table(place)) {
            each_entry(place, changes_.blocks[i], [&](u64 frame, const format::FrameEntry& entry) {
                take_entry(frame, entry);
            });
        }
    }
    take_counters();
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
    if (there.rights_changes == 0) return;
    core::note_rights_change(store_, changes_.places[0]);
    unmark(changes_.places[0]);
}

/// The image has the change of the block at `place` already.
void Adoption::unmark(u64 place) const {
    core::clear_bit(store_.changed, place / format::block_size);
}

}  // namespace warren

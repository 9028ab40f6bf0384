// SPDX-License-Identifier: Apache-2.0
// A round copies blocks beside the operations that change them. A copy may be torn then, but the
// operation began after the swap and marks the block again, so a later round replaces the copy. The
// last round copies with the barrier closed.
#include "fs/engine/replica/replica.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/check.hpp"
#include "base/out_of_memory.hpp"

namespace warren {

Replica::Replica(const core::Store& store, Freeze freeze, ForEach for_each, MakeMemory make_memory)
    : store_(store),
      freeze_(std::move(freeze)),
      for_each_(std::move(for_each)),
      make_memory_(std::move(make_memory)),
      taken_(store) {
    WARREN_CHECK(store.changed != nullptr && store.heads == nullptr);
}

Errc Replica::read(const Reader& reader, bool may_load) {
    // A version that ends later than this has all changes that ended before it.
    const u64 seen = version();
    for (;;) {
        {
            std::shared_lock hold(image_);
            if (is_current(seen)) return reader(memory_->image(), hold);
        }
        const std::lock_guard alone(image_);
        if (is_released() && !may_load) return Errc::not_supported;
        if (!is_current(seen)) WARREN_TRY(send_version());
    }
}

Errc Replica::change(u64 blocks, const Changer& changer, bool may_load) {
    const std::lock_guard alone(image_);
    if (is_released() && !may_load) return Errc::not_supported;
    return send_version(&changer, blocks);
}

Errc Replica::make_ready() {
    const std::lock_guard alone(image_);
    return take_memory();
}

Errc Replica::refresh() {
    const std::lock_guard alone(image_);
    return send_version();
}

void Replica::release() {
    const std::lock_guard alone(image_);
    memory_.reset();
    stage_ = {};
    staged_count_ = 0;
    is_complete_ = false;
    is_released_.store(true, std::memory_order_relaxed);
    mark_resident();  // so marked() tells what the next version would send
}

ReplicaFigures Replica::figures() {
    const std::shared_lock reading(image_);
    return figures_;
}

/// Whether the image has all changes that had ended when its version was `seen`.
bool Replica::is_current(u64 seen) const {
    return is_complete_ && (version() > seen || !taken_.is_any_marked());
}

/// Requires: image_ alone.
Errc Replica::take_memory() {
    if (memory_ != nullptr) return Errc::ok;
    return or_no_memory([this] { return make_memory_(memory_); });
}

/// Makes a version and then, in the same moment, the changes of `changer`. Requires: image_ alone.
Errc Replica::send_version(const Changer* changer, u64 blocks) {
    if (!taken_.is_open()) return Errc::no_memory;
    WARREN_TRY(take_memory());
    if (changer != nullptr) {
        const Errc code = or_no_memory([&] { return memory_->prepare_changes(blocks); });
        if (code != Errc::ok) return code == Errc::no_memory ? Errc::no_space : code;
    }
    if (!std::exchange(is_complete_, false)) {
        ++figures_.complete_loads;
        staged_count_ = 0;  // of a refresh that failed
        stage_ = {};
        mark_resident();
    }
    const auto take = [this] { taken_.take(); };
    for (u32 i = 0; i < rounds_max && taken_.marked() >= frozen_blocks_max; ++i) {
        freeze_(take);
        WARREN_TRY(send_taken(for_each_));
    }
    // With the barrier closed no other thread is waited for.
    const ForEach alone = [](u64 count, const std::function<void(u64)>& body) {
        for (u64 i = 0; i < count; ++i)
            body(i);
    };
    const auto finish = [this] { return memory_->finish(values_); };
    Errc sent = Errc::ok;
    Errc changed = Errc::ok;
    freeze_([&] {
        taken_.take();
        sent = send_taken(alone);
        end_version();
        if (changer == nullptr || sent != Errc::ok) return;
        sent = or_no_memory(finish);
        if (sent != Errc::ok) return;
        changed = (*changer)(*memory_);
        end_version();
    });
    WARREN_TRY(sent);
    if (changer == nullptr) WARREN_TRY(or_no_memory(finish));
    is_complete_ = changed == Errc::ok;
    is_released_.store(false, std::memory_order_relaxed);
    return changed;
}

/// Marks all blocks that are in memory: what becomes resident later is marked by the thread that
/// loads it.
void Replica::mark_resident() {
    const u64 table_end = store_.frame_table_offset + ops::table_bytes(store_);
    for (u64 at = store_.frame_table_offset; at < table_end; at += format::block_size)
        core::note_changed(store_, at);
    const u64 end = relaxed_load(store_.state->metadata_frames_end);
    for (u64 frame = 0; frame < end; ++frame)
        if (format::holds_metadata(core::kind_of(store_, frame)))
            core::note_frame_changed(store_, frame);
}

/// The moment of the version. The freeze barrier is closed.
void Replica::end_version() {
    const core::StoreState& state = *store_.state;
    values_ = {relaxed_load(state.metadata_frames_end), relaxed_load(state.blocks_used),
               relaxed_load(state.inodes_used)};
    // Release: a reader that sees the number knows that its changes were taken.
    version_.fetch_add(1, std::memory_order_release);
}

/// Copies the taken blocks and sends them, with `for_each`.
Errc Replica::send_taken(const ForEach& for_each) {
    const Errc drained = taken_.drain([&](u64 word, u64 bits) -> Errc {
        const u64 first = word * 64;
        const u64 gone = taken_.gone(word, bits);
        if (gone != 0) {
            WARREN_TRY(make_room(for_each));
            drop(staged_count_++, word, gone);
        }
        for (u64 left = bits & ~gone; left != 0; left &= left - 1) {
            WARREN_TRY(make_room(for_each));
            const u64 block = first + static_cast<u64>(hd::countr_zero(left));
            stage_.places[staged_count_++] = block * format::block_size;
        }
        return Errc::ok;
    });
    return drained == Errc::ok ? send_stage(for_each) : drained;
}

/// Makes room in the stage for one more block.
Errc Replica::make_room(const ForEach& for_each) {
    if (staged_count_ < stage_.places.size()) return Errc::ok;
    WARREN_TRY(send_stage(for_each));
    return or_no_memory([this] { return memory_->open_stage(stage_); });
}

Errc Replica::send_stage(const ForEach& for_each) {
    const u64 count = std::exchange(staged_count_, 0);
    if (count == 0) return Errc::ok;
    figures_.blocks_sent += count;
    const Errc sent = or_no_memory([&] {
        for_parts(for_each, count, copied_at_once, [&](u64 at) { stage_block(at); });
        return memory_->send(count);
    });
    stage_ = {};
    return sent;
}

/// Lets the image drop blocks of a word of the bitmaps.
void Replica::drop(u64 at, u64 word, u64 bits) const {
    stage_.places[at] = word * 64 * format::block_size + places_dropped;
    stage_.blocks[at].words[0] = bits;
}

void Replica::stage_block(u64 at) const {
    const u64 place = stage_.places[at];
    if (place % format::block_size == places_dropped) return;
    const format::Block* const from = source_of(place);
    if (from == nullptr) {
        const u64 block = place / format::block_size;
        drop(at, block / 64, u64{1} << block % 64);
    } else {
        ops::CopyWords()(ThreadTeam{}, *from, stage_.blocks[at]);
    }
}

/// The memory of a marked block; null if the image drops it: a block that is not in use is marked
/// again by the operation that takes it, and one that is not resident by the thread that loads it.
/// The image must not keep it: a handle of an inode that is gone may lead there once the frame is
/// used for inodes again, of which only resident blocks are wiped or taken out of memory.
const format::Block* Replica::source_of(u64 place) const {
    if (ops::is_table_place(store_, place)) {
        const u64 index = (place - store_.frame_table_offset) / format::block_size;
        return reinterpret_cast<const format::Block*>(&store_.frame_table[index]);
    }
    const u64 block = place / format::block_size;
    const u64 frame = block / format::blocks_per_frame;
    const u64 in_frame = block % format::blocks_per_frame;
    const bool is_used = core::test_bit(store_.frame(frame).used, in_frame);
    if (!is_used || !core::is_resident(store_, place)) return nullptr;
    return reinterpret_cast<const format::Block*>(store_.base + place);
}

}  // namespace warren

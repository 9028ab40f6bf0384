// SPDX-License-Identifier: Apache-2.0
// A round copies blocks beside the operations that change them. A copy may be torn then, but the
// operation began after the swap and marks the block again, so a later round replaces the copy. The
// last round copies with the barrier closed.
#include "fs/engine/replica/replica.hpp"

#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/check.hpp"
#include "base/out_of_memory.hpp"

namespace warren {

using format::FrameKind;

namespace {

bool holds_metadata(FrameKind kind) {
    return kind == FrameKind::inodes || kind == FrameKind::metadata;
}

}  // namespace

Replica::Replica(const core::Store& store, std::unique_ptr<ReplicaMemory> memory, Freeze freeze)
    : store_(store),
      memory_(std::move(memory)),
      freeze_(std::move(freeze)),
      taken_(store),
      staged_(std::make_unique_for_overwrite<format::Block[]>(staged_max)) {
    WARREN_CHECK(store.changed != nullptr && store.heads == nullptr);
}

Errc Replica::read(const Reader& reader) {
    // A version that ends later than this has all changes that ended before it.
    const u64 seen = version();
    for (;;) {
        {
            const std::shared_lock reading(image_);
            if (is_current(seen)) return reader(memory_->image());
        }
        const std::lock_guard alone(image_);
        if (!is_current(seen)) WARREN_TRY(send_version());
    }
}

Errc Replica::refresh() {
    const std::lock_guard alone(image_);
    return send_version();
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
Errc Replica::send_version() {
    if (!taken_.is_open()) return Errc::no_memory;
    if (!std::exchange(is_complete_, false)) mark_resident();
    const auto take = [this] { taken_.take(); };
    for (u32 i = 0; i < rounds_max && taken_.marked() >= frozen_blocks_max; ++i) {
        freeze_(take);
        ++figures_.rounds;
        WARREN_TRY(stage_taken());
    }
    Errc staged = Errc::ok;
    freeze_([&] {
        taken_.take();
        const u64 before = figures_.blocks_sent;
        staged = stage_taken();
        figures_.blocks_frozen += figures_.blocks_sent - before;
        end_version();
    });
    WARREN_TRY(staged);
    WARREN_TRY(flush());
    WARREN_TRY(or_no_memory([this] { return memory_->set_values(values_); }));
    is_complete_ = true;
    ++figures_.versions;
    return Errc::ok;
}

/// Marks all blocks that are in memory: what becomes resident later is marked by the thread that
/// loads it.
void Replica::mark_resident() {
    ++figures_.complete_loads;
    staged_count_ = 0;  // of a refresh that failed
    const u64 table_end = store_.frame_table_offset + ops::table_bytes(store_);
    for (u64 at = store_.frame_table_offset; at < table_end; at += format::block_size)
        core::note_changed(store_, at);
    const u64 end = relaxed_load(store_.state->metadata_frames_end);
    for (u64 frame = 0; frame < end; ++frame)
        if (holds_metadata(core::kind_of(store_, frame))) core::note_frame_changed(store_, frame);
}

/// The moment of the version. The freeze barrier is closed.
void Replica::end_version() {
    const core::StoreState& state = *store_.state;
    values_ = {relaxed_load(state.metadata_frames_end), relaxed_load(state.blocks_used),
               relaxed_load(state.inodes_used)};
    // Release: a reader that sees the number knows that its changes were taken.
    version_.fetch_add(1, std::memory_order_release);
}

/// Copies the taken blocks; the last of them stay staged.
Errc Replica::stage_taken() {
    return taken_.drain([this](u64 place) { return stage(place); });
}

Errc Replica::stage(u64 place) {
    const format::Block* const from = source_of(place);
    if (from == nullptr) return Errc::ok;
    if (staged_count_ == staged_max) WARREN_TRY(flush());
    places_[staged_count_] = place;
    ops::CopyWords()(ThreadTeam{}, *from, staged_[staged_count_]);
    ++staged_count_;
    ++figures_.blocks_sent;
    return Errc::ok;
}

Errc Replica::flush() {
    const u64 count = std::exchange(staged_count_, 0);
    if (count == 0) return Errc::ok;
    return or_no_memory(
        [&] { return memory_->send(std::span(places_).first(count), staged_.get()); });
}

/// The memory of a marked block; null if it need not be sent: a block that is not in use is marked
/// again by the operation that takes it, and one that is not resident by the thread that loads it.
const format::Block* Replica::source_of(u64 place) const {
    if (ops::is_table_place(store_, place)) {
        const u64 index = (place - store_.frame_table_offset) / format::block_size;
        return reinterpret_cast<const format::Block*>(&store_.frame_table[index]);
    }
    const u64 block = place / format::block_size;
    const u64 frame = block / format::blocks_per_frame;
    const u64 in_frame = block % format::blocks_per_frame;
    const bool is_used = core::test_bit(store_.frame(frame).used, in_frame);
    // Acquire: pairs with the release of the thread that made the block resident.
    const u64 resident =
        device_atomic<u64>(store_.resident[block / 64]).load(hd::memory_order_acquire);
    if (!is_used || (resident >> block % 64 & 1) == 0) return nullptr;
    return reinterpret_cast<const format::Block*>(store_.base + place);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Copying happens with the gate closed and is all that operations wait for; checksums, the journal
// and the places come after it opened again.
#include "fs/volume/committer.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "fs/core/allocator.hpp"
#include "fs/format/check_block.hpp"
#include "fs/ops/inode_frame.hpp"

namespace warren {

using format::Block;
using format::FrameKind;

namespace {

constexpr u64 blocks_per_buffer = 256;
// What contents leave to metadata of a transaction, as the smallest meta buffer does.
constexpr u64 metadata_room_min = 64;

u64 volume_id(const format::Superblock& superblock) {
    u64 id;
    std::memcpy(&id, superblock.uuid, sizeof id);
    return id;
}

}  // namespace

Committer::Committer(Disk& disk, const core::Store& store, MetaLoader& loader,
                     format::Superblock& superblock)
    : disk_(disk),
      store_(store),
      loader_(loader),
      superblock_(superblock),
      journal_(disk, superblock),
      transaction_(superblock.header.transaction) {
    // Dirty blocks cannot leave a meta buffer: most of it must stay for those that are read.
    const u64 capacity = journal_.capacity_blocks() - 1;
    const u64 heads = store_.heads == nullptr ? ~u64{0} : store_.heads->head_count;
    store_.state->journal_room = std::min(capacity, heads / 4);
}

u64 Committer::data_capacity_blocks() const {
    const u64 capacity = journal_.capacity_blocks() - 1;
    return capacity - std::min(capacity, std::max(metadata_room_min, capacity / 2));
}

void Committer::keep_data(FileBuffer* buffer, DataMode mode) {
    file_buffer_ = buffer;
    mode_ = mode;
    if (!logs_data()) return;
    const u64 room = journal_.capacity_blocks() - 1 - data_capacity_blocks();
    store_.state->journal_room = std::min(store_.state->journal_room, room);
}

void Committer::close_gate() {
    core::StoreState& state = *store_.state;
    // Sequentially consistent: pairs with Operation::enter_gate().
    device_atomic<u32>(state.gate_closed).store(1, hd::memory_order_seq_cst);
    for (core::GateSlot& slot : state.gate) {
        // Acquire within seq_cst: pairs with the release in leave_gate().
        while (device_atomic<u64>(slot.inside).load(hd::memory_order_seq_cst) != 0) {
            std::this_thread::yield();
        }
    }
}

void Committer::open_gate() {
    // Release: pairs with the sequentially consistent load in enter_gate().
    device_atomic<u32>(store_.state->gate_closed).store(0, hd::memory_order_release);
}

void Committer::pause_with(std::function<Errc()> pause, std::function<Errc()> resume) {
    pause_ = std::move(pause);
    resume_ = std::move(resume);
}

void Committer::forbid(Errc error) {
    Errc none = Errc::ok;
    error_.compare_exchange_strong(none, error, std::memory_order_relaxed);
}

template <class Action>
Errc Committer::while_paused(const Action& action) {
    if (!pause_) {
        action();
        return Errc::ok;
    }
    WARREN_TRY(pause_());
    action();
    return resume_();
}

/// Notes the error; operations apply nothing any more.
Errc Committer::fail(Errc error) {
    forbid(error);
    const auto stop = [this] { relaxed_store(store_.state->read_only, 1); };
    if (while_paused(stop) != Errc::ok) stop();
    return this->error();
}

Errc Committer::commit() {
    std::lock_guard lock(mutex_);
    if (error() != Errc::ok) return error();
    const Errc collected = while_paused([this] {
        // While the engine was on its way to the pause, somebody may have forbidden this.
        if (error() != Errc::ok) return;
        close_gate();
        collect();
        collect_data();
        // With the gate closed, so that what was noted before an apply is seen with the apply.
        const bool has_fresh = has_fresh_data_.exchange(false, std::memory_order_relaxed);
        const bool comes_first = has_fresh && mode_ == DataMode::ordered;
        fresh_data_ = comes_first ? FreshData::yes : FreshData::no;
        open_gate();
    });
    if (collected != Errc::ok) return fail(collected);
    if (error() != Errc::ok) return error();
    if (copies_.empty() && data_copies_.empty()) {
        Errc flushed = write_data_back();
        if (flushed == Errc::ok) flushed = disk_.flush();
        return flushed == Errc::ok ? Errc::ok : fail(flushed);
    }
    Errc committed = commit_dirty();
    if (committed != Errc::ok) committed = fail(committed);
    release_pins();
    copies_.clear();
    data_copies_.clear();
    buffered_ = 0;
    return committed;
}

/// Makes the copies durable and publishes what has become free.
Errc Committer::commit_dirty() {
    seal();
    WARREN_TRY(write_data_back());
    WARREN_TRY(write());
    if (logs_data()) file_buffer_->end_logged();
    return while_paused([this] {
        publish_frees();
        end_empty_inode_frames();
    });
}

bool Committer::is_table_place(u64 place) const {
    return place >= superblock_.frame_table_offset &&
           place <
               superblock_.frame_table_offset + superblock_.frame_table_blocks * format::block_size;
}

const Block* Committer::memory_of(u64 place) {
    if (is_table_place(place)) {
        const u64 index = (place - superblock_.frame_table_offset) / format::block_size;
        return reinterpret_cast<const Block*>(&store_.frame_table[index]);
    }
    return loader_.pin(place);  // dirty, so resident; release_pins() lets go
}

/// Memory for one more copy.
Block& Committer::next_copy() {
    if (buffered_ % blocks_per_buffer == 0 && buffered_ / blocks_per_buffer == buffers_.size()) {
        buffers_.push_back(std::make_unique<Block[]>(blocks_per_buffer));
    }
    Block& copy = buffers_[buffered_ / blocks_per_buffer][buffered_ % blocks_per_buffer];
    ++buffered_;
    return copy;
}

/// With DataMode::journal, copies the contents that were written since the last commit. The gate is
/// closed.
void Committer::collect_data() {
    if (!logs_data()) return;
    file_buffer_->log_dirty([this](u64 place, const Block& block) {
        // Bytes that came for an operation which then took other blocks may lie where metadata are
        // by now.
        if (core::kind_of(store_, place / format::frame_size) != FrameKind::data) return false;
        Block& copy = next_copy();
        copy = block;
        data_copies_.push_back({place, &copy});
        return true;
    });
}

/// Brings contents to their places; where a journal does that, there is nothing to do.
Errc Committer::write_data_back() {
    return file_buffer_ == nullptr || logs_data() ? Errc::ok : file_buffer_->write_back();
}

void Committer::take_copy(u64 place) {
    Block& copy = next_copy();
    const Block* from = memory_of(place);
    for (u64 i = 0; i < format::block_size / 8; ++i)
        copy.words[i] = relaxed_load(from->words[i]);
    copies_.push_back({place, &copy});
}

void Committer::collect_frame(u64 frame) {
    for (u64 w = 0; w < format::blocks_per_frame / 64; ++w) {
        const u64 index = frame * (format::blocks_per_frame / 64) + w;
        const u64 dirty = relaxed_load(store_.dirty[index]);
        for (u64 bits = dirty; bits != 0; bits &= bits - 1) {
            const u64 block = index * 64 + static_cast<u64>(std::countr_zero(bits));
            take_copy(block * format::block_size);
        }
        // Only now, with the blocks pinned: a clean one may be evicted at any moment.
        device_atomic<u64>(store_.dirty[index]).fetch_and(~dirty, hd::memory_order_relaxed);
    }
}

/// Calls `action(frame, entry)` for each frame whose entry is in a copy.
template <class Action>
void Committer::for_each_table_entry(const Action& action) const {
    for (const Copy& copy : copies_) {
        if (!is_table_place(copy.place)) continue;
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(*copy.block);
        const u64 first = (copy.place - superblock_.frame_table_offset) / format::block_size *
                          format::frames_per_table_block;
        for (u64 i = 0; i < format::frames_per_table_block; ++i) {
            if (first + i < store_.frame_count) action(first + i, table.entries[i]);
        }
    }
}

/// Copies all dirty blocks. The gate is closed.
void Committer::collect() {
    const u64 words = store_.frame_count / 64 + 1;
    for (u64 w = 0; w < words; ++w) {
        u64 bits = device_atomic<u64>(store_.dirty_frames[w]).exchange(0, hd::memory_order_relaxed);
        for (; bits != 0; bits &= bits - 1) {
            collect_frame(w * 64 + static_cast<u64>(std::countr_zero(bits)));
        }
    }
    keep_from_reuse();
    core::StoreState& state = *store_.state;
    relaxed_store(state.dirty_blocks, 0);
    superblock_.metadata_frames_end = relaxed_load(state.metadata_frames_end);
    superblock_.data_frames_begin = relaxed_load(state.data_frames_begin);
    superblock_.blocks_used = relaxed_load(state.blocks_used);
    superblock_.inodes_used = relaxed_load(state.inodes_used);
    superblock_.generation = relaxed_load(state.generation);
}

/// What this commit holds in use counts as committed from now on, although it is not durable yet:
/// if it is freed meanwhile, nobody may write to it before the commit that frees it.
void Committer::keep_from_reuse() {
    for_each_table_entry([this](u64 frame, const format::FrameEntry& entry) {
        for (u32 w = 0; w < 8; ++w) {
            device_atomic<u64>(store_.overlays[frame].committed[w])
                .fetch_or(entry.used[w], hd::memory_order_relaxed);
        }
    });
}

/// Gives every copy its identity, transaction and checksum, and adds the superblock.
void Committer::seal() {
    const u64 volume = volume_id(superblock_);
    ++transaction_;
    for (const Copy& copy : copies_) {
        const u64 in_frame = copy.place / format::block_size % format::blocks_per_frame;
        const bool holds_inodes =
            in_frame != 0 && !is_table_place(copy.place) &&
            core::kind_of(store_, copy.place / format::frame_size) == FrameKind::inodes;
        if (holds_inodes) {
            format::seal_inodes(*copy.block, volume, copy.place, transaction_);
            continue;
        }
        if (is_table_place(copy.place)) {
            auto& header = reinterpret_cast<format::BlockHeader&>(*copy.block);
            header.kind = static_cast<u16>(format::BlockKind::frame_table);
        }
        format::seal_block(*copy.block, volume, copy.place, transaction_);
    }
    superblock_.clean = 0;
    auto& block = reinterpret_cast<Block&>(superblock_);
    format::seal_block(block, volume, format::superblock_offset, transaction_);
}

Errc Committer::write() {
    std::vector<SealedBlock> sealed;
    sealed.reserve(copies_.size() + data_copies_.size() + 1);
    const auto* superblock = reinterpret_cast<const Block*>(&superblock_);
    sealed.push_back({format::superblock_offset, superblock});
    for (const Copy& copy : copies_)
        sealed.push_back({copy.place, copy.block});
    for (const Copy& copy : data_copies_)
        sealed.push_back({copy.place, copy.block});
    WARREN_TRY(journal_.write(transaction_, sealed, fresh_data_));
    return journal_.write_places(sealed);
}

/// Tells the allocator and the disk what is free for good now.
void Committer::publish_frees() {
    for_each_table_entry(
        [this](u64 frame, const format::FrameEntry& entry) { publish_frame(frame, entry); });
}

void Committer::publish_frame(u64 frame, const format::FrameEntry& committed) {
    const auto kind = static_cast<FrameKind>(committed.kind);
    core::FrameOverlay& overlay = store_.overlays[frame];
    if (kind == FrameKind::free && relaxed_load(overlay.committed[0]) != 0) {
        return publish_free_frame(frame);
    }
    if (kind != FrameKind::data && kind != FrameKind::metadata) return;
    u64 freed[8];
    bool freed_some = false;
    bool empty = true;
    for (u32 w = 0; w < 8; ++w) {
        freed[w] = relaxed_load(overlay.committed[w]) & ~committed.used[w];
        freed_some = freed_some || freed[w] != 0;
        empty = empty && committed.used[w] == 0;
    }
    if (freed_some) discard_runs(frame, freed);
    for (u32 w = 0; w < 8; ++w) {
        // Release: pairs with the acquire in reserve_bits(): the discard comes before a new use.
        device_atomic<u64>(overlay.committed[w]).store(committed.used[w], hd::memory_order_release);
    }
    if (!freed_some) return;
    core::set_bit(core::room_of(store_, kind), frame);
    if (!empty || !core::release_frame(store_, frame)) return;
    core::Operation<ThreadTeam> op(ThreadTeam{}, store_);
    op.mark_dirty(store_.table_place(frame));
}

/// A frame that held inodes is free for good.
void Committer::publish_free_frame(u64 frame) {
    static_cast<void>(disk_.discard(frame * format::frame_size, format::frame_size));
    for (u64& word : store_.overlays[frame].committed)
        relaxed_store(word, 0);
    core::unclaim_frame(store_, frame);
}

/// Lets frames go whose last inode went with this commit.
void Committer::end_empty_inode_frames() {
    for (const Copy& copy : copies_) {
        const auto& bitmap = reinterpret_cast<const format::InodeBitmap&>(*copy.block);
        if (bitmap.header.kind != static_cast<u16>(format::BlockKind::inode_bitmap)) continue;
        u64 used = 0;
        for (u32 w = 0; w < ops::bitmap_words; ++w)
            used |= bitmap.used[w] & ops::inode_bits(w);
        if (used != 0 || copy.place % format::frame_size != 0) continue;
        core::Operation<ThreadTeam> op(ThreadTeam{}, store_);
        // If somebody is at work there, the frame stays one of inodes.
        static_cast<void>(ops::end_inode_frame(op, copy.place / format::frame_size));
        core::finish(op);
    }
}

/// Tells the disk that the blocks of a frame whose bits are set hold nothing any more. A hint: what
/// the disk makes of it changes nothing for the volume.
void Committer::discard_runs(u64 frame, const u64 (&freed)[8]) {
    u32 block = 0;
    while (block < format::blocks_per_frame) {
        const u64 bits = freed[block / 64] >> block % 64;
        if (bits == 0) {
            block = (block / 64 + 1) * 64;
            continue;
        }
        block += static_cast<u32>(std::countr_zero(bits));
        u32 end = block;
        while (end < format::blocks_per_frame && (freed[end / 64] >> end % 64 & 1) != 0)
            ++end;
        const u64 place = frame * format::frame_size + block * format::block_size;
        const u64 length = (end - block) * format::block_size;
        if (file_buffer_ != nullptr) file_buffer_->forget(place, length);
        static_cast<void>(disk_.discard(place, length));
        block = end;
    }
}

void Committer::release_pins() {
    for (const Copy& copy : copies_) {
        if (!is_table_place(copy.place)) loader_.unpin(copy.place);
    }
}

}  // namespace warren

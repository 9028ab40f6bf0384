// SPDX-License-Identifier: Apache-2.0
// Operations wait only while the freeze barrier is closed for copying. Checksums, the journal and
// the writes to home locations follow after it has opened again.
//
// Copied blocks are pinned until they have been written to their home locations. They count as
// clean, and an evicted block would be read back from the disk, which is out of date until then.
#include "fs/commit/committer.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/notice.hpp"
#include "base/out_of_memory.hpp"
#include "base/stopwatch.hpp"
#include "fs/commit/empty_inode_frames.hpp"
#include "fs/commit/free_frames.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/core/allocator.hpp"
#include "fs/format/check_block.hpp"
#include "fs/ops/inode_frame.hpp"

namespace warren {

using format::Block;
using format::FrameKind;

namespace {

using Clock = std::chrono::steady_clock;

// Logged contents leave this many blocks of a transaction to metadata.
constexpr u64 metadata_room_min = core::journal_room_min;
// One block of each transaction is the superblock.
static_assert(Journal::capacity(format::journal_blocks_min / 2) - 1 >= core::journal_room_min);
// How much memory for copies is kept between commits; a larger commit gives the rest back.
constexpr u64 kept_copies_bytes = 16 * mib;
// After this long without a commit a volume is idle.
constexpr std::chrono::seconds idle_time{1};

/// Returns Errc::io and writes to the log if an operation that is part of the snapshot has dirtied
/// more blocks than its credits (core/journal_credits.hpp), and so has made the volume read-only.
/// The snapshot must not become durable then.
Errc refuse_overrun(const ops::CutCounters& counters) {
    if (counters.overrun_blocks == 0) return Errc::ok;
    static_cast<void>(or_no_memory([&] {
        notice("an operation dirtied more metadata blocks (" +
               std::to_string(counters.overrun_blocks) + ") than it had reserved in the journal (" +
               std::to_string(counters.overrun_credits) +
               "); the volume is read-only and keeps what was last committed; this is a bug in "
               "Warren, please report it");
    }));
    return Errc::io;
}

}  // namespace

Committer::Committer(Disk& disk, const core::Store& store, MetaLoader& loader,
                     format::Superblock& superblock)
    : disk_(disk),
      store_(store),
      loader_(loader),
      superblock_(superblock),
      journal_(disk, superblock),
      publisher_(disk, store),
      transaction_(superblock.header.transaction),
      last_generation_(relaxed_load(store.state->generation)),
      generation_limit_(superblock.generation) {
    relaxed_store(store_.state->generation_limit, generation_limit_);
    // Dirty blocks cannot be evicted from a buffer cache, and most of it must remain for reads.
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
    publisher_.keep_data(buffer);
    if (!logs_data()) return;
    const u64 room = journal_.capacity_blocks() - 1 - data_capacity_blocks();
    store_.state->journal_room = std::min(store_.state->journal_room, room);
}

void Committer::close_barrier() {
    core::StoreState& state = *store_.state;
    // Sequentially consistent: pairs with JournalCredits::pass_barrier().
    device_atomic<u32>(state.barrier_closed).store(1, hd::memory_order_seq_cst);
    for (core::BarrierSlot& slot : state.freeze_barrier) {
        // Acquire within seq_cst: pairs with the release in JournalCredits::leave().
        while (device_atomic<u64>(slot.inside).load(hd::memory_order_seq_cst) != 0) {
            std::this_thread::yield();
        }
    }
}

void Committer::open_barrier() {
    // Release: pairs with the sequentially consistent load in
    // JournalCredits::pass_barrier().
    device_atomic<u32>(store_.state->barrier_closed).store(0, hd::memory_order_release);
}

void Committer::freeze(const std::function<void()>& action) {
    const std::lock_guard no_steps(steps_);
    if (engine_ == nullptr) close_barrier();
    action();
    if (engine_ == nullptr) open_barrier();
}

void Committer::use_engine(EngineMemory& engine, WithoutPieces without_pieces) {
    engine_ = &engine;
    publisher_.use_engine(engine);
    without_pieces_ = std::move(without_pieces);
}

CommitFigures Committer::figures() const {
    const std::lock_guard lock(figures_mutex_);
    return figures_;
}

bool Committer::has_unsaved() const {
    return error() != Errc::ok || has_data_.load(std::memory_order_relaxed) ||
           relaxed_load(store_.state->dirty_blocks) != 0 ||
           (file_buffer_ != nullptr && file_buffer_->figures().dirty_blocks != 0);
}

void Committer::forbid(Errc error) {
    Errc none = Errc::ok;
    error_.compare_exchange_strong(none, error, std::memory_order_relaxed);
}

/// Ends all changes to the volume because of `error`; returns the error that did so first.
Errc Committer::fail(Errc error) {
    end_changes_(error);
    return this->error();
}

Errc Committer::commit() {
    const std::lock_guard lock(mutex_);
    const u64 before = transaction_;
    WARREN_TRY(commit_once());
    const auto now = Clock::now();
    if (transaction_ != before) {
        last_commit_ = now;
        may_give_back_ = true;
    } else if (may_give_back_ && now - last_commit_ >= idle_time) {
        may_give_back_ = false;
        return give_back_memory();
    }
    return Errc::ok;
}

/// Releases memory that an idle volume does not need: that for copies, and that of empty frames.
/// Requires: mutex_ is held, and nothing is dirty.
Errc Committer::give_back_memory() {
    area_.give_back(0);
    data_area_.give_back(0);
    if (engine_ != nullptr) return Errc::ok;
    WARREN_TRY(or_no_memory([this] { return end_empty_inode_frames(false); }));
    if (publisher_.ended_frames()) WARREN_TRY(commit_once());
    if (store_.heads == nullptr) give_back_free_frames(store_);
    return Errc::ok;
}

Errc Committer::commit_and_free(bool looks_on_disk) {
    const std::lock_guard lock(mutex_);
    WARREN_TRY(commit_once());
    WARREN_TRY(or_no_memory([&] { return end_empty_inode_frames(looks_on_disk); }));
    return publisher_.ended_frames() ? commit_once() : Errc::ok;
}

/// Frees empty inode frames that the commit of their last removal did not free: because the kernel
/// still had references to one of their inodes, or because it was the last commit before a crash.
Errc Committer::end_empty_inode_frames(bool looks_on_disk) {
    const core::StoreState& state = *store_.state;
    if (!may_have_empty_inode_frame(state)) return Errc::ok;
    const u64 end = relaxed_load(state.metadata_frames_end);
    const auto each_frame = [&](const auto& look) {
        for (u64 frame = 0; frame < end; ++frame)
            if (core::kind_of(store_, frame) == FrameKind::inodes) look(frame);
    };
    std::vector<u64> empty;
    empty.reserve(end);
    if (looks_on_disk && engine_ == nullptr) {
        // An error is ignored: an operation that needs the block will report it.
        each_frame([&](u64 frame) { static_cast<void>(loader_.load(frame * format::frame_size)); });
    }
    // An operation that removes an inode first clears its bit and then marks the bitmap dirty:
    // between the two the frame would look empty and clean.
    freeze([&] {
        each_frame([&](u64 frame) {
            if (!ops::has_dirty_block(store_, frame) && is_empty_inode_frame(loader_, frame))
                empty.push_back(frame);
        });
    });
    for (const u64 frame : empty)
        WARREN_TRY(publisher_.end_inode_frame(frame));
    return publisher_.publish_noted();
}

/// Requires: mutex_ is held.
Errc Committer::commit_once() {
    if (error() != Errc::ok) return error();
    std::unique_lock is_taking(snapshot_mutex_);
    WARREN_TRY(take_memory());  // on failure everything stays dirty
    const auto contents = keep_contents(file_buffer_);
    const Errc taken = take_copies();
    is_taking.unlock();
    if (taken == Errc::no_memory) return taken;
    // If forbid() was called meanwhile, its caller has handled that error.
    if (taken != Errc::ok) return error() != Errc::ok ? error() : fail(taken);
    if (error() != Errc::ok) {
        static_cast<void>(release_copies());
        return error();
    }
    const bool raises_generation = superblock_.generation != generation_limit_;
    if (copies_.empty() && data_copies_.empty() && !raises_generation) {
        // log_dirty() may have found only blocks that are no longer contents of a file.
        if (logs_data()) file_buffer_->end_logged();
        data_area_.give_back(kept_copies_bytes);
        const Errc flushed = or_no_memory([this] {
            WARREN_TRY(write_data_back());
            return disk_.flush();
        });
        return flushed == Errc::ok ? Errc::ok : fail(flushed);
    }
    Errc committed = or_no_memory([this] { return commit_dirty(); });
    const Errc released = or_no_memory([this] { return release_copies(); });
    if (committed == Errc::ok) committed = released;
    if (committed != Errc::ok) committed = fail(committed);
    copies_.clear();
    data_copies_.clear();
    area_.give_back(kept_copies_bytes);
    data_area_.give_back(kept_copies_bytes);
    return committed;
}

/// Makes the copies durable and publishes the freed blocks.
Errc Committer::commit_dirty() {
    seal();
    WARREN_TRY(write_data_back());
    WARREN_TRY(write());
    if (logs_data()) file_buffer_->end_logged();
    WARREN_TRY(allow_generations());
    return publisher_.publish(copies_);
}

/// Allows generations up to the limit of the superblock, which is durable now.
Errc Committer::allow_generations() {
    if (superblock_.generation == generation_limit_) return Errc::ok;
    generation_limit_ = superblock_.generation;
    if (engine_ != nullptr) return engine_->allow_generations(generation_limit_);
    relaxed_store(store_.state->generation_limit, generation_limit_);
    return Errc::ok;
}

/// Collects the rest of the snapshot: logged contents, and whether there are fresh file data.
/// Called while no operation applies.
void Committer::note_rest() {
    collect_data();
    // Acquire: pairs with the release in note_data().
    has_data_.exchange(false, std::memory_order_acquire);
    // Relaxed: a flag that was set before an apply is visible to a thread that sees the apply.
    const bool has_fresh = has_fresh_data_.exchange(false, std::memory_order_relaxed);
    const bool comes_first = has_fresh && mode_ == DataMode::ordered;
    fresh_data_ = comes_first ? FreshData::yes : FreshData::no;
}

/// Allocates the memory that a commit needs, because after the snapshot a failed allocation could
/// not be undone. For copies it reserves the addresses of a whole transaction, which take no memory
/// until they are used.
Errc Committer::take_memory() {
    return or_no_memory([this] {
        const auto reserve = [](ReservedRange& area, u64 blocks) {
            if (area.data() == nullptr) area = ReservedRange(blocks * format::block_size);
            return area.data() != nullptr;
        };
        const u64 data = logs_data() ? area_blocks_ : 0;
        if (!reserve(area_, area_blocks_)) return Errc::no_memory;
        if (data != 0 && !reserve(data_area_, data)) return Errc::no_memory;
        publisher_.take_memory();
        places_.resize(area_blocks_);
        copies_.reserve(area_blocks_);
        data_copies_.reserve(data);
        sealed_.reserve(area_blocks_ + data + 1);
        return Errc::ok;
    });
}

/// Prepares memory and threads to copy the blocks that are dirty, and some more. Called with the
/// freeze barrier open, because touching fresh memory takes longer than copying into it.
void Committer::expect_copies() {
    const u64 expected = with_margin(relaxed_load(store_.state->dirty_blocks));
    area_.populate(expected * format::block_size);
    gatherers_.prepare(expected);
}

void Committer::expect_data_copies() {
    if (logs_data())
        data_area_.populate(with_margin(file_buffer_->figures().dirty_blocks) * format::block_size);
}

/// Takes a snapshot of all dirty blocks. On Errc::no_memory no block was copied and all stay dirty.
Errc Committer::take_copies() {
    const Errc taken = engine_ == nullptr ? take_copies_here() : take_copies_of(*engine_);
    if (taken != Errc::ok) return taken;
    // Writers reserve room (FileBuffer::take_room()), but an operation that was started again may
    // have written to two places.
    if (1 + copies_.size() + data_copies_.size() > area_blocks_) return Errc::no_space;
    const std::lock_guard lock(figures_mutex_);
    figures_.blocks = copies_.size();
    return Errc::ok;
}

Errc Committer::take_copies_here() {
    const ThreadTeam team;
    ops::CutHeader header{};
    const ops::CutArea area{area_.as<Block>(), places_.data(), area_blocks_, &header};
    expect_data_copies();
    {
        expect_copies();
        const std::lock_guard no_steps(steps_);
        expect_copies();  // again, because a bulk step may have dirtied more
        const Stopwatch held;
        close_barrier();
        ops::list_dirty(team, store_, area, {});
        gatherers_.gather(store_, area);
        note_rest();
        open_barrier();
        const std::lock_guard lock(figures_mutex_);
        figures_.held_ns = held.nanoseconds();
    }
    // Journal credits keep a snapshot from being larger.
    if (header.count > area_blocks_) return Errc::no_space;
    return note_copies(header.counters, header.count);
}

/// As take_copies_here(), but of blocks in an engine's memory.
Errc Committer::take_copies_of(EngineMemory& engine) {
    CommitSnapshot cut{places_};
    const auto take = [&] {
        // Another thread may have called forbid() meanwhile.
        return error() != Errc::ok ? error() : engine.cut([this] { note_rest(); }, cut);
    };
    expect_data_copies();
    {
        const std::lock_guard no_steps(engine.steps());
        WARREN_TRY(or_no_memory([&] { return without_pieces_(take); }));
    }
    // The engine counts the blocks as clean already, so without the copies the changes are lost.
    if (engine.fetch_cut(area_.as<Block>()) != Errc::ok) return Errc::io;
    WARREN_TRY(note_copies(cut.counters, cut.count));
    adopt_copies();
    // Contents may have been left out, which what is erased here must not hide.
    if (data_copies_.size() == area_blocks_) return Errc::no_space;
    // The host knows only from the adopted frame table which frames hold contents.
    std::erase_if(data_copies_, [this](const CommitCopy& copy) { return !holds_data(copy.place); });
    const std::lock_guard lock(figures_mutex_);
    figures_.held_ns = cut.held_ns;
    return Errc::ok;
}

/// Takes over the counters of a snapshot and lists its `count` copies by place, so that blocks that
/// are contiguous on disk are written at once.
Errc Committer::note_copies(const ops::CutCounters& counters, u64 count) {
    WARREN_TRY(refuse_overrun(counters));
    superblock_.metadata_frames_end = counters.metadata_frames_end;
    superblock_.data_frames_begin = counters.data_frames_begin;
    superblock_.blocks_used = counters.blocks_used;
    superblock_.inodes_used = counters.inodes_used;
    last_generation_ = counters.generation;
    raise_generation(superblock_, last_generation_);
    Block* const blocks = area_.as<Block>();
    for (u64 i = 0; i < count; ++i)
        copies_.push_back({places_[i], &blocks[i]});
    std::ranges::sort(copies_, {}, &CommitCopy::place);
    return Errc::ok;
}

/// Updates the host's Store from the copy of a block of the frame table.
void Committer::adopt_table(u64 place, const Block& block) {
    const u64 index = (place - superblock_.frame_table_offset) / format::block_size;
    const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
    const u64 first = index * format::frames_per_table_block;
    for (u64 i = 0; i < format::frames_per_table_block && first + i < store_.frame_count; ++i) {
        // The blocks of a former inode frame stay in use until the commit that frees it is durable.
        const bool ends = table.entries[i].kind == static_cast<u64>(FrameKind::free) &&
                          core::kind_of(store_, first + i) == FrameKind::inodes;
        if (!ends) continue;
        for (u64& word : store_.overlays[first + i].committed)
            relaxed_store(word, ~u64{0});
    }
    core::CopyWords()(ThreadTeam{}, block, reinterpret_cast<Block&>(store_.frame_table[index]));
    ops::keep_from_reuse(ThreadTeam{}, store_, place, block);
}

/// Updates the frame table and the inode bitmaps of the host's Store from the engine's snapshot.
/// From them the loader knows what the disk holds.
void Committer::adopt_copies() {
    for (const CommitCopy& copy : copies_) {
        if (ops::is_table_place(store_, copy.place)) adopt_table(copy.place, *copy.block);
    }
    for (const CommitCopy& copy : copies_) {
        if (copy.place % format::frame_size != 0 || ops::is_table_place(store_, copy.place))
            continue;
        if (core::kind_of(store_, copy.place / format::frame_size) != FrameKind::inodes) continue;
        loader_.adopt(copy.place, *copy.block);
    }
}

/// Whether `place` lies in a data frame. Contents in the file buffer may not: an operation that was
/// started again may have chosen other blocks, and its first ones may hold metadata since.
bool Committer::holds_data(u64 place) const {
    return core::kind_of(store_, place / format::frame_size) == FrameKind::data;
}

/// With DataMode::journal, copies the contents that were written since the last commit. Called
/// behind the closed freeze barrier.
void Committer::collect_data() {
    if (!logs_data()) return;
    file_buffer_->log_dirty([this](u64 place, const Block& block) {
        if (engine_ == nullptr && !holds_data(place)) return false;
        if (data_copies_.size() == area_blocks_) return true;  // take_copies() reports it
        Block& copy = data_area_.as<Block>()[data_copies_.size()];
        copy = block;
        data_copies_.push_back({place, &copy});
        return true;
    });
}

/// Writes buffered contents to their blocks, except with DataMode::journal.
Errc Committer::write_data_back() {
    return file_buffer_ == nullptr || logs_data() ? Errc::ok : file_buffer_->write_back();
}

/// Gives every copy its identity, transaction and checksum, and adds the superblock.
void Committer::seal() {
    const u64 volume = format::volume_of(superblock_);
    ++transaction_;
    for (const CommitCopy& copy : copies_) {
        const u64 in_frame = copy.place / format::block_size % format::blocks_per_frame;
        const bool holds_inodes =
            in_frame != 0 && !ops::is_table_place(store_, copy.place) &&
            core::kind_of(store_, copy.place / format::frame_size) == FrameKind::inodes;
        if (holds_inodes) {
            format::seal_inodes(*copy.block, volume, copy.place, transaction_);
            continue;
        }
        if (ops::is_table_place(store_, copy.place)) {
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
    sealed_.clear();
    sealed_.push_back({format::superblock_offset, reinterpret_cast<const Block*>(&superblock_)});
    for (const CommitCopy& copy : copies_)
        sealed_.push_back({copy.place, copy.block});
    for (const CommitCopy& copy : data_copies_)
        sealed_.push_back({copy.place, copy.block});
    WARREN_TRY(journal_.write(transaction_, sealed_, fresh_data_));
    return journal_.write_places(sealed_);
}

/// Lets the buffer cache, if there is one, evict the copied blocks.
Errc Committer::release_copies() {
    if (engine_ != nullptr) return engine_->release_cut();
    ops::release_cut(ThreadTeam{}, store_, places_.data(), copies_.size(), {});
    return Errc::ok;
}

}  // namespace warren

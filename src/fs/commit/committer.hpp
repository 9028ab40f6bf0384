// SPDX-License-Identifier: Apache-2.0
// The commit: makes all metadata that operations changed since the last one durable together. The
// committer closes the freeze barrier while it copies the dirty blocks, and opens it again before
// it writes anything. Bulk steps take longer than a command, so it waits for them before it closes
// the barrier; commands continue meanwhile.
//
// An engine with its own memory takes the copies there. The host's Store then has the frame table
// and the inode bitmaps as of the last snapshot, which the loader needs.
//
// Invariant: a snapshot contains whole operations, never a part of one. A freed block can be reused
// only when the commit that freed it is durable.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fair_lock.hpp"
#include "base/reserved_range.hpp"
#include "fs/cache/file_buffer.hpp"
#include "fs/cache/meta_loader.hpp"
#include "fs/commit/free_publisher.hpp"
#include "fs/commit/gatherers.hpp"
#include "fs/commit/journal.hpp"
#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/engine/engine_memory.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Figures of the last commit.
struct CommitFigures {
    u64 blocks = 0;
    u64 held_ns = 0;  // how long the barrier was closed, or the engine began no command
};

class Committer {
 public:
    /// Requires: all arguments outlive this. `superblock` is the durable one, and its generation
    /// was raised at opening.
    Committer(Disk& disk, const core::Store& store, MetaLoader& loader,
              format::Superblock& superblock);

    /// Sets the function that stops all changes after an error, forbid() included. Call before the
    /// first commit.
    void on_failure(std::function<void(Errc error)> end_changes) {
        end_changes_ = std::move(end_changes);
    }

    /// Calls `action` while no thread is writing the bytes of an ops::Piece: with such an engine a
    /// file shows its new blocks before their bytes are written.
    using WithoutPieces = std::function<Errc(const std::function<Errc()>& action)>;
    /// Commits the metadata in the memory of `engine`, which outlives this.
    void use_engine(EngineMemory& engine, WithoutPieces without_pieces);

    /// Sets how many threads may copy blocks while the freeze barrier is closed; the default is 1.
    void copy_with(u32 threads) { gatherers_.set_width(threads); }

    /// Sets the buffer of file contents, which outlives this, and how a commit makes them durable.
    /// Call before the first commit. Requires: with DataMode::journal, a buffer whose dirty blocks
    /// wait for the commit.
    void keep_data(FileBuffer* buffer, DataMode mode);
    /// How many blocks of contents one transaction can hold with DataMode::journal.
    u64 data_capacity_blocks() const;

    /// Makes everything applied so far durable, file data included. A call at least a second after
    /// the last commit that wrote something, with nothing to commit, releases unused memory once.
    Errc commit();
    /// As commit(), and also frees empty inode frames: one that the commit finds empty becomes free
    /// with a second commit. With `looks_on_disk` it loads bitmaps that are not in memory, to find
    /// all of them; not with an engine that has its own memory.
    Errc commit_and_free(bool looks_on_disk);
    /// If a commit is under way, waits until it has taken its snapshot, which makes room in the
    /// journal. False if there is none.
    bool await_snapshot() {
        if (const std::unique_lock idle(mutex_, std::try_to_lock); idle.owns_lock()) return false;
        const std::lock_guard until_taken(snapshot_mutex_);
        return true;
    }
    /// Call after file data were written to disk. FreshData::yes: they did not replace data that
    /// were visible; then call it before they become visible.
    void note_data(FreshData fresh_data) {
        if (fresh_data == FreshData::yes) has_fresh_data_.store(true, std::memory_order_relaxed);
        // Release: pairs with the acquire in note_rest(), so the commit's flush covers the write.
        has_data_.store(true, std::memory_order_release);
    }
    /// Call before a file is given blocks that another shows, with that file's data lock held: what
    /// was written in place there since the last flush is fresh to the file that gets the blocks.
    void note_shared_data() {
        if (has_data_.load(std::memory_order_relaxed))
            has_fresh_data_.store(true, std::memory_order_relaxed);
    }
    /// Whether a commit would make a change durable, or return an error. With an engine that has
    /// its own memory: as of the last EngineMemory::refresh_counters().
    bool has_unsaved() const;
    /// Makes commits fail with `error`, so that nothing applied from now on becomes durable. A
    /// commit that has taken its snapshot may still complete.
    void forbid(Errc error);

    /// The error that ended all commits, or Errc::ok.
    Errc error() const { return error_.load(std::memory_order_relaxed); }
    u64 transaction() const { return transaction_; }
    /// The generation of the inode made last, as of the last commit.
    u64 last_generation() const { return last_generation_; }
    CommitFigures figures() const;

    /// Each bulk step on the host's Store holds this shared from before it passes the freeze
    /// barrier until it has left it.
    FairLock& steps() { return steps_; }

    /// Calls `action` while nothing applies to the host's Store: no operation, no bulk step and no
    /// commit snapshot. `action` throws nothing.
    void freeze(const std::function<void()>& action);
    /// Keeps operations from applying until open_barrier(), and waits until none is applying.
    void close_barrier();
    void open_barrier();

 private:
    Errc commit_once();
    Errc give_back_memory();
    Errc end_empty_inode_frames(bool looks_on_disk);
    Errc commit_dirty();
    Errc fail(Errc error);
    Errc take_copies();
    Errc take_copies_here();
    Errc take_copies_of(EngineMemory& engine);
    Errc take_memory();
    u64 with_margin(u64 blocks) const { return std::min(blocks + blocks / 8 + 64, area_blocks_); }
    void expect_copies();
    void expect_data_copies();
    void adopt_table(u64 place, const format::Block& block);
    void adopt_copies();
    Errc note_copies(const ops::CutCounters& counters, u64 count);
    Errc allow_generations();
    void note_rest();
    void seal();
    Errc write();
    bool holds_data(u64 place) const;
    void collect_data();
    Errc write_data_back();
    bool logs_data() const { return file_buffer_ != nullptr && mode_ == DataMode::journal; }
    Errc release_copies();

    Disk& disk_;
    const core::Store& store_;
    MetaLoader& loader_;
    format::Superblock& superblock_;
    Journal journal_;
    FreePublisher publisher_;
    std::mutex mutex_;                                   // one commit at a time
    std::mutex snapshot_mutex_;                          // held until it has taken its snapshot
    std::chrono::steady_clock::time_point last_commit_;  // that wrote something
    bool may_give_back_ = false;                         // a commit wrote something since
    u64 transaction_;
    u64 last_generation_;
    u64 generation_limit_;  // the generation in the durable superblock
    std::atomic<Errc> error_{Errc::ok};
    std::atomic<bool> has_data_{false};        // written since the last flush
    std::atomic<bool> has_fresh_data_{false};  // some of it did not replace visible data
    FreshData fresh_data_ = FreshData::no;     // of the commit under way
    FairLock steps_;
    EngineMemory* engine_ = nullptr;  // null: the engine works on the host's Store
    WithoutPieces without_pieces_;
    std::function<void(Errc error)> end_changes_;
    ReservedRange area_;  // the copies of metadata: room for a whole transaction
    const u64 area_blocks_ = journal_.capacity_blocks();  // the most of a transaction
    Gatherers gatherers_;
    std::vector<u64> places_;
    std::vector<CommitCopy> copies_;  // by place
    mutable std::mutex figures_mutex_;
    CommitFigures figures_;
    FileBuffer* file_buffer_ = nullptr;
    DataMode mode_ = DataMode::ordered;
    ReservedRange data_area_;  // with DataMode::journal the copies of contents
    std::vector<CommitCopy> data_copies_;
    std::vector<SealedBlock> sealed_;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The commit: all metadata that operations changed since the last one become durable together. The
// barrier closes while dirty blocks are copied, and opens again before anything is written. The
// commit waits for bulk steps, which take longer than a command, before it closes the freeze
// barrier, so that commands continue meanwhile.
//
// An engine with its own memory takes the copies there. The host's Store then has the frame table
// and the bitmaps of inodes as of the last snapshot, for the loader.
//
// Invariant: a snapshot is a state between operations, never within one; a freed block can be
// reused only when the commit that holds its free is durable.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fair_lock.hpp"
#include "fs/cache/file_buffer.hpp"
#include "fs/cache/meta_loader.hpp"
#include "fs/commit/free_publisher.hpp"
#include "fs/commit/gatherers.hpp"
#include "fs/commit/journal.hpp"
#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/engine/cpu/store_memory.hpp"
#include "fs/engine/engine_memory.hpp"
#include "fs/format/superblock.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Figures of the last commit.
struct CommitFigures {
    u64 blocks = 0;
    u64 held_ns = 0;  // how long the barrier was closed, or no command of the engine could begin
};

class Committer {
 public:
    /// Requires: all outlive this. `superblock` is the one that is durable, with the generation
    /// raised.
    Committer(Disk& disk, const core::Store& store, MetaLoader& loader,
              format::Superblock& superblock);

    /// Sets the function that stops all changes after an error, forbid() included. Call before the
    /// first commit.
    void on_failure(std::function<void(Errc error)> end_changes) {
        end_changes_ = std::move(end_changes);
    }

    /// Calls an action while no bytes of a piece that is already visible are being written.
    using WithoutPieces = std::function<Errc(const std::function<Errc()>& action)>;
    /// For an engine with its own memory that outlives this.
    void use_engine(EngineMemory& engine, WithoutPieces without_pieces);

    /// Sets how many threads at most copy blocks while the freeze barrier is closed; the default is
    /// one.
    void copy_with(u32 threads) { gatherers_.set_width(threads); }

    /// Contents are kept in `buffer`, which outlives this, and `mode` says how a commit makes them
    /// durable. Requires: DataMode::journal has a buffer that writes by the journal. Before the
    /// first commit.
    void keep_data(FileBuffer* buffer, DataMode mode);
    /// Blocks of contents that one transaction can hold with DataMode::journal.
    u64 data_capacity_blocks() const;

    /// Makes everything applied so far durable, file data included. If there has been nothing to
    /// commit for a second, it releases unused memory, once.
    Errc commit();
    /// As commit(), and makes all that was freed before available: empty inode frames become free
    /// with the commit after the one that emptied them. With `looks_on_disk` also those of which
    /// nothing is in memory; an engine with its own memory leaves them.
    Errc commit_and_free(bool looks_on_disk);
    /// Notes that file data were written. `fresh_data`: they did not replace visible data; then
    /// call it before they become visible.
    void note_data(FreshData fresh_data) {
        if (fresh_data == FreshData::yes) has_fresh_data_.store(true, std::memory_order_relaxed);
        // Release: pairs with the acquire in note_rest(): the flush follows the write.
        has_data_.store(true, std::memory_order_release);
    }
    /// Whether a commit would make something durable that is not yet, or return an error. With an
    /// engine with its own memory: as of the last EngineMemory::refresh_counters().
    bool has_unsaved() const;
    /// Prevents all commits that would hold what is applied from now on.
    void forbid(Errc error);

    /// After an error nothing is written any more; this is the error.
    Errc error() const { return error_.load(std::memory_order_relaxed); }
    u64 transaction() const { return transaction_; }
    /// Of the inode made last, as of the last commit.
    u64 last_generation() const { return last_generation_; }
    CommitFigures figures() const;

    /// Held shared by each bulk step on the host's Store while it has passed the freeze barrier.
    FairLock& steps() { return steps_; }

    /// Keeps operations from applying until open_barrier(), and waits for those that are applying.
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
    Errc make_room(u64 blocks);
    Errc take_memory();
    void expect_copies();
    void list_copies(const u64* places, u64 count);
    void adopt_table(u64 place, const format::Block& block);
    void adopt_copies();
    void take_counters(const ops::CutCounters& counters);
    Errc allow_generations();
    void note_rest();
    void seal();
    Errc write();
    bool holds_data(u64 place) const;
    void collect_data();
    Errc write_data_back();
    bool logs_data() const { return file_buffer_ != nullptr && mode_ == DataMode::journal; }
    format::Block& next_copy();
    Errc release_copies();

    Disk& disk_;
    const core::Store& store_;
    MetaLoader& loader_;
    format::Superblock& superblock_;
    Journal journal_;
    FreePublisher publisher_;
    std::mutex mutex_;                                   // one commit at a time
    std::chrono::steady_clock::time_point last_commit_;  // that wrote something
    bool may_give_back_ = false;                         // since something was written
    u64 transaction_;
    u64 last_generation_;
    u64 generation_limit_;  // the superblock's generation that is durable
    std::atomic<Errc> error_{Errc::ok};
    std::atomic<bool> has_data_{false};        // written since the last flush
    std::atomic<bool> has_fresh_data_{false};  // some of it did not replace visible data
    FreshData fresh_data_ = FreshData::no;     // those that this commit makes visible
    FairLock steps_;
    EngineMemory* engine_ = nullptr;  // null: it works on the host's Store
    WithoutPieces without_pieces_;
    std::function<void(Errc error)> end_changes_;
    ReservedRange area_;  // of copies: as many as a transaction holds
    u64 area_blocks_ = 0;
    Gatherers gatherers_;
    std::vector<u64> places_;
    std::vector<CommitCopy> copies_;  // by place
    mutable std::mutex figures_mutex_;
    CommitFigures figures_;
    FileBuffer* file_buffer_ = nullptr;
    DataMode mode_ = DataMode::ordered;
    std::vector<CommitCopy> data_copies_;  // with DataMode::journal
    std::vector<std::unique_ptr<format::Block[]>> buffers_;
    std::vector<SealedBlock> sealed_;
    u64 buffered_ = 0;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The commit: all metadata that operations changed since the last one become durable together. The
// gate closes while dirty blocks are copied, and opens again before anything is written.
//
// Invariant: what the journal gets is a state between operations, never within one; a freed block
// becomes free for others only when the commit that holds its free is durable.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "fs/cache/file_buffer.hpp"
#include "fs/cache/meta_loader.hpp"
#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/format/superblock.hpp"
#include "fs/journal/journal.hpp"
#include "warren/volume.hpp"

namespace warren {

class Committer {
 public:
    /// Requires: all outlive this. `superblock` is the one that the volume was opened with.
    Committer(Disk& disk, const core::Store& store, MetaLoader& loader,
              format::Superblock& superblock);

    /// For an engine that does not work on the host's Store: `pause` brings that up to date and
    /// keeps operations from changing anything until `resume`. Both are called around whatever a
    /// commit reads and writes there.
    void pause_with(std::function<Errc()> pause, std::function<Errc()> resume);

    /// Contents are kept in `buffer`, which outlives this, and `mode` says how a commit makes them
    /// durable. Requires: DataMode::journal has a buffer that writes by the journal. Before the
    /// first commit.
    void keep_data(FileBuffer* buffer, DataMode mode);
    /// Blocks of contents that one transaction can hold with DataMode::journal.
    u64 data_capacity_blocks() const;

    /// Makes everything applied so far durable, file data included.
    Errc commit();
    /// Notes, before they become visible, that file data were written that were not there before.
    void note_fresh_data() { has_fresh_data_.store(true, std::memory_order_relaxed); }
    /// Lets no commit begin any more that would hold what is applied from now on.
    void forbid(Errc error);

    /// After an error nothing is written any more; this is the error.
    Errc error() const { return error_.load(std::memory_order_relaxed); }
    u64 transaction() const { return transaction_; }

    /// Keeps operations from applying until open_gate(), and waits for those that are at it.
    void close_gate();
    void open_gate();

 private:
    struct Copy {
        u64 place;
        format::Block* block;
    };
    template <class Action>
    Errc while_paused(const Action& action);
    Errc commit_dirty();
    Errc fail(Errc error);
    void collect();
    void keep_from_reuse();
    void collect_frame(u64 frame);
    void take_copy(u64 place);
    const format::Block* memory_of(u64 place);
    void seal();
    Errc write();
    void collect_data();
    Errc write_data_back();
    bool logs_data() const { return file_buffer_ != nullptr && mode_ == DataMode::journal; }
    format::Block& next_copy();
    template <class Action>
    void for_each_table_entry(const Action& action) const;
    void publish_frees();
    void publish_frame(u64 frame, const format::FrameEntry& committed);
    void publish_free_frame(u64 frame);
    void end_empty_inode_frames();
    void discard_runs(u64 frame, const u64 (&freed)[8]);
    void release_pins();
    bool is_table_place(u64 place) const;

    Disk& disk_;
    const core::Store& store_;
    MetaLoader& loader_;
    format::Superblock& superblock_;
    Journal journal_;
    std::mutex mutex_;  // one commit at a time
    u64 transaction_;
    std::atomic<Errc> error_{Errc::ok};
    std::atomic<bool> has_fresh_data_{false};  // since the last flush
    FreshData fresh_data_ = FreshData::no;     // those that this commit makes visible
    std::function<Errc()> pause_;
    std::function<Errc()> resume_;
    std::vector<Copy> copies_;
    FileBuffer* file_buffer_ = nullptr;
    DataMode mode_ = DataMode::ordered;
    std::vector<Copy> data_copies_;  // with DataMode::journal
    std::vector<std::unique_ptr<format::Block[]>> buffers_;
    u64 buffered_ = 0;
};

}  // namespace warren

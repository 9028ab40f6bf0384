// SPDX-License-Identifier: Apache-2.0
// Emulates the memory of an engine with memory of its own, without a GPU: a second Store besides
// the host's, filled like a device's, so that anything a volume forgets to transfer is missing.
//
// Invariant: a block is copied from the host's Store only when it is requested, and never while it
// is resident here.
#pragma once

#include <mutex>
#include <vector>

#include "fs/engine/cpu/store_memory.hpp"
#include "fs/engine/engine.hpp"

namespace warren {

class TwinStore {
 public:
    /// Copies the state of `host`, which must outlive this object and be fully resident.
    /// With `meta_buffer_blocks`, at most that many blocks are in memory here.
    Errc open(const core::Store& host, u64 meta_buffer_blocks = 0);

    const core::Store& store() { return memory_.store(); }

    // Like the functions of DeviceStore with these names.
    void show_block(u64 place);
    void prepare_inode_frame(u64 frame);
    void read_counters();

    // The meta buffer; see Engine.
    u64 meta_buffer_blocks() { return store().heads == nullptr ? 0 : store().heads->head_count; }
    Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted);
    Errc read_block(u64 place, format::Block& block);

    // The parts of a commit; see Engine.
    Errc take_cut(CommitSnapshot& cut);
    void fetch_cut(format::Block* blocks) const;
    void release_cut();
    void publish(std::span<ops::CommittedFrame> frames, std::span<const u64> empty_inode_frames);
    void allow_generations(u64 limit);
    void forbid();

 private:
    void copy_frames(u64 begin, u64 end);
    void fill_block(u64 place, const format::Block* from);

    const core::Store* host_ = nullptr;
    StoreMemory memory_;
    std::mutex mutex_;  // one block is transferred at a time
    u32 hand_ = 0;
    std::vector<u64> places_;  // of the last snapshot
    std::vector<format::Block> copies_;
};

}  // namespace warren

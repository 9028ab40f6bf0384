// SPDX-License-Identifier: Apache-2.0
// Brings metadata blocks into an engine's memory when an operation asks for one that is not there,
// and, with a meta buffer of fixed size, decides which block goes for it.
//
// Invariant: a block is published as resident only after it passed its checks; an inode that does
// not exist has generation zero in memory. References to inodes, which no disk knows, outlive the
// eviction of their block: they are kept beside the buffer, 16 bytes for an inode.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/engine/engine.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"

namespace warren {

class MetaLoader {
 public:
    /// Requires: both outlive this; `volume` is the first 8 bytes of the UUID.
    MetaLoader(Disk& disk, const core::Store& store, u64 volume)
        : disk_(disk), store_(store), volume_(volume) {}

    /// Makes the block at `place` resident. Errc::corrupt if its bytes cannot be right, Errc::io if
    /// they cannot be read, Errc::need_commit if every block of the meta buffer is in use or dirty.
    Errc load(u64 place);

    /// As load(), into the meta buffer of an engine that has memory of its own. The host's Store
    /// has the identity map, and of blocks the bitmaps of inodes alone.
    Errc load_into(Engine& engine, u64 place);

    /// Makes all of a frame's blocks resident that hold something, and those of free inodes, by one
    /// read of all of them. What cannot be read or right is left to load(). Requires: the identity
    /// map; no block of the frame is resident, nobody else works on it.
    void load_frame(u64 frame);

    /// The memory of a resident block, kept there until unpin(); null if it is not resident.
    format::Block* pin(u64 place);
    void unpin(u64 place);

    /// Takes what an engine with memory of its own has at `place`, the bitmap of a frame of inodes,
    /// into the host's. Requires: the identity map.
    void adopt(u64 place, const format::Block& block);

    u64 loads() const { return loads_; }

 private:
    /// The references to one inode of a block that was evicted.
    struct Kept {
        u32 slot;        // in the block
        u32 generation;  // 0: it was removed; removed_ has what is left of it
        u64 references;
    };

    Errc bring_bitmap(Engine& engine, u64 place);
    Errc fill(u64 place, format::Block& block);
    Errc read_in(u64 place, format::Block& block);
    void keep_references(u64 place, const format::Block& block);
    void restore_references(u64 place, format::Block& block);
    Result<u64> inodes_in_use(u64 place);
    Result<bool> holds_something(u64 place);
    Errc accept(u64 place, format::Block& block);
    Errc accept_inodes(u64 place, format::Block& block);
    Result<u32> find_victim();

    Disk& disk_;
    const core::Store& store_;
    const u64 volume_;
    std::mutex mutex_;  // one load at a time; hits never take it
    u32 hand_ = 0;      // second-chance order: the head looked at next
    u64 loads_ = 0;
    std::unordered_map<u64, std::vector<Kept>> kept_;  // by place of the block
    std::unordered_map<u64, format::Inode> removed_;   // by number of the inode
};

}  // namespace warren

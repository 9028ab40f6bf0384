// SPDX-License-Identifier: Apache-2.0
// Brings metadata blocks into an engine's memory when an operation asks for one that is not there,
// and, with a meta buffer of fixed size, decides which block goes for it.
//
// Invariant: a block is published as resident only after it passed its checks; an inode that does
// not exist has generation zero in memory. References to inodes, which no disk knows, outlive the
// eviction of their block: they are kept beside the buffer, 16 bytes for an inode.
//
// The disk is waited for without the lock, so many reads are under way at once, of one place one
// for all who ask. What is being read is not resident, so nobody changes it; but it may be freed
// and be another's before the read has ended, and in an engine's buffer it may come and go. What
// was read never comes over what is newer: put() and fs/ops/show_block.hpp see to it.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/engine/engine.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "fs/ops/place_block.hpp"

namespace warren {

class MetaLoader {
 public:
    /// So many reads of blocks may be under way; who wants one more waits.
    static constexpr u64 reads_max = 64;
    /// So many of them are one caller's of load_many().
    static constexpr u64 batch_max = 32;

    /// Requires: both outlive this; `volume` is the first 8 bytes of the UUID.
    MetaLoader(Disk& disk, const core::Store& store, u64 volume);

    /// Makes the block at `place` resident; it may be gone again if all of a meta buffer is in much
    /// use. With an `engine`, in the meta buffer of that, which has memory of its own; the host's
    /// Store has the identity map then, and of blocks the bitmaps of inodes alone. Errc::corrupt if
    /// its bytes cannot be right, Errc::io if they cannot be read, Errc::need_commit if every block
    /// of the meta buffer is in use or dirty.
    Errc load(u64 place, Engine* engine = nullptr);

    /// As load() of each place, side by side where the disk can. A place that comes twice may be
    /// read twice. Requires: as many answers.
    void load_many(std::span<const u64> places, std::span<Errc> answers, Engine* engine = nullptr);

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
    /// How many callers wait for a read that somebody else has begun.
    u64 waiters();

 private:
    /// The references to one inode of a block that was evicted.
    struct Kept {
        u32 slot;        // in the block
        u32 generation;  // 0: it was removed; removed_ has what is left of it
        u64 references;
    };

    /// What the disk has at a place that is not resident.
    struct Expected {
        format::FrameKind kind;
        bool is_written;  // else nothing yet: zeros in memory
        u64 used;         // of a block of inodes: the bits of those that exist
    };

    /// A block that is being read, or what became of it as long as somebody asks.
    struct Read {
        format::Block* block = nullptr;  // its own
        u64 place = 0;
        Engine* engine = nullptr;  // that wants it; null: the host's Store
        Expected expected{};
        u32 askers = 0;        // who wait for it, the reader among them; 0: may be begun anew
        bool is_over = false;  // `result` tells
        bool is_void = false;  // the block was evicted since it was begun
        Errc result = Errc::ok;
    };

    void load_some(std::span<const u64> places, std::span<Errc> answers, Engine* engine);
    Read* find_read(u64 place, const Engine* engine);
    Result<Read*> start(u64 place, Engine* engine);
    Errc take_bitmap(Engine& engine, u64 place);
    void read_in(std::span<Read* const> reads);
    static DiskRead request_of(const Read& read);
    Errc finish(Read& read);
    Errc leave(Read& read);
    Errc put(Read& read);
    Errc put_into(Engine& engine, Read& read);
    Errc keep_evicted();
    void keep_references(u64 place, const format::Block& block);
    void restore_references(u64 place, format::Block& block) const;
    void forget_references(u64 place);
    bool holds_inodes(u64 place) const;
    bool is_resident(u64 place);
    Result<u64> inodes_in_use(u64 place);
    Result<Expected> expect(u64 place);
    Errc accept(u64 place, const Expected& expected, format::Block& block) const;
    void accept_inodes(u64 place, u64 used, format::Block& block) const;
    Result<u32> find_victim();

    Disk& disk_;
    const core::Store& store_;
    const u64 volume_;
    const std::unique_ptr<format::Block[]> blocks_;  // one a read
    std::mutex mutex_;                               // for all below; hits never take it
    std::condition_variable changed_;                // a read is over, or may be begun anew
    std::array<Read, reads_max> reads_;
    u32 hand_ = 0;                                // second-chance order: the head looked at next
    ops::Evicted evicted_{core::place_none, {}};  // from an engine's buffer, not kept yet
    u64 loads_ = 0;
    std::unordered_map<u64, std::vector<Kept>> kept_;  // by place of the block
    std::unordered_map<u64, format::Inode> removed_;   // by number of the inode
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Brings metadata blocks into an engine's memory when an operation asks for one that is not there,
// and, with a meta buffer of fixed size, decides which block is evicted for it.
//
// Invariant: a block is published as resident only after it passed its checks; an inode that does
// not exist has generation zero in memory. References to inodes, which are not on the disk, survive
// the eviction of their block: they are kept beside the buffer, 16 bytes for an inode.
//
// Disk I/O happens without the lock, so many reads are under way at once; callers that need the
// same place share one. A block that is being read is not resident, so no operation changes it; but
// it may be freed and reused before the read has ended, and in an engine's buffer it may be loaded
// and evicted. What was read never overwrites newer contents: put() and fs/ops/show_block.hpp
// ensure that.
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
#include "fs/engine/engine_memory.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "fs/ops/place_block.hpp"

namespace warren {

class MetaLoader {
 public:
    /// At most so many reads are under way; a further one waits.
    static constexpr u64 reads_max = 64;
    /// At most so many of them belong to one call of load_many().
    static constexpr u64 batch_max = 32;

    /// Requires: both outlive this; `volume` is the first 8 bytes of the UUID.
    MetaLoader(Disk& disk, const core::Store& store, u64 volume);

    /// Makes the block at `place` resident; it may be evicted again at once if a meta buffer is in
    /// heavy use. With a `buffer`, in that, which is an engine's; the host's Store then has the
    /// identity map, and of all blocks only the bitmaps of inodes. Errc::corrupt if its bytes are
    /// invalid, Errc::io if they cannot be read, Errc::need_commit if every block of the meta
    /// buffer is in use or dirty.
    Errc load(u64 place, MetaBuffer* buffer = nullptr);

    /// As load() of each place, in parallel where the disk can. A place that occurs twice may be
    /// read twice. Requires: as many answers.
    void load_many(std::span<const u64> places, std::span<Errc> answers,
                   MetaBuffer* buffer = nullptr);

    /// Makes all used blocks of a frame resident, and those of free inodes, by one read. Blocks
    /// that cannot be read or are invalid are left to load(). Requires: the identity map; no block
    /// of the frame is resident, and no other thread uses it.
    void load_frame(u64 frame);

    /// The memory of a resident block, kept there until unpin(); null if it is not resident.
    format::Block* pin(u64 place);
    void unpin(u64 place);

    /// Copies a bitmap of inodes that an engine with its own memory has at `place` to the host's
    /// Store. Requires: the identity map.
    void adopt(u64 place, const format::Block& block);

    u64 loads() const { return loads_; }
    /// How many callers wait for a read that another has begun.
    u64 waiters();

 private:
    /// The references to one inode of a block that was evicted.
    struct Kept {
        u32 slot;        // in the block
        u32 generation;  // 0: it was removed; see removed_
        u64 references;
    };

    /// What the disk has at a place that is not resident.
    struct Expected {
        format::FrameKind kind;
        bool is_written;  // else nothing yet: zeros in memory
        u64 used;         // of a block of inodes: the bits of those that exist
    };

    /// A block that is being read, or the result while callers still wait for it.
    struct Read {
        format::Block* block = nullptr;  // its own
        u64 place = 0;
        MetaBuffer* buffer = nullptr;  // where it goes; null: the host's Store
        Expected expected{};
        u32 askers = 0;        // callers that wait for it, the reader included; 0: may be reused
        bool is_over = false;  // `result` tells
        bool is_void = false;  // the block was evicted since it was begun
        Errc result = Errc::ok;
    };

    void load_some(std::span<const u64> places, std::span<Errc> answers, MetaBuffer* buffer);
    Read* find_read(u64 place, const MetaBuffer* buffer);
    Result<Read*> start(u64 place, MetaBuffer* buffer);
    Errc take_bitmap(MetaBuffer& buffer, u64 place);
    void read_in(std::span<Read* const> reads);
    static DiskRead request_of(const Read& read);
    Errc finish(Read& read);
    Errc leave(Read& read);
    Errc put(Read& read);
    Errc put_into(MetaBuffer& buffer, Read& read);
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
    std::condition_variable changed_;                // a read is over, or may be reused
    std::array<Read, reads_max> reads_;
    u32 hand_ = 0;                                // second-chance order: the next head to examine
    ops::Evicted evicted_{core::place_none, {}};  // from an engine's buffer, not kept yet
    u64 loads_ = 0;
    std::unordered_map<u64, std::vector<Kept>> kept_;  // by place of the block
    std::unordered_map<u64, format::Inode> removed_;   // by number of the inode
};

}  // namespace warren

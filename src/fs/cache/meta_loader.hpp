// SPDX-License-Identifier: Apache-2.0
// Loads metadata blocks into an engine's memory when an operation needs one that is not there and,
// with a buffer cache, chooses the block that is evicted for it.
//
// Invariant: a block is made resident only after it passed its checks; an inode that does not exist
// has generation zero in memory. References to inodes, which are not on disk, survive the eviction
// of their block: they are kept beside the buffer cache, in 16 bytes for each inode.
//
// No thread holds the lock during disk I/O, so many reads run at the same time; callers that need
// the same block share one read. A block that is being read is not resident, so no operation
// changes it. But it may be freed and reused before the read ends, and in an engine's buffer cache
// it may be loaded and evicted meanwhile. put() and fs/ops/show_block.hpp ensure that what was read
// never overwrites newer contents.
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
    /// At most this many reads run at the same time; a caller that needs another one waits.
    static constexpr u64 reads_max = 64;
    /// One call of load_many() has at most this many reads running.
    static constexpr u64 batch_max = 32;

    /// Requires: `disk` and `store` outlive this; `volume` is the first 8 bytes of the volume's
    /// UUID.
    MetaLoader(Disk& disk, const core::Store& store, u64 volume);

    /// Makes the block at `place` resident; in a busy buffer cache it may be evicted again at once.
    /// With `buffer`, an engine's buffer cache, the block becomes resident there; the host's Store
    /// is then fully resident, but holds no blocks except inode bitmaps. Errc::corrupt if the block
    /// is invalid, Errc::io if it cannot be read, Errc::need_commit if every block of the buffer
    /// cache is in use or dirty.
    Errc load(u64 place, MetaBuffer* buffer = nullptr);

    /// Calls load() for each place, in parallel where the disk can. A place that occurs twice may
    /// be read twice. Requires: `answers` has as many elements as `places`.
    void load_many(std::span<const u64> places, std::span<Errc> answers,
                   MetaBuffer* buffer = nullptr);

    /// As load_many(), for a caller that visits a whole tree and needs the blocks around a missed
    /// one, too: one call of the disk loads all blocks in use of the aligned run of batch_max
    /// blocks. Requires: the store is fully resident.
    void load_around(std::span<const u64> places, std::span<Errc> answers);

    /// Makes the blocks of a frame resident by one read: those in use, and in an inode frame also
    /// those without inodes. Blocks that cannot be read or are invalid are left to load().
    /// Requires: the store is fully resident; no block of the frame is resident, and no other
    /// thread uses the frame.
    void load_frame(u64 frame);

    /// The memory of a resident block, which stays resident until unpin(); null if it is not
    /// resident.
    format::Block* pin(u64 place);
    void unpin(u64 place);

    /// Copies an inode bitmap that an engine with its own memory has at `place` to the host's
    /// Store. Requires: that is a fully resident store.
    void adopt(u64 place, const format::Block& block);

    u64 loads() const { return loads_; }
    /// The number of callers that wait for a read that another caller has started.
    u64 waiters();

 private:
    /// References to one inode whose block was evicted.
    struct Kept {
        u32 slot;        // index of the inode in the block
        u32 generation;  // 0: the inode was removed; see removed_
        u64 references;
    };

    /// What the disk should have at a place that is not resident.
    struct Expected {
        format::FrameKind kind;
        bool is_written;  // false: nothing yet; the block is filled with zeros
        u64 used;         // for a block of inodes: one bit for each inode that exists
    };

    /// A read that is running, or its result while callers still need it.
    struct Read {
        format::Block* block = nullptr;  // memory of this read
        u64 place = 0;
        MetaBuffer* buffer = nullptr;  // the buffer cache for the block; null: the host's Store
        Expected expected{};
        u32 askers = 0;        // callers that wait, the reading one included; 0: may be reused
        bool is_over = false;  // `result` is valid
        bool is_void = false;  // the block was evicted since the read began: it may be outdated
        Errc result = Errc::ok;
    };

    void load_some(std::span<const u64> places, std::span<Errc> answers, MetaBuffer* buffer);
    void show_unwritten(u64 place);
    Read* find_read(u64 place, const MetaBuffer* buffer);
    Result<Read*> start(u64 place, MetaBuffer* buffer);
    Errc take_bitmap(MetaBuffer& buffer, u64 place);
    void read_in(std::span<Read* const> reads);
    static DiskRead request_of(const Read& read);
    Errc finish(Read& read);
    Errc leave(Read& read);
    Errc put(Read& read);
    Errc keep_evicted();
    void keep_references(u64 place, const format::Block& block);
    void restore_references(u64 place, format::Block& block) const;
    void forget_references(u64 place);
    bool holds_inodes(u64 place) const;
    bool is_resident(u64 place);
    Result<u64> inodes_in_use(u64 place);
    Result<Expected> expect(u64 place);
    bool is_written(u64 place);
    Errc accept(u64 place, const Expected& expected, format::Block& block) const;
    void accept_inodes(u64 place, u64 used, format::Block& block) const;

    Disk& disk_;
    const core::Store& store_;
    const u64 volume_;
    const std::unique_ptr<format::Block[]> blocks_;  // one for each read
    std::mutex mutex_;                               // guards all below; hits do not take it
    std::condition_variable changed_;                // a read has ended, or may be reused
    std::array<Read, reads_max> reads_;
    u32 hand_ = 0;                                // second-chance order: the next head to examine
    ops::Evicted evicted_{core::place_none, {}};  // to be kept
    u64 loads_ = 0;
    std::unordered_map<u64, std::vector<Kept>> kept_;  // by the place of the block
    std::unordered_map<u64, format::Inode> removed_;   // by the inode's number
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// File contents in a limited amount of memory, in extents of any length, so that a reader gets as
// many contiguous bytes as there are. Loads start small, and double while a reader continues where
// the last load ended. Written data stay here until a commit writes them back, or a thread that
// needs room does so earlier, or their file is removed.
//
// Each block of an extent is clean or dirty. An extent is not changed or evicted during disk I/O on
// it. Extents in use are never evicted; among the least recently used ones the cheapest is evicted
// first. Repeated reads find an extent by a hint, without the lock that loads and evictions take.
//
// Invariant: no block is in two extents; a dirty or logged block stays until the disk has it, even
// if writes fail, unless its file is removed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/on_exit.hpp"
#include "fs/cache/pinned_memory.hpp"
#include "fs/disk/disk.hpp"
#include "fs/format/layout.hpp"
#include "warren/held_contents.hpp"
#include "warren/result.hpp"

namespace warren {

struct FileBufferShape {
    u64 size_bytes = 0;
    u64 first_load_blocks = 8;  // a reader's first load; each further one is twice as long
    u64 load_blocks_max = 512;  // equal to first_load_blocks: all loads have this length
    bool writes_itself = true;  // else only a journal writes dirty blocks
    u64 room_blocks = ~u64{0};  // how many blocks may be dirty at once, if a journal writes them
    /// Whether the block at `place` belongs to a file or will belong to one; empty: always. Called
    /// with the table locked.
    std::function<bool(u64 place)> is_wanted;
    /// Pins the memory of extents; empty: it is not pinned.
    PinRange pin;
    u64 hint_blocks = 8;  // adjacent blocks that share a hint
};

/// Counters since the buffer was created.
struct FileBufferFigures {
    u64 loads = 0;  // read requests to the disk
    u64 loaded_blocks = 0;
    u64 evictions = 0;
    u64 written_blocks = 0;  // blocks that were written back
    u64 dropped_blocks = 0;  // blocks that were dirty when their file was removed
    u64 blocks = 0;          // blocks in memory
    u64 dirty_blocks = 0;
};

/// Thread-safe. A read of data in memory waits for the disk only while another thread loads the
/// same extent.
class FileBuffer {
 public:
    static constexpr u64 size_bytes_min = 256 * kib;

    /// Requires: `disk` outlives this; shape.size_bytes is at least size_bytes_min.
    FileBuffer(Disk& disk, const FileBufferShape& shape);
    ~FileBuffer();

    /// Reads the bytes at `place` into `target`. A load ends at `run_end` at the latest. If the
    /// disk refuses writes, dirty extents stay in memory, even beyond the limit.
    Errc read(u64 place, std::span<std::byte> target, u64 run_end);
    /// Shows up to `length` bytes from `place` on where they are, loaded as by read(). Never waits
    /// for other users: Errc::busy.
    Errc hold(u64 place, u64 length, u64 run_end, HeldContents& held);
    void release(HeldContents& held);
    /// Keeps the bytes until they are written back. Errc::io and others: room could not be made by
    /// writing something else, nothing is lost.
    Errc write(u64 place, std::span<const std::byte> source);
    /// Writes back everything that was dirty at the call. Returns the first error; blocks that
    /// could not be written stay dirty.
    Errc write_back();
    /// Until let_drop(), all dirty blocks stay, even those of removed files, because the next
    /// commit still shows the files that exist now. Dirty blocks that no file needs at the call are
    /// dropped.
    void keep_all();
    void let_drop();
    /// Whole blocks whose contents nobody needs any more: their dirty marks are cleared, and they
    /// may be dropped.
    void forget(u64 place, u64 length_bytes);

    // For volumes whose journal also takes contents.
    /// Reserves room for `blocks` more dirty blocks. Errc::need_commit if they do not fit.
    Errc take_room(u64 blocks);
    void give_back_room(u64 blocks);
    /// Calls `log(place, block)` for each dirty block. If it returns true, the block is logged from
    /// then on. If it returns false, the block is no longer dirty, because its place does not hold
    /// contents any more.
    void log_dirty(const std::function<bool(u64 place, const format::Block& block)>& log);
    /// The caller has written all logged blocks to their places on disk.
    void end_logged();

    FileBufferFigures figures() const;

 private:
    struct Extent;
    enum class RoomFor : u8 { read, write, hold };
    using Lock = std::unique_lock<std::mutex>;
    using Map = std::map<u64, Extent*>;

    std::atomic<Extent*>& hint(u64 block);
    std::unique_ptr<BlockMemory> make_memory() const;
    Errc enter(RoomFor what, u64 place, u64 length, u64 run_end, Extent*& extent);
    Extent* enter_hinted(u64 place);
    Errc enter_found(RoomFor what, u64 place, u64 length, u64 run_end, Extent*& extent);
    static std::span<const std::byte> bytes_at(Extent& extent, u64 place, u64 length);
    void leave(Extent* extent);
    Extent* find(u64 block);
    u64 next_begin(u64 block) const;
    u64 load_length(u64 block, u64 wanted, u64 end, u64& limit);
    Errc load(Lock& lock, RoomFor what, u64 block, u64 wanted, u64 end, Extent*& loaded);
    Errc fill_new(Lock& lock, u64 block, std::span<const std::byte> source, u64& done);
    Errc make_room(Lock& lock, RoomFor what, u64 blocks);
    Extent* find_victim(bool writes_dirty, bool& is_in_use);
    Extent* insert(u64 block, u64 blocks, u64 limit);
    bool erase_idle(Extent* extent);
    void erase(Extent* extent);
    template <class Copy>
    void use(Lock& lock, Extent* extent, const Copy& copy);
    void mark_dirty(Extent& extent, u64 first, u64 count);
    u64 drop_unwanted(Extent& extent);
    Errc write_taken(std::span<Extent* const> extents);
    Errc write_back_from(u64& from);
    Errc write_some(Lock& lock, std::span<Extent* const> extents);
    Errc keep_below_limit(Lock& lock);

    Disk& disk_;
    const FileBufferShape shape_;
    const u64 capacity_blocks_;
    const u64 extent_blocks_max_;
    std::vector<std::atomic<Extent*>> hints_;  // where blocks were found, by their hash
    const int hint_shift_;
    // Threads that wait until a user leaves an extent. Not in the cache line of the hints, which
    // every hit reads: the mutex is written often.
    alignas(64) std::atomic<u32> room_seekers_{0};
    mutable std::mutex mutex_;  // guards all below
    const std::unique_ptr<BlockMemory> memory_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<Extent>> all_extents_;  // those in the table and the spare ones
    Extent* spare_ = nullptr;                           // first of the list of spare extents
    Map extents_;                                       // by first block
    std::list<Extent*> order_;                          // least recently used first
    u64 used_blocks_ = 0;
    u64 dirty_blocks_ = 0;
    u64 room_taken_ = 0;
    bool keeps_all_ = false;
    u64 busy_ = 0;  // threads that do disk I/O on an extent
    FileBufferFigures figures_;
};

/// The result exists from before a commit's snapshot until the contents of all files that the
/// snapshot shows are on disk: they are kept even if the files are removed meanwhile. Contents of
/// files that were removed before need not be written. Null: there is nothing to keep.
inline auto keep_contents(FileBuffer* buffer) {
    if (buffer != nullptr) buffer->keep_all();
    return OnExit([buffer] {
        if (buffer != nullptr) buffer->let_drop();
    });
}

}  // namespace warren

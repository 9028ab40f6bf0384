// SPDX-License-Identifier: Apache-2.0
// Contents of files in a limited amount of memory, in extents of any length, so that a reader gets
// as many contiguous bytes as there are. Loads begin small and double while the reader continues
// where the last load ended. Written data stay here until a commit writes them back, or earlier to
// make room, or until their file is removed.
//
// An extent is clean or dirty (block by block), and locked during disk I/O on it. Extents in use
// are never evicted; of the least recently used ones the cheapest is evicted first. Repeated reads
// find an extent by a hint, without the lock that loads and evictions take.
//
// Invariant: no block is in two extents; a block that is dirty or logged stays until the disk has
// it, whatever fails, unless its file is removed.
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

#include "fs/cache/extent_memory.hpp"
#include "fs/disk/disk.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren {

struct FileBufferShape {
    u64 size_bytes = 0;
    u64 first_load_blocks = 8;  // the first load of a reader; each further one is twice as long
    u64 load_blocks_max = 512;  // the same as first_load_blocks: loads of one length
    bool writes_itself = true;  // else only a journal writes what is dirty
    u64 room_blocks = ~u64{0};  // that may be dirty at once, if a journal writes it
    /// Whether the block at `place` is part of a file or will become one; empty: always. Called
    /// with the table locked.
    std::function<bool(u64 place)> is_wanted;
};

/// What has happened since the buffer was made.
struct FileBufferFigures {
    u64 hits = 0;   // parts of requests served from memory
    u64 loads = 0;  // requests to the disk for reading
    u64 loaded_blocks = 0;
    u64 evictions = 0;
    u64 written_blocks = 0;  // that were written back
    u64 dropped_blocks = 0;  // that were dirty when their file was removed
    u64 blocks = 0;          // in memory now
    u64 dirty_blocks = 0;
};

/// Thread-safe. A read of what is in memory never waits for the disk, except for I/O on the same
/// extent.
class FileBuffer {
 public:
    static constexpr u64 size_bytes_min = 256 * kib;

    /// Requires: `disk` outlives this; at least size_bytes_min.
    FileBuffer(Disk& disk, const FileBufferShape& shape);
    ~FileBuffer();

    /// Fills `target` from `place`. A load ends at `run_end` at the latest. If the disk refuses
    /// writes, dirty extents stay, beyond the limit if need be.
    Errc read(u64 place, std::span<std::byte> target, u64 run_end);
    /// Keeps the bytes until they are written back. Errc::io and others: room could not be made by
    /// writing something else, nothing is lost.
    Errc write(u64 place, std::span<const std::byte> source);
    /// Writes back everything that was dirty at the call. Returns the first error; what could not
    /// be written stays dirty.
    Errc write_back();
    /// Until let_drop() everything dirty stays, even of removed files: the next commit shows what
    /// is wanted now. What is unwanted at the call is dropped.
    void keep_all();
    void let_drop();
    /// Whole blocks without contents any more: they need not be kept or written.
    void forget(u64 place, u64 length_bytes);

    // With a journal.
    /// Errc::need_commit if so many more blocks could not be dirty at once.
    Errc take_room(u64 blocks);
    void give_back_room(u64 blocks);
    /// Calls `log(place, block)` for each dirty block. It counts as logged from then on; if `log`
    /// returns false it is dropped, because its place no longer holds contents.
    void log_dirty(const std::function<bool(u64 place, const format::Block& block)>& log);
    /// The logged blocks are at their places on the disk.
    void end_logged();

    FileBufferFigures figures() const;

 private:
    struct Extent;
    enum class RoomFor : u8 { read, write };
    using Lock = std::unique_lock<std::mutex>;
    using Map = std::map<u64, Extent*>;

    std::atomic<Extent*>& hint(u64 block);
    u64 read_hinted(u64 place, std::span<std::byte> target);
    Errc read_found(u64 place, std::span<std::byte> target, u64 run_end, u64& done);
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
    Errc write_some(Lock& lock, std::span<Extent* const> extents);
    Errc keep_below_limit(Lock& lock);

    Disk& disk_;
    const FileBufferShape shape_;
    const u64 capacity_blocks_;
    const u64 extent_blocks_max_;
    std::vector<std::atomic<Extent*>> hints_;  // where blocks were found, by their hash
    std::atomic<u64> hits_{0};
    std::atomic<u32> room_seekers_{0};  // threads that wait until a user leaves an extent
    mutable std::mutex mutex_;          // guards all below
    ExtentMemory memory_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<Extent>> all_extents_;  // those in the table and the spare ones
    Extent* spare_ = nullptr;                           // the first of a list
    Map extents_;                                       // by first block
    std::list<Extent*> order_;                          // used least recently first
    u64 used_blocks_ = 0;
    u64 dirty_blocks_ = 0;
    u64 room_taken_ = 0;
    bool keeps_all_ = false;
    u64 busy_ = 0;  // threads that let the disk work on an extent
    FileBufferFigures figures_;
};

/// Lives from before a commit's snapshot until the contents that it shows are on the disk: they are
/// kept, even if their files are removed meanwhile. What was removed before need not be written.
class KeptContents {
 public:
    /// Null: nothing to keep.
    explicit KeptContents(FileBuffer* buffer) : buffer_(buffer) {
        if (buffer_ != nullptr) buffer_->keep_all();
    }
    ~KeptContents() {
        if (buffer_ != nullptr) buffer_->let_drop();
    }
    KeptContents(const KeptContents&) = delete;
    KeptContents& operator=(const KeptContents&) = delete;

 private:
    FileBuffer* const buffer_;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Contents of files in a limited amount of memory, in extents of any length: whoever reads a file
// gets as much of it side by side as is there. What is loaded begins small and doubles as long as
// the reader goes on where the last load ended. What is written stays here until it is written back
// by a commit, or earlier to make room; or until nobody wants it, for its file is gone.
//
// An extent is clean or dirty (block by block), and locked while the disk works on it. Those in use
// are never evicted; of those used least recently the cheapest to lose goes first. Who reads again
// what was read lately finds it by a hint, without the lock that those who load and evict take.
//
// Invariant: no block is in two extents; a block that is dirty or logged stays until the disk has
// it, whatever fails, unless nobody wants it.
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
    /// Whether the block at `place` is part of a file or is to become one; empty: always. It is
    /// asked with the table locked.
    std::function<bool(u64 place)> is_wanted;
};

/// What has happened since the buffer was made.
struct FileBufferFigures {
    u64 hits = 0;   // parts of requests served from memory
    u64 loads = 0;  // requests to the disk for reading
    u64 loaded_blocks = 0;
    u64 evictions = 0;
    u64 written_blocks = 0;  // that were written back
    u64 dropped_blocks = 0;  // that were dirty when nobody wanted them any more
    u64 blocks = 0;          // in memory now
    u64 dirty_blocks = 0;
};

/// Safe from any thread. Who asks for what is in memory never waits for the disk, but for the very
/// extent.
class FileBuffer {
 public:
    static constexpr u64 size_bytes_min = 256 * kib;

    /// Requires: `disk` outlives this; at least size_bytes_min.
    FileBuffer(Disk& disk, const FileBufferShape& shape);
    ~FileBuffer();

    /// Fills `target` from `place`. What is loaded ends at `run_end` at the latest. Where the disk
    /// takes nothing, dirty extents stay, beyond the limit if need be.
    Errc read(u64 place, std::span<std::byte> target, u64 run_end);
    /// Keeps the bytes until they are written back. Errc::io and others: room could not be made by
    /// writing something else, nothing is lost.
    Errc write(u64 place, std::span<const std::byte> source);
    /// Writes everything back that was dirty at the call. The first error; what could not be
    /// written stays dirty.
    Errc write_back();
    /// Until let_drop() everything dirty stays, wanted or not: a commit is to show what is wanted
    /// now. What is not wanted at the call is dropped.
    void keep_all();
    void let_drop();
    /// Whole blocks that hold nothing any more: they need not be kept or written.
    void forget(u64 place, u64 length_bytes);

    // With a journal.
    /// Errc::need_commit if so many more blocks could not be dirty at once.
    Errc take_room(u64 blocks);
    void give_back_room(u64 blocks);
    /// Calls `log(place, block)` for each dirty block. It counts as logged from then on; if the
    /// answer is false it is forgotten, because its place is not one of contents any more.
    void log_dirty(const std::function<bool(u64 place, const format::Block& block)>& log);
    /// What was logged is on the disk.
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
    std::atomic<u32> room_seekers_{0};  // threads that wait until somebody leaves an extent
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

/// Lives from before a commit's cut until the contents that it shows are on the disk: they are
/// kept, whatever is removed meanwhile. What was removed before need not be written.
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

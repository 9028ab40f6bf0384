// SPDX-License-Identifier: Apache-2.0
// Dirty blocks: a commit writes them back, or a journal logs them, or a thread that needs room
// writes some. Those of removed files are dropped.
//
// A file may be removed after a commit's snapshot, which shows it, but before the commit has
// written its contents. So in that time nothing is dropped.
#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/workers.hpp"
#include "fs/cache/file_buffer_extent.hpp"

namespace warren {

using format::Block;
using format::block_size;

namespace {

constexpr u64 batch_extents = 128;
constexpr u64 batch_blocks = 8192;  // after which a batch ends
constexpr u64 batch_writes = 256;   // ranges of one disk request

}  // namespace

/// Clears the dirty marks of blocks that no file needs any more; returns their number.
u64 FileBuffer::drop_unwanted(Extent& extent) {
    const bool may_drop = !keeps_all_ && shape_.writes_itself && shape_.is_wanted != nullptr;
    if (!may_drop || extent.dirty_count == 0 || extent.is_locked()) return 0;
    const u64 before = extent.dirty_count;
    for (u64 i = 0; i < extent.blocks; ++i) {
        if (extent.dirty[i] && !shape_.is_wanted((extent.first + i) * block_size))
            extent.dirty[i] = false;
    }
    mark_dirty(extent, 0, 0);
    const u64 dropped = before - extent.dirty_count;
    figures_.dropped_blocks += dropped;
    return dropped;
}

/// Writes the `taken` blocks of the extents, with at most batch_writes ranges in one disk request.
Errc FileBuffer::write_taken(std::span<Extent* const> extents) {
    std::array<DiskWrite, batch_writes> writes;
    u64 count = 0;
    for (Extent* extent : extents) {
        for (u64 i = 0; i < extent->blocks; ++i) {
            if (!extent->taken[i]) continue;
            u64 run = 1;
            while (i + run < extent->blocks && extent->taken[i + run])
                ++run;
            if (count == writes.size()) {
                WARREN_TRY(disk_.write_many(std::span(writes).first(std::exchange(count, 0))));
            }
            writes[count++] = {(extent->first + i) * block_size,
                               std::span(extent->bytes() + i * block_size, run * block_size)};
            i += run;
        }
    }
    return disk_.write_many(std::span(writes).first(count));
}

/// Writes the dirty blocks of at most batch_extents extents that are not locked. Allocates no
/// memory, because a commit must not stop halfway for lack of memory.
Errc FileBuffer::write_some(Lock& lock, std::span<Extent* const> extents) {
    u64 blocks = 0;
    for (Extent* extent : extents) {
        extent->is_writing = true;
        blocks += extent->dirty_count;
        dirty_blocks_ -= extent->dirty_count;
        extent->dirty_count = 0;
        std::swap(extent->dirty, extent->taken);
        extent->dirty.reset();
    }
    ++busy_;
    lock.unlock();
    // Every thread that locks several extents does so in the order of their addresses, so there is
    // no deadlock.
    std::array<Extent*, batch_extents> room;
    std::ranges::copy(extents, room.begin());
    const std::span in_order = std::span(room).first(extents.size());
    std::ranges::sort(in_order);
    for (Extent* extent : in_order)
        extent->content.lock_shared();
    const Errc code = write_taken(extents);
    for (Extent* extent : in_order)
        extent->content.unlock_shared();
    lock.lock();
    --busy_;
    for (Extent* extent : extents) {
        extent->is_writing = false;
        if (code == Errc::ok) continue;
        extent->dirty |= extent->taken;
        mark_dirty(*extent, 0, 0);
    }
    if (code == Errc::ok) figures_.written_blocks += blocks;
    changed_.notify_all();
    return code;
}

/// If over half of the buffer is dirty, writes a part of it back: a thread that writes faster than
/// the disk thus slows down.
Errc FileBuffer::keep_below_limit(Lock& lock) {
    if (!shape_.writes_itself || dirty_blocks_ <= capacity_blocks_ / 2) return Errc::ok;
    std::array<Extent*, batch_extents> some;
    u64 count = 0;
    u64 blocks = 0;
    for (Extent* extent : order_) {
        if (extent->dirty_count == 0 || extent->is_locked()) continue;
        blocks += extent->dirty_count;
        static_cast<void>(drop_unwanted(*extent));
        if (extent->dirty_count > 0) some[count++] = extent;
        if (count == some.size() || blocks >= capacity_blocks_ / 4) break;
    }
    return count == 0 ? Errc::ok : write_some(lock, std::span(some).first(count));
}

/// Writes back what is dirty from the block `from` on. Threads that share `from`, which the table's
/// lock guards, share the work.
Errc FileBuffer::write_back_from(u64& from) {
    Lock lock(mutex_);
    std::array<Extent*, batch_extents> some;
    for (;;) {
        u64 count = 0;
        u64 blocks = 0;
        bool is_blocked = false;
        auto at = extents_.lower_bound(from);
        for (; at != extents_.end() && count < some.size() && blocks < batch_blocks; ++at) {
            from = at->first;
            is_blocked = at->second->is_writing;
            if (is_blocked) break;
            blocks += at->second->dirty_count;
            if (at->second->dirty_count > 0) some[count++] = at->second;
            from = at->first + 1;
        }
        if (count != 0) {
            WARREN_TRY(write_some(lock, std::span(some).first(count)));
        } else if (is_blocked) {
            changed_.wait(lock);
        } else if (at == extents_.end()) {
            return Errc::ok;
        }
    }
}

Errc FileBuffer::write_back() {
    // A function that refers to one variable is kept without an allocation, which a commit must not
    // make here.
    struct {
        FileBuffer& buffer;
        u64 from = 0;
        u64 batches = 0;
        std::atomic<Errc> failed{Errc::ok};
    } all{*this};
    {
        const Lock lock(mutex_);
        all.batches = dirty_blocks_ / batch_blocks + 1;
    }
    run_once(static_cast<u32>(std::min<u64>(all.batches, usable_processors())), [&all](u32) {
        const Errc code = all.buffer.write_back_from(all.from);
        if (code != Errc::ok) all.failed.store(code, std::memory_order_relaxed);
    });
    return all.failed.load(std::memory_order_relaxed);
}

void FileBuffer::keep_all() {
    const Lock lock(mutex_);
    for (auto at = extents_.begin(); dirty_blocks_ > 0 && at != extents_.end();) {
        Extent* extent = (at++)->second;
        const bool is_dropped = drop_unwanted(*extent) == extent->blocks;
        if (is_dropped) static_cast<void>(erase_idle(extent));
    }
    keeps_all_ = true;
}

void FileBuffer::let_drop() {
    const Lock lock(mutex_);
    keeps_all_ = false;
}

void FileBuffer::forget(u64 place, u64 length_bytes) {
    const Lock lock(mutex_);
    const u64 begin = place / block_size;
    const u64 end = (place + length_bytes) / block_size;
    u64 block = begin;
    while (block < end) {
        Extent* extent = find(block);
        if (extent == nullptr) {
            block = next_begin(block);
            continue;
        }
        const u64 first = std::max(extent->first, begin);
        const u64 stop = std::min(extent->end(), end);
        block = stop;
        set_bits(extent->dirty, first - extent->first, stop - first, false);
        mark_dirty(*extent, 0, 0);
        if (stop - first == extent->blocks) static_cast<void>(erase_idle(extent));
    }
}

Errc FileBuffer::take_room(u64 blocks) {
    const Lock lock(mutex_);
    if (dirty_blocks_ + room_taken_ + blocks > shape_.room_blocks) return Errc::need_commit;
    room_taken_ += blocks;
    return Errc::ok;
}

void FileBuffer::give_back_room(u64 blocks) {
    const Lock lock(mutex_);
    room_taken_ -= blocks;
}

void FileBuffer::log_dirty(const std::function<bool(u64 place, const format::Block& block)>& log) {
    const Lock lock(mutex_);
    for (auto& [first, extent] : extents_) {
        if (extent->dirty_count == 0) continue;
        const std::shared_lock still(extent->content);
        for (u64 i = 0; i < extent->blocks; ++i) {
            if (!extent->dirty[i]) continue;
            if (log((first + i) * block_size, extent->memory[i])) extent->logged[i] = true;
        }
        extent->dirty.reset();
        mark_dirty(*extent, 0, 0);
        extent->logged_count = extent->logged.count();
    }
}

void FileBuffer::end_logged() {
    const Lock lock(mutex_);
    for (auto& [first, extent] : extents_) {
        figures_.written_blocks += extent->logged_count;
        extent->logged.reset();
        extent->logged_count = 0;
    }
    changed_.notify_all();
}

}  // namespace warren

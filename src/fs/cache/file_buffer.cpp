// SPDX-License-Identifier: Apache-2.0
// One mutex guards the table of extents. No thread holds it during disk I/O, or while it copies
// bytes for a reader or writer. Meanwhile the extent's own lock protects the bytes: shared for
// reading (by a reader or by write-back), exclusive for changes.
//
// A thread that loads holds the mutex for some microseconds, on a core that has just woken up. A
// reader that finds its extent by a hint does not wait for the mutex: an array of fixed size names
// the extents in which adjacent blocks were found last. A hint may be wrong, so the reader checks
// the extent itself.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/out_of_memory.hpp"
#include "base/processor_pause.hpp"
#include "fs/cache/extent_memory.hpp"
#include "fs/cache/file_buffer_extent.hpp"
#include "fs/cache/pinned_memory.hpp"

namespace warren {

using format::Block;
using format::block_size;

namespace {

// Among this many candidates the cheapest one is evicted.
constexpr u32 candidates_max = 8;
// After this many waits for room, the limit is exceeded by one extent.
constexpr u32 waits_max = 8;
// Attempts to lock the mutex before a thread sleeps; they take some microseconds.
constexpr u32 looks_max = 200;

/// Locks the mutex, spinning first: holders keep it only briefly, and putting a thread to sleep and
/// waking it takes longer, for both threads.
void lock_soon(std::unique_lock<std::mutex>& lock) {
    for (u32 looks = 0; looks < looks_max; ++looks) {
        if (lock.try_lock()) return;
        pause_processor();
    }
    lock.lock();
}

}  // namespace

FileBuffer::FileBuffer(Disk& disk, const FileBufferShape& shape)
    : disk_(disk),
      shape_(shape),
      capacity_blocks_(shape.size_bytes / block_size),
      extent_blocks_max_(std::clamp<u64>(std::min(capacity_blocks_ / 8, shape.load_blocks_max), 1,
                                         extent_blocks_limit)),
      hints_(std::bit_ceil(capacity_blocks_ / shape.hint_blocks)),
      hint_shift_(std::countl_zero(hints_.size()) + 1),
      memory_(make_memory()) {
    WARREN_CHECK(shape.size_bytes >= size_bytes_min);
}

std::unique_ptr<BlockMemory> FileBuffer::make_memory() const {
    if (shape_.pin == nullptr)
        return std::make_unique<ExtentMemory>(capacity_blocks_, extent_blocks_max_);
    return std::make_unique<PinnedMemory>(capacity_blocks_, extent_blocks_max_, shape_.pin);
}

FileBuffer::~FileBuffer() {
    for (auto& [first, extent] : extents_)
        memory_->give_back(extent->memory, extent->blocks);
}

std::atomic<FileBuffer::Extent*>& FileBuffer::hint(u64 block) {
    const u64 mixed = block / shape_.hint_blocks * 0x9E3779B97F4A7C15;
    // Its highest bits: blocks of a run have hints of their own.
    return hints_[mixed >> hint_shift_];
}

FileBuffer::Extent* FileBuffer::find(u64 block) {
    auto at = extents_.upper_bound(block);
    if (at == extents_.begin()) return nullptr;
    Extent* extent = std::prev(at)->second;
    return block < extent->end() ? extent : nullptr;
}

u64 FileBuffer::next_begin(u64 block) const {
    const auto at = extents_.upper_bound(block);
    return at == extents_.end() ? ~u64{0} : at->first;
}

/// Returns a new, closed extent, or null if there is no memory. Requires: the caller has made room,
/// and no extent has these blocks.
FileBuffer::Extent* FileBuffer::insert(u64 block, u64 blocks, u64 limit) {
    Block* memory = nullptr;
    std::list<Extent*> place;
    const Errc code = or_no_memory([&] {
        memory = memory_->take(blocks);
        if (memory == nullptr) return Errc::no_memory;
        if (spare_ == nullptr) {
            all_extents_.push_back(std::make_unique<Extent>());
            spare_ = all_extents_.back().get();
        }
        place.push_back(spare_);
        spare_->entry = extents_.emplace(block, spare_).first;
        return Errc::ok;
    });
    if (code != Errc::ok) {
        if (memory != nullptr) memory_->give_back(memory, blocks);
        return nullptr;
    }
    Extent* extent = std::exchange(spare_, spare_->next_spare);
    extent->memory = memory;
    extent->first = block;
    extent->blocks = blocks;
    extent->limit = limit;
    extent->was_hinted.store(false, std::memory_order_relaxed);
    extent->position = place.begin();
    order_.splice(order_.end(), place);
    used_blocks_ += blocks;
    return extent;
}

/// Evicts the extent if it is idle; false if it is not.
bool FileBuffer::erase_idle(Extent* extent) {
    if (!extent->is_idle() || !extent->close()) return false;
    erase(extent);
    return true;
}

/// Requires: the extent is closed.
void FileBuffer::erase(Extent* extent) {
    used_blocks_ -= extent->blocks;
    dirty_blocks_ -= std::exchange(extent->dirty_count, 0);
    extent->dirty.reset();
    memory_->give_back(extent->memory, extent->blocks);
    order_.erase(extent->position);
    extents_.erase(extent->entry);
    extent->next_spare = std::exchange(spare_, extent);
}

/// What an extent has from `place` on, at most `length`. Requires: it has that.
std::span<const std::byte> FileBuffer::bytes_at(Extent& extent, u64 place, u64 length) {
    const u64 begin = place - extent.first * block_size;
    return {extent.bytes() + begin, std::min(length, extent.blocks * block_size - begin)};
}

/// Undoes enter(): a user that has not locked the table leaves.
void FileBuffer::leave(Extent* extent) {
    // Sequentially consistent: pairs with make_room(), which increments room_seekers_ before it
    // checks for users.
    extent->users.fetch_sub(1, std::memory_order_seq_cst);
    if (room_seekers_.load(std::memory_order_seq_cst) == 0) return;
    { const Lock lock(mutex_); }
    changed_.notify_all();
}

/// Calls `copy` with the mutex unlocked, counted as a user so that the extent is not evicted.
template <class Copy>
void FileBuffer::use(Lock& lock, Extent* extent, const Copy& copy) {
    extent->users.fetch_add(1, std::memory_order_relaxed);
    order_.splice(order_.end(), order_, extent->position);
    lock.unlock();
    copy();
    lock_soon(lock);
    // Relaxed suffices, because the mutex orders this.
    extent->users.fetch_sub(1, std::memory_order_relaxed);
    changed_.notify_all();
}

void FileBuffer::mark_dirty(Extent& extent, u64 first, u64 count) {
    set_bits(extent.dirty, first, count, true);
    dirty_blocks_ -= extent.dirty_count;
    extent.dirty_count = extent.dirty.count();
    dirty_blocks_ += extent.dirty_count;
}

/// The number of blocks to load for a reader: twice as many as in the load before if the reader
/// continues where that ended.
u64 FileBuffer::load_length(u64 block, u64 wanted, u64 end, u64& limit) {
    const Extent* before = block == 0 ? nullptr : find(block - 1);
    limit = before == nullptr ? shape_.first_load_blocks : before->limit * 2;
    limit = std::clamp<u64>(limit, 1, shape_.load_blocks_max);
    const u64 most = std::min(extent_blocks_max_, next_begin(block) - block);
    return std::min({std::max(wanted, limit), most, std::max(end, block + 1) - block});
}

/// Loads `block` and some blocks after it, and counts the caller as a user of `loaded`; otherwise
/// concurrent loaders could evict each other's extents before their first use. `loaded` is null if
/// another thread has loaded the block meanwhile.
Errc FileBuffer::load(Lock& lock, RoomFor what, u64 block, u64 wanted, u64 end, Extent*& loaded) {
    loaded = nullptr;
    u64 limit = 0;
    const u64 room = load_length(block, wanted, end, limit);
    WARREN_TRY(make_room(lock, what, room));
    if (find(block) != nullptr) return Errc::ok;
    // Meanwhile another thread may have evicted or loaded the extent after it.
    const u64 blocks = std::min(room, load_length(block, wanted, end, limit));
    Extent* extent = insert(block, blocks, limit);
    if (extent == nullptr) return Errc::no_memory;
    extent->is_loading = true;
    ++busy_;
    lock.unlock();
    const Errc code =
        disk_.read(block * block_size, std::span(extent->bytes(), blocks * block_size));
    lock_soon(lock);
    --busy_;
    extent->is_loading = false;
    ++figures_.loads;
    figures_.loaded_blocks += blocks;
    if (code == Errc::ok) {
        extent->users.fetch_add(1, std::memory_order_relaxed);
        extent->open();
        loaded = extent;
    } else {
        erase(extent);
    }
    changed_.notify_all();
    return code;
}

/// Enters the extent with the block of `place` if the hint names it, else null.
FileBuffer::Extent* FileBuffer::enter_hinted(u64 place) {
    const u64 block = place / block_size;
    // Pairs with the release in enter_found().
    Extent* extent = hint(block).load(std::memory_order_acquire);
    if (extent == nullptr) return nullptr;
    if (extent->enter() && block >= extent->first && block < extent->end()) {
        extent->was_hinted.store(true, std::memory_order_relaxed);
        return extent;
    }
    // If the extent was closed and has been opened meanwhile, a thread may wait for this user.
    leave(extent);
    return nullptr;
}

/// Enters the extent that the table names, loaded if need be: then with up to `length` bytes.
Errc FileBuffer::enter_found(RoomFor what, u64 place, u64 length, u64 run_end, Extent*& extent) {
    Lock lock(mutex_, std::defer_lock);
    lock_soon(lock);
    const u64 block = place / block_size;
    for (extent = nullptr; extent == nullptr;) {
        Extent* found = find(block);
        if (found == nullptr) {
            const u64 wanted = (place + length + block_size - 1) / block_size - block;
            WARREN_TRY(load(lock, what, block, wanted, run_end / block_size, extent));
        } else if (found->is_loading) {
            changed_.wait(lock);
        } else {
            found->users.fetch_add(1, std::memory_order_relaxed);
            extent = found;
        }
    }
    order_.splice(order_.end(), order_, extent->position);
    // Pairs with the acquire in enter_hinted().
    hint(block).store(extent, std::memory_order_release);
    return Errc::ok;
}

Errc FileBuffer::enter(RoomFor what, u64 place, u64 length, u64 run_end, Extent*& extent) {
    extent = enter_hinted(place);
    return extent != nullptr ? Errc::ok : enter_found(what, place, length, run_end, extent);
}

Errc FileBuffer::read(u64 place, std::span<std::byte> target, u64 run_end) {
    while (!target.empty()) {
        Extent* extent = nullptr;
        WARREN_TRY(enter(RoomFor::read, place, target.size(), run_end, extent));
        const std::span<const std::byte> found = bytes_at(*extent, place, target.size());
        {
            const std::shared_lock still(extent->content);
            std::memcpy(target.data(), found.data(), found.size());
        }
        leave(extent);
        place += found.size();
        target = target.subspan(found.size());
    }
    return Errc::ok;
}

Errc FileBuffer::hold(u64 place, u64 length, u64 run_end, HeldContents& held) {
    held.release();
    Extent* extent = nullptr;
    WARREN_TRY(enter(RoomFor::hold, place, length, run_end, extent));
    if (!extent->content.try_lock_shared()) {
        leave(extent);
        return Errc::busy;
    }
    held.buffer_ = this;
    held.extent_ = extent;
    held.bytes_ = bytes_at(*extent, place, length);
    held.is_pinned_ = memory_->is_pinned(extent->memory);
    return Errc::ok;
}

void FileBuffer::release(HeldContents& held) {
    auto* const extent = static_cast<Extent*>(held.extent_);
    extent->content.unlock_shared();
    leave(extent);
    held.buffer_ = nullptr;
    held.bytes_ = {};
}

void HeldContents::release() {
    if (buffer_ != nullptr) buffer_->release(*this);
}

/// Makes an extent of whole new blocks from the beginning of `source`; without memory for it,
/// writes them to the disk.
Errc FileBuffer::fill_new(Lock& lock, u64 block, std::span<const std::byte> source, u64& done) {
    done = 0;
    u64 blocks = std::min(source.size() / block_size, extent_blocks_max_);
    WARREN_TRY(make_room(lock, RoomFor::write, blocks));
    if (find(block) != nullptr) return Errc::ok;
    blocks = std::min(blocks, next_begin(block) - block);
    Extent* extent = insert(block, blocks, shape_.first_load_blocks);
    if (extent == nullptr) {
        // The journal may hold older contents of a block, and would write them later.
        if (!shape_.writes_itself) return Errc::no_memory;
        lock.unlock();
        const Errc code = disk_.write(block * block_size, source.first(blocks * block_size));
        lock_soon(lock);
        // Blocks that another thread has loaded meanwhile are not done: it may have read old bytes.
        if (code != Errc::ok || find(block) != nullptr) return code;
        done = std::min(blocks, next_begin(block) - block) * block_size;
        return Errc::ok;
    }
    extent->is_loading = true;
    done = blocks * block_size;
    use(lock, extent, [&] { std::memcpy(extent->bytes(), source.data(), done); });
    extent->is_loading = false;
    mark_dirty(*extent, 0, blocks);
    extent->open();
    return Errc::ok;
}

Errc FileBuffer::write(u64 place, std::span<const std::byte> source) {
    Lock lock(mutex_, std::defer_lock);
    lock_soon(lock);
    while (!source.empty()) {
        const u64 block = place / block_size;
        const bool is_whole = place % block_size == 0 && source.size() >= block_size;
        Extent* extent = find(block);
        Extent* loaded = nullptr;
        if (extent == nullptr && !is_whole) {
            WARREN_TRY(load(lock, RoomFor::write, block, 1, block + 1, loaded));
            extent = loaded;
            if (extent == nullptr) continue;
        }
        u64 length = 0;
        if (extent != nullptr && extent->is_locked()) {
            changed_.wait(lock);
        } else if (extent != nullptr) {
            const u64 begin = place - extent->first * block_size;
            length = std::min(source.size(), extent->blocks * block_size - begin);
            use(lock, extent, [&] {
                const std::unique_lock alone(extent->content);
                std::memcpy(extent->bytes() + begin, source.data(), length);
            });
            const u64 first = begin / block_size;
            mark_dirty(*extent, first, (begin + length - 1) / block_size - first + 1);
            if (loaded != nullptr) loaded->users.fetch_sub(1, std::memory_order_relaxed);
        } else {
            WARREN_TRY(fill_new(lock, block, source, length));
        }
        place += length;
        source = source.subspan(length);
        if (length > 0) WARREN_TRY(keep_below_limit(lock));
    }
    return Errc::ok;
}

/// Chooses, among the least recently used extents that may be evicted, the one with the lowest cost
/// for the room that it frees; with `writes_dirty` dirty ones too. Null if there is none; then
/// `is_in_use` says whether one may become idle later.
FileBuffer::Extent* FileBuffer::find_victim(bool writes_dirty, bool& is_in_use) {
    is_in_use = busy_ > 0;
    Extent* best = nullptr;
    u32 candidates = 0;
    u64 later = order_.size();  // how many may still go to the end, where recently used ones belong
    for (auto at = order_.begin(); at != order_.end() && candidates < candidates_max;) {
        Extent* extent = *at++;
        if (later > 0 && extent->was_hinted.load(std::memory_order_relaxed)) {
            extent->was_hinted.store(false, std::memory_order_relaxed);
            order_.splice(order_.end(), order_, extent->position);
            // This was the last element and still is: visit it again, or the loop would end here.
            if (at == order_.end()) at = extent->position;
            --later;
            continue;
        }
        // Read once: if a user entered between two reads, the extent could be skipped without
        // counting as in use.
        const bool is_used = extent->is_used();
        is_in_use |= is_used;
        const bool may_go = extent->dirty_count == 0 || writes_dirty;
        if (is_used || extent->is_kept() || !may_go) continue;
        if (best == nullptr || extent->cost() * best->blocks < best->cost() * extent->blocks) {
            best = extent;
        }
        ++candidates;
    }
    return best;
}

/// Evicts extents until `blocks` more blocks fit. Blocks that only a commit can write stay in
/// memory, even beyond the limit. For a caller that only reads, so do extents whose write fails,
/// because that error does not concern a reader.
Errc FileBuffer::make_room(Lock& lock, RoomFor what, u64 blocks) {
    bool writes_dirty = shape_.writes_itself;
    u32 waits = 0;
    while (used_blocks_ + blocks > capacity_blocks_) {
        bool is_in_use = false;
        Extent* victim = find_victim(writes_dirty, is_in_use);
        if (victim == nullptr && what == RoomFor::hold) {
            // It may be the caller that uses the others.
            return Errc::busy;
        }
        if (victim == nullptr) {
            // Sequentially consistent: pairs with leave(). A user that left before this is seen as
            // gone by the second search; one that leaves later sees room_seekers_ and wakes this
            // thread.
            room_seekers_.fetch_add(1, std::memory_order_seq_cst);
            victim = find_victim(writes_dirty, is_in_use);
            const bool is_over = victim == nullptr && (!is_in_use || ++waits > waits_max);
            if (victim == nullptr && !is_over) changed_.wait(lock);
            room_seekers_.fetch_sub(1, std::memory_order_relaxed);
            if (is_over) return Errc::ok;
        } else if (static_cast<void>(drop_unwanted(*victim)); victim->dirty_count > 0) {
            const Errc written = write_some(lock, std::span(&victim, 1));
            if (written != Errc::ok && what != RoomFor::read) return written;
            writes_dirty = written == Errc::ok;
        } else if (erase_idle(victim)) {
            ++figures_.evictions;
        }
    }
    return Errc::ok;
}

FileBufferFigures FileBuffer::figures() const {
    const Lock lock(mutex_);
    FileBufferFigures figures = figures_;
    figures.blocks = used_blocks_;
    figures.dirty_blocks = dirty_blocks_;
    return figures;
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The expected contents of a block follow from its place. The kind of its frame says whether it
// holds inodes, an inode bitmap or a tree block, and the bitmaps say whether it holds anything yet.
#include "fs/cache/meta_loader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/out_of_memory.hpp"
#include "fs/core/acl.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/core/head_table.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/check_structure.hpp"
#include "fs/ops/show_block.hpp"

namespace warren {

using core::FrameOverlay;
using format::Block;
using format::BlockKind;
using format::FrameKind;

namespace {

// How long a thread waits for a block that another one has reserved before it looks again.
constexpr std::chrono::microseconds reserved_look{20};

bool is_tree_kind(u16 kind) {
    const auto found = static_cast<BlockKind>(kind);
    return (found >= BlockKind::directory_leaf && found <= BlockKind::attributes) ||
           found == BlockKind::link_target || found == BlockKind::reference_counts;
}

/// Makes the inode bitmap `block` the resident block at `place` in the host's Store, which is fully
/// resident.
void copy_in(const core::Store& store, u64 place, const Block& block) {
    core::CopyWords()(ThreadTeam{}, block, core::block_at<Block>(store, place));
    core::make_resident(store, place);
}

u64 frame_place_of(u64 place) {
    return place / format::frame_size * format::frame_size;
}

}  // namespace

MetaLoader::MetaLoader(Disk& disk, const core::Store& store, u64 volume)
    : disk_(disk),
      store_(store),
      volume_(volume),
      blocks_(std::make_unique_for_overwrite<Block[]>(reads_max)) {
    for (u64 i = 0; i < reads_max; ++i)
        reads_[i].block = &blocks_[i];
}

Errc MetaLoader::load(u64 place, MetaBuffer* buffer) {
    std::unique_lock lock(mutex_);
    for (;;) {
        Errc result = Errc::retry;
        if (Read* const other = find_read(place, buffer)) {
            ++other->askers;
            changed_.wait(lock, [&] { return other->is_over; });
            result = leave(*other);
        } else if (const Result<Read*> started = start(place, buffer); started) {
            if (*started == nullptr) return Errc::ok;
            const bool is_written = (*started)->expected.is_written;
            if (is_written) lock.unlock();  // else the read only clears the block
            read_in({&*started, 1});
            if (is_written) lock.lock();
            result = finish(**started);
            if (!is_written && buffer == nullptr && holds_inodes(place) && is_resident(place))
                show_unwritten(place);
        } else if (started.code() == Errc::need_block) {
            lock.unlock();
            WARREN_TRY(load(frame_place_of(place)));
            lock.lock();
        } else if (started.code() == Errc::busy) {
            changed_.wait(lock);
        } else {
            return started.code();
        }
        if (result == Errc::retry) continue;
        const bool is_reserved = result == Errc::ok && buffer == nullptr &&
                                 store_.heads == nullptr && !is_resident(place);
        lock.unlock();
        if (is_reserved) std::this_thread::sleep_for(reserved_look);
        return result;
    }
}

void MetaLoader::load_many(std::span<const u64> places, std::span<Errc> answers,
                           MetaBuffer* buffer) {
    std::array<Errc, batch_max> ignored;
    std::array<u64, batch_max> bitmaps;
    while (!places.empty()) {
        const u64 count = std::min<u64>(places.size(), batch_max);
        u64 bitmap_count = 0;
        for (const u64 place : places.first(count)) {
            const u64 bitmap = frame_place_of(place);
            const bool is_noted = bitmap_count != 0 && bitmaps[bitmap_count - 1] == bitmap;
            if (holds_inodes(place) && !is_noted && !is_resident(bitmap)) {
                bitmaps[bitmap_count++] = bitmap;
            }
        }
        // A failed load of a bitmap is repeated, and reported, by the load that needs the bitmap.
        load_some(std::span(bitmaps).first(bitmap_count), ignored, nullptr);
        load_some(places.first(count), answers, buffer);
        for (u64 i = 0; i < count; ++i) {
            if (answers[i] == Errc::retry) answers[i] = load(places[i], buffer);
        }
        places = places.subspan(count);
        answers = answers.subspan(count);
    }
}

/// load_many() for at most batch_max places. Errc::retry: a read could not begin, or must be
/// repeated.
void MetaLoader::load_some(std::span<const u64> places, std::span<Errc> answers,
                           MetaBuffer* buffer) {
    std::array<Read*, batch_max> mine;
    std::array<u64, batch_max> items;
    u64 count = 0;
    {
        // Never waits while reads are begun but not issued: load() reads the other places later.
        const std::lock_guard lock(mutex_);
        for (u64 i = 0; i < places.size(); ++i) {
            const Result<Read*> started = start(places[i], buffer);
            answers[i] = started ? Errc::ok : Errc::retry;
            if (!started || *started == nullptr) continue;
            mine[count] = *started;
            items[count++] = i;
        }
    }
    read_in(std::span(mine).first(count));
    {
        const std::lock_guard lock(mutex_);
        for (u64 i = 0; i < count; ++i)
            answers[items[i]] = finish(*mine[i]);
    }
}

u64 MetaLoader::waiters() {
    const std::lock_guard lock(mutex_);
    u64 count = 0;
    for (const Read& read : reads_)
        count += read.askers != 0 && !read.is_over ? read.askers - 1 : 0;
    return count;
}

/// The read of `place` that is running, or null. Under the lock.
MetaLoader::Read* MetaLoader::find_read(u64 place, const MetaBuffer* buffer) {
    for (Read& read : reads_) {
        if (read.askers == 0 || read.is_over) continue;
        if (read.place == place && read.buffer == buffer) return &read;
    }
    return nullptr;
}

/// Begins a read for the caller, which must then call read_in() and finish(). Null if the block is
/// resident. Errc::busy if the block is being read or too many reads are running; Errc::need_block
/// if the bitmap of its inodes is not in memory. Under the lock.
Result<MetaLoader::Read*> MetaLoader::start(u64 place, MetaBuffer* buffer) {
    if (buffer == nullptr && is_resident(place)) return nullptr;
    if (find_read(place, buffer) != nullptr) return Errc::busy;
    const auto unused = std::find_if(reads_.begin(), reads_.end(),
                                     [](const Read& read) { return read.askers == 0; });
    if (unused == reads_.end()) return Errc::busy;
    if (buffer != nullptr && holds_inodes(place)) {
        WARREN_TRY(take_bitmap(*buffer, frame_place_of(place)));
    }
    WARREN_LET(expected, expect(place));
    ++loads_;
    unused->place = place;
    unused->buffer = buffer;
    unused->expected = *expected;
    unused->askers = 1;
    unused->is_over = false;
    unused->is_void = false;
    return &*unused;
}

/// Copies the engine's version of an inode bitmap to the host. If the engine does not have the
/// bitmap in memory, the newest version is that of the last commit, which the host or the disk has.
Errc MetaLoader::take_bitmap(MetaBuffer& buffer, u64 place) {
    Block bitmap;
    const Errc read = or_no_memory([&] { return buffer.read_block(place, bitmap); });
    if (read == Errc::ok) copy_in(store_, place, bitmap);
    return read == Errc::need_block ? Errc::ok : read;
}

/// Fills the blocks of reads from the disk, or with zeros, and stores the result of each read.
/// Called without the lock.
void MetaLoader::read_in(std::span<Read* const> reads) {
    std::array<DiskRead, batch_max> requests;
    u64 count = 0;
    for (const Read* read : reads) {
        if (read->expected.is_written) requests[count++] = request_of(*read);
    }
    Errc all = Errc::ok;
    if (count != 0) {
        all = or_no_memory([&] { return disk_.read_many(std::span(requests).first(count)); });
    }
    for (Read* read : reads) {
        read->result = all;
        if (!read->expected.is_written) {
            std::memset(read->block, 0, sizeof *read->block);
            read->result = Errc::ok;
        } else if (all != Errc::ok && count != 1) {
            // There is one result for all: read one block at a time to find those that fail.
            const DiskRead request = request_of(*read);
            read->result = or_no_memory([&] { return disk_.read(request.offset, request.target); });
        }
        if (read->expected.is_written && read->result == Errc::ok) {
            read->result = accept(read->place, read->expected, *read->block);
        }
    }
}

DiskRead MetaLoader::request_of(const Read& read) {
    return {read.place, std::as_writable_bytes(std::span(read.block, 1))};
}

/// Makes the block of a read resident and wakes all callers that wait for it. Under the lock.
Errc MetaLoader::finish(Read& read) {
    if (read.result == Errc::ok) {
        read.result = or_no_memory([&] { return put(read); });
    }
    read.is_over = true;
    changed_.notify_all();
    return leave(read);
}

/// Ends a caller's part in a read; returns its result. Under the lock.
Errc MetaLoader::leave(Read& read) {
    const Errc result = read.result;
    if (--read.askers == 0) changed_.notify_all();
    return result;
}

/// Makes resident what was read, unless that may be out of date: then the callers try again.
/// Errc::retry if the frame has another kind now: a frame that an operation has added is freed if a
/// commit ends before the operation comes back to use it. Under the lock.
Errc MetaLoader::put(Read& read) {
    if (read.is_void) return Errc::ok;
    const FrameKind kind = core::kind_of(store_, read.place / format::frame_size);
    if (kind != read.expected.kind) return Errc::retry;
    if (read.buffer == nullptr && store_.heads == nullptr) {
        ops::show_block(store_, read.place, kind, *read.block);
        return Errc::ok;
    }
    WARREN_TRY(keep_evicted());
    restore_references(read.place, *read.block);
    WARREN_TRY(read.buffer != nullptr ? read.buffer->place_block(read.place, *read.block, evicted_)
                                      : ops::place_block(ThreadTeam{}, store_, hand_, read.place,
                                                         *read.block, evicted_));
    forget_references(read.place);
    if (evicted_.place == core::place_none) return Errc::ok;
    // The evicted block was resident when that read began, and may have been changed since.
    if (Read* const other = find_read(evicted_.place, read.buffer)) other->is_void = true;
    static_cast<void>(keep_evicted());  // if this fails, it is tried again before the next eviction
    return Errc::ok;
}

/// Calls keep_references() for the block that was evicted last. After Errc::no_memory that remains
/// to be done.
Errc MetaLoader::keep_evicted() {
    if (evicted_.place == core::place_none) return Errc::ok;
    WARREN_TRY(or_no_memory([&] { keep_references(evicted_.place, evicted_.block); }));
    evicted_.place = core::place_none;
    return Errc::ok;
}

/// Saves the references in an evicted block of inodes, because the disk does not have them.
void MetaLoader::keep_references(u64 place, const Block& block) {
    if (!holds_inodes(place)) return;
    const auto* inodes = reinterpret_cast<const format::Inode*>(&block);
    std::vector<Kept> kept;
    for (u32 slot = 0; slot < format::inodes_per_block; ++slot) {
        const format::Inode& inode = inodes[slot];
        if (inode.references == 0) continue;
        kept.push_back({slot, inode.generation, inode.references});
        if (inode.generation == 0) {
            removed_.insert_or_assign(place / format::inode_size + slot, inode);
        }
    }
    if (!kept.empty()) kept_[place] = std::move(kept);
}

/// Restores in `block` what keep_references() saved.
void MetaLoader::restore_references(u64 place, Block& block) const {
    const auto found = kept_.find(place);
    if (found == kept_.end()) return;
    auto* inodes = reinterpret_cast<format::Inode*>(&block);
    for (const Kept& kept : found->second) {
        format::Inode& inode = inodes[kept.slot];
        if (kept.generation == 0) inode = removed_.at(place / format::inode_size + kept.slot);
        inode.references = kept.references;
    }
}

/// Drops what keep_references() saved, because the block is in memory again.
void MetaLoader::forget_references(u64 place) {
    const auto found = kept_.find(place);
    if (found == kept_.end()) return;
    for (const Kept& kept : found->second)
        removed_.erase(place / format::inode_size + kept.slot);
    kept_.erase(found);
}

bool MetaLoader::holds_inodes(u64 place) const {
    return place % format::frame_size != 0 &&
           core::kind_of(store_, place / format::frame_size) == FrameKind::inodes;
}

bool MetaLoader::is_resident(u64 place) {
    if (pin(place) == nullptr) return false;
    unpin(place);
    return true;
}

/// The used bits of the inodes in the block at `place`. Errc::need_block if their bitmap is not in
/// memory.
Result<u64> MetaLoader::inodes_in_use(u64 place) {
    const u32 slot = static_cast<u32>(place / format::inode_size % format::inodes_per_frame);
    Block* block = pin(frame_place_of(place));
    if (block == nullptr) return Errc::need_block;
    const auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(block);
    const u64 used = relaxed_load(bitmap.used[slot / 64]) >> slot % 64 & 0xffff;
    unpin(frame_place_of(place));
    return used;
}

/// What the disk should have at `place`. If nothing, then an operation is about to fill the block,
/// or has followed an outdated pointer. Errc::need_block as from inodes_in_use().
Result<MetaLoader::Expected> MetaLoader::expect(u64 place) {
    const u64 frame = place / format::frame_size;
    const u64 bit = place / format::block_size % format::blocks_per_frame;
    Expected expected{core::kind_of(store_, frame), true, 0};
    if (expected.kind == FrameKind::inodes) {
        if (bit == 0) return expected;
        WARREN_LET(used, inodes_in_use(place));
        expected.used = *used;
        expected.is_written = *used != 0;
        return expected;
    }
    if (expected.kind == FrameKind::free) {
        expected.is_written = false;
        return expected;
    }
    if (expected.kind != FrameKind::metadata) return Errc::corrupt;
    expected.is_written = (relaxed_load(store_.frame(frame).used[bit / 64]) >> bit % 64 & 1) != 0;
    return expected;
}

/// Checks a block that was read from `place`, and clears slots that hold no valid inode.
Errc MetaLoader::accept(u64 place, const Expected& expected, Block& block) const {
    if (expected.kind == FrameKind::inodes) {
        if (place % format::frame_size == 0) {
            return format::check_block(block, BlockKind::inode_bitmap, volume_, place);
        }
        accept_inodes(place, expected.used, block);
        return Errc::ok;
    }
    const u16 found = reinterpret_cast<format::BlockHeader&>(block).kind;
    if (!is_tree_kind(found)) return Errc::corrupt;
    WARREN_TRY(format::check_block(block, static_cast<BlockKind>(found), volume_, place));
    const bool is_sound =
        static_cast<BlockKind>(found) == BlockKind::attributes
            ? core::attributes_are_sound(reinterpret_cast<const format::AttributeBlock&>(block))
            : format::structure_is_sound(block, static_cast<BlockKind>(found), store_.size_bytes);
    return is_sound ? Errc::ok : Errc::corrupt;
}

void MetaLoader::accept_inodes(u64 place, u64 used, Block& block) const {
    const u64 first = place / format::inode_size;
    auto* inodes = reinterpret_cast<format::Inode*>(&block);
    for (u32 i = 0; i < format::inodes_per_block; ++i) {
        const bool lives = (used >> i & 1) != 0 &&
                           format::inode_is_sound(inodes[i], volume_, first + i) &&
                           format::inode_is_possible(inodes[i], store_.size_bytes);
        if (!lives) inodes[i].generation = 0;
        inodes[i].references = 0;
    }
}

void MetaLoader::load_frame(u64 frame) {
    constexpr u32 blocks = format::blocks_per_frame;
    const u64 first_place = frame * format::frame_size;
    const FrameKind kind = core::kind_of(store_, frame);
    if (kind != FrameKind::inodes && kind != FrameKind::metadata) return;
    auto* memory = reinterpret_cast<Block*>(store_.base + first_place);
    if (core::has_bit(store_.resident + frame * (blocks / 64))) return;
    u32 begin = 0;
    if (kind == FrameKind::inodes) {
        if (load(first_place) != Errc::ok) return;
        begin = 1;
    }
    u32 end = blocks;
    while (end > begin && !is_written(first_place + (end - 1) * format::block_size))
        --end;
    const auto span = std::as_writable_bytes(std::span(memory + begin, end - begin));
    if (!span.empty() && disk_.read(first_place + begin * format::block_size, span) != Errc::ok) {
        std::memset(span.data(), 0, span.size());
        return;
    }
    for (u32 block = begin; block < blocks; ++block) {
        const bool was_read = block < end;
        const u64 place = first_place + block * format::block_size;
        const Result<Expected> expected = expect(place);
        if (expected && expected->is_written) {
            // A block that fails the check is read again by the operation that needs it.
            if (accept(place, *expected, memory[block]) == Errc::ok) {
                core::make_resident(store_, place);
            }
            continue;
        }
        if (was_read) std::memset(&memory[block], 0, sizeof memory[block]);
        if (kind == FrameKind::inodes) core::make_resident(store_, place);
    }
}

void MetaLoader::adopt(u64 place, const Block& block) {
    // The lock excludes take_bitmap(), which may be copying a newer bitmap from the engine.
    const std::lock_guard lock(mutex_);
    copy_in(store_, place, block);
}

Block* MetaLoader::pin(u64 place) {
    if (store_.heads == nullptr) {
        return core::is_resident(store_, place) ? reinterpret_cast<Block*>(store_.base + place)
                                                : nullptr;
    }
    const u32 head = core::link_head(*store_.heads, place);
    return head == core::head_none ? nullptr : &store_.heads->blocks[head];
}

void MetaLoader::unpin(u64 place) {
    if (store_.heads != nullptr) core::drop_link(*store_.heads, place);
}

}  // namespace warren

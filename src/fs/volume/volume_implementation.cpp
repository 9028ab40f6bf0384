// SPDX-License-Identifier: Apache-2.0
// The driver's side of the contract with operations: what each of their wishes costs and when it
// ends in an error for the caller.
#include "fs/volume/volume_implementation.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "fs/format/check_block.hpp"
#include "fs/ops/change_structure.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/reclaim.hpp"
#include "fs/volume/superblock_io.hpp"
#include "fs/volume/tree_remover.hpp"

namespace warren {

using format::FrameKind;

i64 now_nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return i64{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

ThreadTeam this_team() {
    static std::atomic<u32> count{0};
    thread_local const u32 worker = count.fetch_add(1, std::memory_order_relaxed);
    return ThreadTeam{worker};
}

core::Credentials credentials_of(const Caller& caller) {
    return {caller.user,          caller.group,
            caller.groups.data(), static_cast<u32>(caller.groups.size()),
            caller.umask,         caller.check};
}

VolumeImplementation::VolumeImplementation(std::unique_ptr<Disk> disk,
                                           const format::Superblock& superblock,
                                           const OpenOptions& options)
    : disk_(std::move(disk)),
      superblock_(superblock),
      options_(options),
      data_locks_(std::make_unique<std::shared_mutex[]>(data_lock_count)),
      crew_(options.workers) {}

Errc VolumeImplementation::start() {
    StoreShape shape;
    shape.size_bytes = superblock_.size_bytes;
    shape.frame_table_offset = superblock_.frame_table_offset;
    shape.frame_table_blocks = superblock_.frame_table_blocks;
    shape.meta_buffer_blocks = options_.meta_buffer_bytes / format::block_size;
    WARREN_TRY(memory_.open(shape));
    core::Store& store = memory_.store();
    store.hash_key[0] = superblock_.hash_key[0];
    store.hash_key[1] = superblock_.hash_key[1];
    store.root_inode = superblock_.root_inode;
    store.orphan_directory = superblock_.orphan_directory;
    store.reserve_blocks = std::min<u64>(1024, store.block_count() / 64);
    core::StoreState& state = *store.state;
    state.metadata_frames_end = superblock_.metadata_frames_end;
    state.data_frames_begin = superblock_.data_frames_begin;
    state.blocks_used = superblock_.blocks_used;
    state.inodes_used = superblock_.inodes_used;
    state.generation = superblock_.generation + (options_.read_only ? 0 : 65536);
    state.read_only = options_.read_only ? 1 : 0;
    u64 volume;
    std::memcpy(&volume, superblock_.uuid, sizeof volume);
    loader_ = std::make_unique<MetaLoader>(*disk_, store, volume);
    WARREN_TRY(load_frame_table());
    if (options_.read_only) return Errc::ok;
    superblock_.clean = 0;
    WARREN_TRY(
        write_superblock(*disk_, superblock_, superblock_.header.transaction + 1, Copies::both));
    committer_ = std::make_unique<Committer>(*disk_, store, *loader_, superblock_);
    return Errc::ok;
}

/// Reads the table blocks that describe frames in use; the others stay zero, which means free.
Errc VolumeImplementation::load_frame_table() {
    core::Store& store = memory_.store();
    u64 volume;
    std::memcpy(&volume, superblock_.uuid, sizeof volume);
    const u64 low = superblock_.metadata_frames_end;
    const u64 high = superblock_.data_frames_begin;
    for (u64 index = 0; index < superblock_.frame_table_blocks; ++index) {
        const u64 first = index * format::frames_per_table_block;
        const u64 end = std::min(first + format::frames_per_table_block, store.frame_count);
        if (first >= low && end <= high) continue;
        auto& table = store.frame_table[index];
        auto& block = reinterpret_cast<format::Block&>(table);
        const u64 place = superblock_.frame_table_offset + index * format::block_size;
        WARREN_TRY(disk_->read(place, std::as_writable_bytes(std::span(&block, 1))));
        static const format::Block untouched{};
        if (std::memcmp(&block, &untouched, sizeof block) == 0) continue;
        WARREN_TRY(format::check_block(block, format::BlockKind::frame_table, volume, place));
        for (const format::FrameEntry& entry : table.entries) {
            if (entry.kind > static_cast<u64>(FrameKind::data)) return Errc::corrupt;
        }
    }
    for (u64 frame = 0; frame < store.frame_count; ++frame) {
        if (frame >= low && frame < high) {
            // Frames that no commit has touched: mark whole words of them at once.
            if (frame % 64 == 0 && frame + 64 <= high) {
                store.frames_free[frame / 64] = ~u64{0};
                store.state->free_frames += 64;
                frame += 63;
                continue;
            }
        }
        adopt_frame(frame);
    }
    return Errc::ok;
}

/// Takes a frame into the allocator's side tables.
void VolumeImplementation::adopt_frame(u64 frame) {
    core::Store& store = memory_.store();
    const FrameKind kind = core::kind_of(store, frame);
    switch (kind) {
        case FrameKind::free:
            core::set_bit(store.frames_free, frame);
            ++store.state->free_frames;
            break;
        case FrameKind::inodes:
            store.state->inode_slots += format::inodes_per_frame - format::inodes_per_block;
            core::set_bit(core::room_of(store, kind), frame);
            break;
        case FrameKind::metadata:
        case FrameKind::data:
            std::memcpy(store.overlays[frame].committed, store.frame(frame).used,
                        sizeof store.overlays[frame].committed);
            core::set_bit(core::room_of(store, kind), frame);
            break;
        default:
            break;
    }
}

namespace {

constexpr u32 crowded_max = 64;

}  // namespace

Errc VolumeImplementation::serve(const Wish& wish, Attempts& attempts) {
    switch (wish.code) {
        case Errc::retry:
            if (++attempts.retries > 16) std::this_thread::yield();
            return Errc::ok;
        case Errc::need_block: {
            const Errc loaded = loader_->load(wish.place);
            // If a commit does not help either, all of the meta buffer is held by open files and
            // by what the kernel knows.
            if (loaded == Errc::need_commit) {
                return ++attempts.crowded > crowded_max ? Errc::no_memory : commit();
            }
            // The place may have changed hands since the operation read it: look again first.
            if (loaded == Errc::corrupt && ++attempts.damaged < 4) return Errc::ok;
            return loaded;
        }
        case Errc::need_commit:
            return commit();
        case Errc::need_space:
            if (attempts.committed_for_space) return Errc::no_space;
            attempts.committed_for_space = true;
            return commit();
        case Errc::need_split:
        case Errc::need_prune:
            return serve_structure(wish);
        case Errc::need_inodes: {
            const Errc added = add_inode_frame();
            if (added != Errc::need_space) return added;
            return serve({Errc::need_space, 0, 0, 0, false}, attempts);
        }
        case Errc::corrupt:
            // What was read under a version that held cannot be right; still, look twice.
            return ++attempts.damaged < 4 ? Errc::ok : Errc::corrupt;
        default:
            return Errc::io;
    }
}

Errc VolumeImplementation::serve_structure(const Wish& wish) {
    return run([&](CpuOperation& op) {
        op.may_use_reserve = wish.may_use_reserve;
        return ops::change_structure(op, wish.code, wish.inode, wish.key);
    });
}

/// Turns a free frame into one of inodes. Errc::need_space if no frame is free.
Errc VolumeImplementation::add_inode_frame() {
    std::lock_guard lock(inode_frame_mutex_);
    const core::Store& all = store();
    u64* room = core::room_of(all, FrameKind::inodes);
    if (core::find_bit_up(room, 0, all.frame_count) != all.frame_count) return Errc::ok;
    const Result<u64> frame = core::claim_frame(all, FrameKind::inodes);
    if (!frame) return frame.code();
    const Errc made =
        run([&](CpuOperation& op) -> Errc { return ops::start_inode_frame(op, *frame); });
    if (made != Errc::ok) core::unclaim_frame(all, *frame);
    return made;
}

Errc VolumeImplementation::settle(const ops::Removed& removed) {
    if (removed.prune_inode != 0) {
        // Only tidiness: the removal itself has succeeded.
        static_cast<void>(
            serve_structure({Errc::need_prune, 0, removed.prune_inode, removed.prune_key, true}));
    }
    return removed.reclaim.inode != 0 ? reclaim(removed.reclaim) : Errc::ok;
}

Errc VolumeImplementation::reclaim(Handle handle) {
    const Result<Attributes> attributes =
        run([&](CpuOperation& op) { return ops::get_attributes(op, handle, 0); });
    if (!attributes) return attributes.code() == Errc::stale ? Errc::ok : attributes.code();
    if ((attributes->mode & format::type_mask) == format::type_directory) {
        const Errc dying =
            run([&](CpuOperation& op) { return ops::start_dying(op, handle.inode); });
        if (dying != Errc::ok) return dying;
        Removal removal;
        return TreeRemover(*this).remove(handle.inode, removal);
    }
    std::unique_lock lock(data_lock(handle.inode));
    for (;;) {
        const Result<ops::Reclaimed> step =
            run([&](CpuOperation& op) { return ops::reclaim_step(op, handle, now_nanoseconds()); });
        if (!step) return step.code() == Errc::stale ? Errc::ok : step.code();
        if (step->is_done) return settle(step->removed);
    }
}

Errc VolumeImplementation::reclaim_orphans() {
    const Result<Handle> directory =
        run([&](CpuOperation& op) { return ops::handle_of(op, store().orphan_directory); });
    if (!directory) return directory.code();
    std::vector<u64> orphans;
    const auto leaf = std::make_unique<format::DirectoryLeaf>();
    for (u64 key = 0; key != core::key_end;) {
        const Result<u64> next =
            run([&](CpuOperation& op) { return ops::read_leaf(op, *directory, key, *leaf); });
        if (!next) return next.code();
        for (const format::DirectorySlot& slot : leaf->slots) {
            if (slot.inode() != 0) orphans.push_back(slot.inode());
        }
        key = *next;
    }
    for (const u64 orphan : orphans) {
        const Result<Handle> handle =
            run([&](CpuOperation& op) { return ops::handle_of(op, orphan); });
        if (!handle) return handle.code();
        WARREN_TRY(reclaim(*handle));
    }
    return Errc::ok;
}

Errc VolumeImplementation::commit() {
    return options_.read_only ? Errc::ok : committer_->commit();
}

Errc VolumeImplementation::close() {
    if (closed_) return Errc::ok;
    closed_ = true;
    if (options_.read_only || committer_ == nullptr) return Errc::ok;
    WARREN_TRY(committer_->commit());
    superblock_.clean = 1;
    return write_superblock(*disk_, superblock_, committer_->transaction() + 1, Copies::both);
}

}  // namespace warren

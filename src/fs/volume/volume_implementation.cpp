// SPDX-License-Identifier: Apache-2.0
// The driver: how each retry reason of an operation is served, and when it becomes an error.
//
// If the engine does not write data itself, a piece belongs to the file before its bytes are on the
// disk. Invariant: meanwhile no commit takes its snapshot, and no thread reads the file's data.
#include "fs/volume/volume_implementation.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/on_exit.hpp"
#include "base/out_of_memory.hpp"
#include "base/wait_notice.hpp"
#include "base/zeros.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/core/allocator.hpp"
#include "fs/engine/wait_to_retry.hpp"
#include "fs/format/check_block.hpp"
#include "fs/volume/inline_dedup.hpp"

namespace warren {

using format::FrameKind;

namespace {

constexpr u32 crowded_max = 64;

/// Adds a frame to the allocator's side tables.
void adopt_frame(const core::Store& store, u64 frame) {
    FrameKind kind = core::kind_of(store, frame);
    if (kind == FrameKind::inodes) {
        store.state->inode_slots += format::inode_slots_per_frame;
    } else if (kind == FrameKind::metadata || kind == FrameKind::data) {
        const auto& used = store.frame(frame).used;
        std::memcpy(store.overlays[frame].committed, used, sizeof used);
        // The commit that emptied it was the last one, so the frame was not freed on disk.
        if (!core::has_bit(used)) kind = FrameKind::free;
        relaxed_store(store.frame(frame).kind, static_cast<u64>(kind));
    }
    if (kind == FrameKind::free) {
        core::set_bit(store.frames_free, frame);
        ++store.state->free_frames;
    } else if (kind != FrameKind::system) {
        core::set_bit(core::space_hints(store, kind), frame);
    }
}

/// After a failed write of a piece: makes its blocks read as zeros, then stops all changes.
void hide_piece(VolumeImplementation& volume, const ops::Command& command, const ops::Piece& piece,
                Errc error) {
    if (!piece.keeps_rest) {
        ops::Command hide = command_on(command.handle);
        hide.verb = ops::Verb::allocate;
        hide.how = static_cast<u8>(Allocate::zero_range_keep_size);
        hide.from = piece.file_block * format::block_size;
        hide.length = piece.blocks * format::block_size;
        ops::Reply reply;
        static_cast<void>(volume.execute(hide, reply));
    }
    volume.end_changes(error);
}

}  // namespace

VolumeImplementation::VolumeImplementation(std::unique_ptr<Disk> disk,
                                           const format::Superblock& superblock,
                                           const OpenOptions& options)
    : disk_(std::move(disk)),
      superblock_(superblock),
      options_(options),
      data_locks_(std::make_unique<std::shared_mutex[]>(data_lock_count)),
      thread_pool_(options.workers),
      mapped_files_(*this) {}

void VolumeImplementation::watch_disk() {
    if (options_.read_only) return;
    // An engine with its own memory cannot continue: it has to hide a piece whose write failed.
    const ErrorMode errors = works_on_host() ? options_.errors : ErrorMode::remount_ro;
    disk_.watch(errors, [this](const DiskRefusal& refusal) {
        end_changes(refusal.code);
        if (!options_.refused) return;
        static_cast<void>(or_no_memory([&] { options_.refused(refusal); }));
    });
}

Errc VolumeImplementation::start(u64 hash_mask) {
    // An engine with its own memory has the meta buffer there. With a meta buffer and no explicit
    // engine the CPU is chosen, because a GPU's bulk commands need all metadata in its memory.
    const bool has_own_memory = options_.engine == EngineChoice::cuda;
    StoreShape shape;
    shape.size_bytes = superblock_.size_bytes;
    shape.frame_table_offset = superblock_.frame_table_offset;
    shape.frame_table_blocks = superblock_.frame_table_blocks;
    if (!has_own_memory) shape.meta_buffer_blocks = options_.meta_buffer_bytes / format::block_size;
    WARREN_TRY(memory_.open(shape));
    core::Store& store = memory_.store();
    store.hash_key[0] = superblock_.hash_key[0];
    store.hash_key[1] = superblock_.hash_key[1];
    store.hash_mask = hash_mask;
    store.root_inode = superblock_.root_inode;
    store.orphan_directory = superblock_.orphan_directory;
    store.reserve_blocks = std::min<u64>(1024, store.block_count() / 64);
    core::StoreState& state = *store.state;
    state.metadata_frames_end = superblock_.metadata_frames_end;
    state.data_frames_begin = superblock_.data_frames_begin;
    state.blocks_used = superblock_.blocks_used;
    state.inodes_used = superblock_.inodes_used;
    // Inodes get the low 32 bits of the counter. It starts below 2^32, so it never overflows.
    state.generation = static_cast<u32>(superblock_.generation + format::generation_margin);
    state.generation_limit = state.generation + 1;  // a read-only volume refuses changes later
    state.read_only = options_.read_only ? 1 : 0;
    loader_ = std::make_unique<MetaLoader>(disk_, store, superblock_.header.volume);
    WARREN_TRY(load_frame_table());
    if (options_.read_only) {
        make_file_buffer();
        return start_engine();
    }
    memory_.expect_new_frames(state.metadata_frames_end);
    superblock_.clean = 0;
    superblock_.generation = state.generation;
    raise_generation(superblock_, state.generation);
    WARREN_TRY(write_superblock(disk_, superblock_, superblock_.header.transaction + 1));
    committer_ = std::make_unique<Committer>(disk_, store, *loader_, superblock_);
    committer_->on_failure([this](Errc error) { end_changes(error); });
    make_file_buffer();
    committer_->keep_data(file_buffer_.get(), options_.data);
    committer_->copy_with(thread_pool_.width());
    return start_engine();
}

/// Reads the table blocks that describe frames in use. The others stay zero, which means free.
Errc VolumeImplementation::load_frame_table() {
    core::Store& store = memory_.store();
    const u64 volume = superblock_.header.volume;
    const u64 low = superblock_.metadata_frames_end;
    const u64 high = superblock_.data_frames_begin;
    for (u64 index = 0; index < superblock_.frame_table_blocks; ++index) {
        const u64 first = index * format::frames_per_table_block;
        const u64 end = std::min(first + format::frames_per_table_block, store.frame_count);
        if (first >= low && end <= high) continue;
        auto& table = store.frame_table[index];
        auto& block = reinterpret_cast<format::Block&>(table);
        const u64 place = superblock_.frame_table_offset + index * format::block_size;
        WARREN_TRY(disk_.read(place, block.bytes()));
        if (is_all_zero(block.bytes())) continue;
        WARREN_TRY(format::check_block(block, format::BlockKind::frame_table, volume, place));
        for (const format::FrameEntry& entry : table.entries) {
            if (entry.kind > static_cast<u64>(FrameKind::data)) return Errc::corrupt;
        }
    }
    for (u64 frame = 0; frame < store.frame_count; ++frame) {
        // Frames that no commit has touched: mark whole words of them at once.
        if (frame >= low && frame % 64 == 0 && frame + 64 <= high) {
            store.frames_free[frame / 64] = ~u64{0};
            store.state->free_frames += 64;
            frame += 63;
        } else {
            adopt_frame(store, frame);
        }
    }
    return Errc::ok;
}

/// Whether a commit may free the space that an operation lacks: the first commit may, and each one
/// after orphans were freed, for which this waits.
bool VolumeImplementation::may_find_space(Attempts& attempts) {
    if (!std::exchange(attempts.committed_for_space, true)) {
        if (reclaimer_ != nullptr) attempts.orphans_freed = reclaimer_->freed();
        return true;
    }
    if (reclaimer_ == nullptr) return false;
    const auto blocks_used = [this] {
        static_cast<void>(refresh_counters());
        return relaxed_load(store().state->blocks_used);
    };
    const u64 before = blocks_used();
    if (reclaimer_->wait_for_space(attempts.orphans_freed)) return true;
    // A large orphan is freed in many steps.
    return reclaimer_->is_running() && blocks_used() < before;
}

Errc VolumeImplementation::serve(const RetryReason& retry_reason, Attempts& attempts) {
    if (retry_reason.code != Errc::retry) WaitNotice::tell();
    switch (retry_reason.code) {
        case Errc::retry:
            if (++attempts.retries > 16) wait_to_retry(*store().state);
            return Errc::ok;
        case Errc::need_block:
            return serve_block(retry_reason.place, attempts);
        case Errc::need_commit:
            // The journal has room again as soon as a commit has taken its snapshot; for more
            // generations it must be durable.
            if (!std::exchange(attempts.awaited_snapshot, true) && committer_ != nullptr &&
                committer_->await_snapshot()) {
                return Errc::ok;
            }
            return commit();
        case Errc::need_space:
            if (!may_find_space(attempts)) return Errc::no_space;
            return commit_and_free(true);
        case Errc::need_split:
        case Errc::need_prune:
            return serve_structure(retry_reason);
        case Errc::need_inodes:
        case Errc::need_frame: {
            const bool lacks_inodes = retry_reason.code == Errc::need_inodes;
            const Errc added = lacks_inodes ? add_inode_frame() : add_frames();
            if (added != Errc::need_space) return added;
            return serve({Errc::need_space, 0, 0, 0, false}, attempts);
        }
        case Errc::corrupt:
            // The contents were read under a valid version, so they are damaged, with one
            // exception: the number of a directory that a bulk step has freed stays in the orphan
            // directory for a moment longer.
            if (++attempts.damaged == 4) return Errc::corrupt;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            return Errc::ok;
        default:
            return Errc::io;
    }
}

void VolumeImplementation::load_blocks(std::span<const u64> places, std::span<Errc> answers) {
    WaitNotice::tell();
    loader_->load_many(places, answers, engine_buffer());
}

Errc VolumeImplementation::serve_block(u64 place, Attempts& attempts) {
    return settle_block(loader_->load(place, engine_buffer()), place, attempts);
}

/// Serves a request for the block at `place`, given the loader's result.
Errc VolumeImplementation::settle_block(Errc loaded, u64 place, Attempts& attempts) {
    if (loaded == Errc::ok) {
        const bool is_there = works_on_host() || engine_buffer() != nullptr;
        return is_there ? Errc::ok : engine_memory_->show_block(place);
    }
    // If a commit does not help either, open files and the kernel's references pin all of the meta
    // buffer.
    if (loaded == Errc::need_commit) {
        return ++attempts.crowded > crowded_max ? Errc::no_memory : commit();
    }
    // The block may have been reused since the operation read its address: retry first.
    if (loaded == Errc::corrupt && ++attempts.damaged < 4) return Errc::ok;
    return loaded;
}

Errc VolumeImplementation::serve_structure(const RetryReason& retry_reason) {
    ops::Command change;
    change.retry_reason = retry_reason.code;
    change.from = retry_reason.inode;
    change.length = retry_reason.key;
    change.may_use_reserve = retry_reason.may_use_reserve;
    return ask<ops::Verb::change_structure>(change);
}

/// Turns a free frame into an inode frame. Errc::need_space if no frame is free.
Errc VolumeImplementation::add_inode_frame() {
    std::lock_guard lock(inode_frame_mutex_);
    ops::Command command;
    ops::Reply reply;
    command.verb = ops::Verb::claim_inode_frame;
    for (;;) {
        engine_->attempt(command, reply);
        if (reply.code == Errc::need_frame) {
            WARREN_TRY(add_frames());
        } else if (reply.code != Errc::retry) {
            break;
        }
    }
    if (reply.code != Errc::ok || reply.value == 0) return reply.code;
    command.from = reply.value;
    const Errc made = ask<ops::Verb::start_inode_frame>(command);
    if (made != Errc::ok) static_cast<void>(ask<ops::Verb::unclaim_frame>(command));
    return made;
}

Errc VolumeImplementation::execute(const ops::Command& command, ops::Reply& reply) {
    return drive(reply, [&] { engine_->attempt(command, reply); });
}

void VolumeImplementation::end_changes(Errc error) {
    committer_->forbid(error);
    relaxed_store(store().state->read_only, 1);
    if (works_on_host()) return;
    // Partner: execute_contents().
    must_forbid_engine_.store(true, std::memory_order_seq_cst);
    if (pieces_under_way_.load(std::memory_order_seq_cst) == 0) {
        static_cast<void>(engine_memory_->forbid());
    }
}

Errc VolumeImplementation::execute_contents(const ops::Command& command, ops::Reply& reply,
                                            const PieceWriter& writer) {
    // Partner: end_changes(), here and below. At least one of the two sees the other's store.
    pieces_under_way_.fetch_add(1, std::memory_order_seq_cst);
    const auto must_forbid = [this] { return must_forbid_engine_.load(std::memory_order_seq_cst); };
    // The engine may apply operations until the last piece is over, so that a failed one can be
    // hidden.
    const OnExit end_piece([&] {
        const u64 before = pieces_under_way_.fetch_sub(1, std::memory_order_seq_cst);
        if (before == 1 && must_forbid()) static_cast<void>(engine_memory_->forbid());
    });
    // No further piece may begin, because overlapping pieces could delay that for ever.
    if (must_forbid()) return reply.code = Errc::read_only;
    bool failed = false;
    const Errc answer = drive(reply, [&] {
        const std::shared_lock lock(pieces_);
        engine_->attempt(command, reply);
        if (reply.code != Errc::ok || !reply.has_piece) return;
        reply.code = writer(reply.piece);
        failed = reply.code != Errc::ok;
        // The file's new blocks hold other files' old bytes: no commit may contain that.
        if (failed && committer_ != nullptr) committer_->forbid(reply.code);
    });
    if (failed && committer_ != nullptr) hide_piece(*this, command, reply.piece, answer);
    return answer;
}

Errc VolumeImplementation::commit() {
    if (options_.read_only) return Errc::ok;
    prune_pending();
    return committer_->commit();
}

bool VolumeImplementation::has_unsaved() {
    if (options_.read_only) return false;
    // If the engine does not respond, a commit will report why.
    return refresh_counters() != Errc::ok || committer_->has_unsaved();
}

Errc VolumeImplementation::commit_and_free(bool looks_on_disk) {
    if (options_.read_only) return Errc::ok;
    prune_pending();
    return committer_->commit_and_free(looks_on_disk);
}

Errc VolumeImplementation::close() {
    if (std::exchange(closed_, true)) return Errc::ok;
    if (reclaimer_ != nullptr) reclaimer_->stop();
    if (dedup_ != nullptr) dedup_->stop_filling();
    if (replica_ != nullptr) replica_->finish_loading();
    mapped_files_.leave();
    if (options_.read_only || committer_ == nullptr) return Errc::ok;
    reclaim_at_close();
    WARREN_TRY(commit_and_free(false));
    superblock_.clean = 1;
    superblock_.generation = committer_->last_generation();  // without those raised in advance
    return write_superblock(disk_, superblock_, committer_->transaction() + 1);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The shares of a phase of a commit snapshot run one after the other; on a GPU warps run them
// concurrently.
#include "tests/support/twin_store.hpp"

#include <algorithm>
#include <cstring>

#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/show_block.hpp"
#include "tests/support/failing_allocations.hpp"

namespace warren {
namespace {

constexpr u64 shares = 3;

}  // namespace

Errc TwinStore::open(const core::Store& host, u64 meta_buffer_blocks) {
    host_ = &host;
    StoreShape shape;
    shape.size_bytes = host.size_bytes;
    shape.frame_table_offset = host.frame_table_offset;
    shape.frame_table_blocks = ops::table_bytes(host) / format::block_size;
    shape.meta_buffer_blocks = meta_buffer_blocks;
    WARREN_TRY(memory_.open(shape));
    core::Store& mine = memory_.store();
    mine.reserve_blocks = host.reserve_blocks;
    std::copy_n(host.hash_key, 2, mine.hash_key);
    mine.hash_mask = host.hash_mask;
    mine.root_inode = host.root_inode;
    mine.orphan_directory = host.orphan_directory;
    std::memcpy(mine.state, host.state, sizeof *mine.state);
    if (mine.heads != nullptr) {
        mine.state->journal_room = std::min(mine.state->journal_room, meta_buffer_blocks / 4);
    }
    const u64 frame_words = host.frame_count / 64 + 1;
    std::copy_n(host.frames_free, frame_words, mine.frames_free);
    for (u32 kind = 0; kind < std::size(host.frames_with_space); ++kind)
        std::copy_n(host.frames_with_space[kind], frame_words, mine.frames_with_space[kind]);
    copy_frames(0, relaxed_load(host.state->metadata_frames_end));
    copy_frames(relaxed_load(host.state->data_frames_begin), host.frame_count);
    return Errc::ok;
}

/// Copies the table entries of block groups, and their resident blocks.
void TwinStore::copy_frames(u64 begin, u64 end) {
    core::Store& mine = memory_.store();
    for (u64 frame = begin; frame < end; ++frame) {
        mine.frame(frame) = host_->frame(frame);
        mine.overlays[frame] = host_->overlays[frame];
        if (mine.heads != nullptr) continue;
        for (u64 block = frame * 512; block < (frame + 1) * 512; ++block) {
            const u64 place = block * format::block_size;
            if (core::test_bit(host_->resident, block))
                fill_block(place, reinterpret_cast<format::Block*>(host_->base + place));
        }
    }
}

/// Fills a block from `from`, or with zeros, and makes it resident.
void TwinStore::fill_block(u64 place, const format::Block* from) {
    const core::Store& mine = memory_.store();
    auto& block = *reinterpret_cast<format::Block*>(mine.base + place);
    for (u32 i = 0; i < format::block_size / 8; ++i)
        relaxed_store(block.words[i], from == nullptr ? 0 : relaxed_load(from->words[i]));
    core::make_resident(mine, place);
}

void TwinStore::show_block(u64 place) {
    const std::lock_guard lock(mutex_);
    const auto& block = *reinterpret_cast<const format::Block*>(host_->base + place);
    const core::Store& mine = memory_.store();
    ops::show_block(mine, place, core::kind_of(mine, place / format::frame_size), block);
}

void TwinStore::prepare_inode_frame(u64 frame) {
    if (memory_.store().heads != nullptr) return;
    const std::lock_guard lock(mutex_);
    for (u64 i = 0; i < format::blocks_per_frame; ++i)
        fill_block(frame * format::frame_size + i * format::block_size, nullptr);
}

void TwinStore::read_counters() {
    const core::StoreState& now = *memory_.store().state;
    core::StoreState& host = *host_->state;
    relaxed_store(host.blocks_used, relaxed_load(now.blocks_used));
    relaxed_store(host.inodes_used, relaxed_load(now.inodes_used));
    relaxed_store(host.inode_slots, relaxed_load(now.inode_slots));
    relaxed_store(host.free_frames, relaxed_load(now.free_frames));
    relaxed_store(host.metadata_frames_end, relaxed_load(now.metadata_frames_end));
    relaxed_store(host.data_frames_begin, relaxed_load(now.data_frames_begin));
    relaxed_store(host.dirty_blocks, relaxed_load(now.dirty_blocks));
}

Errc TwinStore::take_cut(CommitSnapshot& cut) {
    const UncountedAllocations uncounted;
    const core::Store& mine = memory_.store();
    const ThreadTeam team;
    ops::CutHeader header{};
    do {
        // On the first attempt the arrays are too small, which must do no harm.
        places_.resize(header.count);
        copies_.resize(header.count);
        header = {};
        const ops::CutArea area{copies_.data(), places_.data(), copies_.size(), &header};
        for (u64 i = 0; i < shares; ++i)
            ops::list_dirty(team, mine, area, {i, shares});
        for (u64 i = 0; i < shares; ++i) {
            ops::gather_dirty(team, mine, area, {i, shares}, ops::CopyWords());
        }
    } while (header.count > copies_.size());
    cut.counters = header.counters;
    cut.count = header.count;
    if (cut.count > cut.places.size()) return Errc::no_space;
    std::ranges::copy(places_, cut.places.begin());
    return Errc::ok;
}

void TwinStore::release_cut() {
    for (u64 i = 0; i < shares; ++i) {
        ops::release_cut(ThreadTeam{}, memory_.store(), places_.data(), places_.size(),
                         {i, shares});
    }
}

Errc TwinStore::place_block(u64 place, const format::Block& block, ops::Evicted& evicted) {
    const std::lock_guard lock(mutex_);
    return ops::place_block(ThreadTeam{}, memory_.store(), hand_, place, block, evicted);
}

Errc TwinStore::read_block(u64 place, format::Block& block) {
    const std::lock_guard lock(mutex_);
    return ops::read_block(ThreadTeam{}, memory_.store(), place, block);
}

void TwinStore::fetch_cut(format::Block* blocks) const {
    std::copy(copies_.begin(), copies_.end(), blocks);
}

void TwinStore::publish(std::span<ops::CommittedFrame> frames,
                        std::span<const u64> empty_inode_frames) {
    for (ops::CommittedFrame& frame : frames)
        ops::publish_committed(this_team(), memory_.store(), frame);
    for (const u64 frame : empty_inode_frames) {
        core::Operation<ThreadTeam> op(this_team(), memory_.store());
        op.commits_wait = true;
        static_cast<void>(ops::end_inode_frame(op, frame));
        core::finish(op);
    }
}

void TwinStore::allow_generations(u64 limit) {
    relaxed_store(memory_.store().state->generation_limit, limit);
}

void TwinStore::forbid() {
    relaxed_store(memory_.store().state->read_only, 1);
}

}  // namespace warren

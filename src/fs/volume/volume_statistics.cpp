// SPDX-License-Identifier: Apache-2.0
// statfs(2): the free space, and how much of it file contents can use. Space that the next commits
// will free counts as free, because an operation that lacks space commits before it fails.
//
// Invariant: blocks that only metadata can use are not available: those in frames of metadata, the
// last free frame, and the reserve with which a full volume can be emptied.
#include <algorithm>

#include "fs/commit/empty_inode_frames.hpp"
#include "fs/volume/inline_dedup.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

using format::FrameKind;

u64 blocks_used_in(const core::Store& store, u64 frame) {
    u64 used = 0;
    for (const u64& word : store.frame(frame).used)
        used += static_cast<u64>(hd::popcount(relaxed_load(word)));
    return used;
}

/// Free space in frames of metadata and inodes.
struct MetadataFrames {
    u64 rest = 0;          // free blocks in frames of metadata that are not empty
    u64 empty = 0;         // empty frames
    u64 empty_inodes = 0;  // of these the inode frames, which the counters count as used
};

/// `is_live`: the engine works on the host's Store. Otherwise the Store is that of the last commit.
MetadataFrames look_at_metadata(const core::Store& store, MetaLoader& loader, bool is_live) {
    MetadataFrames found;
    const bool looks_at_inodes = is_live && may_have_empty_inode_frame(*store.state);
    const u64 end = relaxed_load(store.state->metadata_frames_end);
    for (u64 frame = 0; frame < end; ++frame) {
        const FrameKind kind = core::kind_of(store, frame);
        if (kind == FrameKind::metadata) {
            const u64 used = blocks_used_in(store, frame);
            if (used != 0) found.rest += format::blocks_per_frame - used;
            if (used == 0) ++found.empty;
        } else if (kind == FrameKind::inodes && looks_at_inodes) {
            if (is_empty_inode_frame(loader, frame)) ++found.empty_inodes;
        } else if (kind == FrameKind::free && is_live &&
                   !core::test_bit(store.frames_free, frame)) {
            ++found.empty;  // freed; a commit has to follow
        }
    }
    found.empty += found.empty_inodes;
    return found;
}

/// Whether there is an empty data frame.
bool has_empty_data_frame(const core::Store& store) {
    for (u64 frame = relaxed_load(store.state->data_frames_begin); frame < store.frame_count;
         ++frame) {
        if (core::kind_of(store, frame) != FrameKind::data) continue;
        if (!core::has_bit(store.frame(frame).used)) return true;
    }
    return false;
}

u64 less(u64 from, u64 blocks) {
    return from > blocks ? from - blocks : 0;
}

}  // namespace

DedupStatistics Volume::dedup_statistics() const {
    const InlineDedup* const dedup = implementation_->dedup();
    DedupStatistics statistics = dedup == nullptr ? DedupStatistics{} : dedup->statistics();
    statistics.is_default = implementation_->is_dedup_default();
    return statistics;
}

Statistics Volume::statistics() const {
    VolumeImplementation& volume = *implementation_;
    // If the device is lost, the counters keep their values.
    static_cast<void>(volume.refresh_counters());
    const core::Store& store = volume.store();
    const core::StoreState& state = *store.state;
    const MetadataFrames found = look_at_metadata(store, volume.loader(), volume.works_on_host());
    Statistics statistics;
    statistics.blocks = store.block_count();
    const u64 used =
        less(relaxed_load(state.blocks_used), found.empty_inodes * format::blocks_per_frame);
    statistics.blocks_free = less(statistics.blocks, used);

    const u64 free_frames = relaxed_load(state.free_frames) + found.empty;
    const bool has_free_frame = free_frames != 0 || has_empty_data_frame(store);
    const u64 kept_frame = has_free_frame ? u64{format::blocks_per_frame} : 0;
    // If metadata have no free block left, they take a whole frame next.
    const bool take_frame = found.rest == 0 && free_frames > 1;
    const u64 rest = take_frame ? u64{format::blocks_per_frame} : found.rest;
    const u64 for_contents = less(statistics.blocks_free, rest + kept_frame);
    statistics.blocks_available =
        std::min(for_contents, less(statistics.blocks_free, store.reserve_blocks));

    constexpr u64 slots_in_frame = format::inode_slots_per_frame;
    statistics.inodes_used = relaxed_load(state.inodes_used);
    statistics.inodes_free =
        less(relaxed_load(state.inode_slots) - found.empty_inodes * slots_in_frame,
             statistics.inodes_used) +
        (statistics.blocks_available + kept_frame) / format::blocks_per_frame * slots_in_frame;
    return statistics;
}

}  // namespace warren

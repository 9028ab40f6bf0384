// SPDX-License-Identifier: Apache-2.0
// Checks the reference counts of shared blocks: counts the extents that name each block, and
// compares the result with the counts on disk.
#include <algorithm>
#include <cstring>

#include "fs/check/check_frames.hpp"
#include "fs/disk/block_io.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::Block;
using format::block_size;
using format::BlockKind;
using format::BlockPointer;
using format::blocks_per_frame;
using format::frames_per_table_block;
using format::ReferenceBlock;

u32 FrameMap::Counts::wrong() const {
    u32 count = 0;
    for (u32 block = 0; block < blocks_per_frame; ++block)
        count += extra[block] != right_extra(block) ? 1 : 0;
    return count;
}

void FrameMap::load_counts() {
    for_each_entry([this](u64 frame, Group& group, u32 entry) {
        format::FrameEntry& found = group.entries[entry];
        if (found.references == 0) return;
        load_counts_of(frame, found.references);
        // A pointer that leads to no usable counts is cleared; the table block is rewritten.
        if (counts_[frame].place == 0) {
            found.references = 0;
            group.must_write = true;
        }
    });
}

void FrameMap::load_counts_of(u64 frame, u64 pointer) {
    Counts& counts = counts_[frame];
    const u64 place = BlockPointer{pointer}.offset();
    if (!format::pointer_is_sound({pointer}, false, superblock_.size_bytes)) {
        report_.frame(frame, "its pointer to reference counts makes no sense");
        return;
    }
    Block block;
    const auto& found = reinterpret_cast<const ReferenceBlock&>(block);
    const bool is_sound = read_checked(disk_, place, BlockKind::reference_counts,
                                       superblock_.header.volume, block) == Errc::ok &&
                          found.header.owner == frame && found.header.owner_generation == 0;
    if (!is_sound) {
        report_.frame(frame, "its reference counts are damaged");
        return;
    }
    if (claim(place, 1, FrameKind::metadata, Trust::full) != 1) {
        report_.frame(frame, "its reference counts lie in a block of others");
        return;
    }
    counts.place = place;
    std::ranges::copy(found.extra, counts.extra.begin());
}

u64 FrameMap::claim_shared(u64 place, u64 blocks, Trust trust) {
    const u64 total = superblock_.frame_count * blocks_per_frame;
    const u64 first = place / block_size;
    u64 block = first;
    for (; block < first + blocks && block < total; ++block) {
        const u64 frame = block / blocks_per_frame;
        const u32 in_frame = static_cast<u32>(block % blocks_per_frame);
        u32& claims = counts_[frame].claims[in_frame];
        if (claims == 0 && claim_in_frame(frame, in_frame, 1, FrameKind::data, trust) == 0) break;
        ++claims;
    }
    return block - first;
}

void FrameMap::compare_counts() const {
    for (const auto& [frame, counts] : counts_) {
        if (const u32 wrong = counts.wrong(); wrong > 0) {
            report_.frame(frame, "reference counts that are wrong: " + std::to_string(wrong));
        }
    }
}

/// Writes the counts of frames where they are wrong, to a new block if there was none.
Errc FrameMap::write_counts(u64 transaction) {
    for (auto& [frame, counts] : counts_) {
        if (counts.wrong() == 0) continue;
        if (counts.place == 0) {
            WARREN_LET(place, allocate());
            counts.place = *place;
            Group& group = *find(frame);
            group.entries[frame % frames_per_table_block].references = BlockPointer::to(*place).raw;
            group.must_write = true;
        }
        Block block{};
        auto& out = reinterpret_cast<ReferenceBlock&>(block);
        out.header.owner = frame;
        for (u32 i = 0; i < blocks_per_frame; ++i)
            counts.extra[i] = out.extra[i] = counts.right_extra(i);
        WARREN_TRY(write_sealed(disk_, counts.place, BlockKind::reference_counts,
                                superblock_.header.volume, transaction, block));
    }
    return Errc::ok;
}

}  // namespace warren::check

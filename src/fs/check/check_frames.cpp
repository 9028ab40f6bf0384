// SPDX-License-Identifier: Apache-2.0
// System and inode frames are claimed as a whole from the start; blocks of the other kinds are
// claimed as trees and extents are read.
#include "fs/check/check_frames.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/zeros.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/disk/block_io.hpp"

namespace warren::check {

using format::Block;
using format::block_size;
using format::blocks_per_frame;
using format::frame_size;
using format::frames_per_table_block;

namespace {

u32 count_bits(const u64 (&words)[8]) {
    u32 count = 0;
    for (const u64 word : words)
        count += static_cast<u32>(std::popcount(word));
    return count;
}

std::string name_of(FrameKind kind) {
    switch (kind) {
        case FrameKind::inodes:
            return "inodes";
        case FrameKind::metadata:
            return "metadata";
        case FrameKind::data:
            return "file contents";
        default:
            return "parts of the volume itself";
    }
}

}  // namespace

FrameMap::Group* FrameMap::find(u64 frame) const {
    return groups_[frame / frames_per_table_block].get();
}

FrameMap::Group& FrameMap::find_or_add(u64 frame) {
    auto& group = groups_[frame / frames_per_table_block];
    if (!group) {
        group = std::make_unique<Group>();
        group->index = frame / frames_per_table_block;
    }
    return *group;
}

Errc FrameMap::load() {
    const u64 count = format::table_blocks_for(superblock_.frame_count);
    groups_.resize(count);
    for (u64 index = 0; index < count; ++index)
        WARREN_TRY(load_group(index));
    mark_system();
    for (const u64 number : {superblock_.root_inode, superblock_.orphan_directory})
        mark_whole(number / format::inodes_per_frame, FrameKind::inodes);
    for_each_entry([&](u64 frame, const Group& group, u32 entry) {
        if (group.entries[entry].kind != static_cast<u64>(FrameKind::inodes)) return;
        inode_frames_.push_back(frame);
        mark_whole(frame, FrameKind::inodes);
    });
    return Errc::ok;
}

Errc FrameMap::load_group(u64 index) {
    Block block;
    const u64 place = superblock_.frame_table_offset + index * block_size;
    const Errc code = disk_.read(place, block.bytes());
    if (code != Errc::ok && code != Errc::io) return code;
    if (code == Errc::ok && is_all_zero(block.bytes())) return Errc::ok;
    Group& group = find_or_add(index * frames_per_table_block);
    group.is_damaged =
        code != Errc::ok || format::check_block(block, format::BlockKind::frame_table,
                                                superblock_.header.volume, place) != Errc::ok;
    if (group.is_damaged) {
        report_.volume("frame table: block " + std::to_string(index) + " is damaged");
    } else {
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
        std::memcpy(group.entries, table.entries, sizeof group.entries);
    }
    for (u32 entry = 0; entry < frames_per_table_block; ++entry)
        load_entry(group, entry);
    return Errc::ok;
}

/// Checks one entry of the table. Afterwards its kind is valid or `unknown`.
void FrameMap::load_entry(Group& group, u32 entry) {
    format::FrameEntry& found = group.entries[entry];
    const u64 frame = group.index * frames_per_table_block + entry;
    group.kinds[entry] = static_cast<u8>(std::min(found.kind, unknown));
    if (frame >= superblock_.frame_count) {
        const bool is_empty = found.kind == 0 && count_bits(found.used) == 0;
        if (!is_empty) {
            report_.volume("frame table: frame " + std::to_string(frame) +
                           " lies behind the end of the volume");
            group.must_write = true;
        }
        found = {};
        return;
    }
    if (group.is_damaged) {
        found = {};
        found.kind = looks_like_inodes(frame) ? static_cast<u64>(FrameKind::inodes) : unknown;
    } else if (found.kind > static_cast<u64>(FrameKind::data)) {
        report_.frame(frame, "has no valid kind");
        found.kind = looks_like_inodes(frame) ? static_cast<u64>(FrameKind::inodes) : unknown;
    } else if (found.kind == 0 && count_bits(found.used) != 0) {
        report_.frame(frame, "is free but has blocks in use");
        found.kind = unknown;
    }
}

bool FrameMap::looks_like_inodes(u64 frame) {
    Block block;
    const u64 place = frame * frame_size;
    return read_checked(disk_, place, format::BlockKind::inode_bitmap, superblock_.header.volume,
                        block) == Errc::ok;
}

/// Marks the frames with superblocks, frame table and journal as system frames, and no others.
void FrameMap::mark_system() {
    std::vector<u64> system{0};
    const auto add = [&](u64 offset, u64 blocks) {
        const u64 last = (offset + blocks * block_size - 1) / frame_size;
        for (u64 frame = offset / frame_size; frame <= last; ++frame)
            system.push_back(frame);
    };
    add(superblock_.frame_table_offset, superblock_.frame_table_blocks);
    add(superblock_.journal_offset, superblock_.journal_blocks);
    std::ranges::sort(system);
    for_each_entry([&](u64 frame, Group& group, u32 entry) {
        u64& kind = group.entries[entry].kind;
        if (kind != static_cast<u64>(FrameKind::system)) return;
        if (std::ranges::binary_search(system, frame)) return;
        report_.frame(frame, "is marked as a part of the volume itself but is none");
        kind = unknown;
    });
    for (const u64 frame : system)
        mark_whole(frame, FrameKind::system);
}

/// Sets the kind of a frame and claims all of its blocks.
void FrameMap::mark_whole(u64 frame, FrameKind kind) {
    Group& group = find_or_add(frame);
    const u32 entry = static_cast<u32>(frame % frames_per_table_block);
    format::FrameEntry& found = group.entries[entry];
    if (found.kind != static_cast<u64>(kind)) {
        if (found.kind != unknown) {
            report_.frame(frame, "holds " + name_of(kind) + " but is marked otherwise");
        }
        found.kind = static_cast<u64>(kind);
    }
    std::ranges::fill(group.owned[entry], ~u64{0});
}

bool FrameMap::is_owned(u64 place) const {
    const u64 frame = place / frame_size;
    const Group* group = find(frame);
    if (group == nullptr) return false;
    const u64 bit = place / block_size % blocks_per_frame;
    return (group->owned[frame % frames_per_table_block][bit / 64] >> bit % 64 & 1) != 0;
}

void FrameMap::for_each_frame(
    const std::function<void(u64, const format::FrameEntry&, const u64 (&)[8])>& visit) const {
    for_each_entry([&](u64 frame, const Group& group, u32 entry) {
        visit(frame, group.entries[entry], group.owned[entry]);
    });
}

/// Whether blocks of `kind` may lie in the frame. A free frame or one of unknown kind gets the kind
/// of the first claim; a free one only if the claim has full trust.
bool FrameMap::adopt(Group& group, u64 frame, FrameKind kind, Trust trust) {
    u64& found = group.entries[frame % frames_per_table_block].kind;
    if (found == static_cast<u64>(kind)) return true;
    if (found != unknown && (found != 0 || trust == Trust::little)) return false;
    if (found == 0) {
        report_.frame(frame, "is marked free but holds " + name_of(kind));
    }
    found = static_cast<u64>(kind);
    return true;
}

u32 FrameMap::claim_in_frame(u64 frame, u32 first, u32 count, FrameKind kind, Trust trust) {
    if (trust == Trust::little && find(frame) == nullptr) return 0;
    Group& group = find_or_add(frame);
    if (!adopt(group, frame, kind, trust)) return 0;
    const u32 entry = static_cast<u32>(frame % frames_per_table_block);
    const bool needs_used = trust == Trust::little && !group.is_damaged;
    for (u32 word = first / 64; word * 64 < first + count; ++word) {
        const u64 mask = core::run_mask(word, first, count);
        u64 bad = group.owned[entry][word] & mask;
        if (needs_used) bad |= ~group.entries[entry].used[word] & mask;
        if (bad == 0) {
            group.owned[entry][word] |= mask;
            continue;
        }
        const u32 stop = word * 64 + static_cast<u32>(std::countr_zero(bad));
        group.owned[entry][word] |= core::run_mask(word, first, stop - first);
        return stop - first;
    }
    return count;
}

u64 FrameMap::claim(u64 place, u64 blocks, FrameKind kind, Trust trust) {
    const u64 total = superblock_.frame_count * blocks_per_frame;
    u64 block = place / block_size;
    u64 done = 0;
    while (done < blocks && block < total) {
        const u32 first = static_cast<u32>(block % blocks_per_frame);
        const u32 count = static_cast<u32>(std::min<u64>(blocks - done, blocks_per_frame - first));
        const u32 won = claim_in_frame(block / blocks_per_frame, first, count, kind, trust);
        done += won;
        block += won;
        if (won < count) break;
    }
    return done;
}

void FrameMap::release(u64 place, u64 blocks) {
    core::for_each_word(place, blocks, [&](u64 frame, u32 word, u64 mask) {
        u64 kept = 0;
        if (const auto found = counts_.find(frame); found != counts_.end()) {
            for (u32 bit = 0; bit < 64; ++bit) {
                u32& claims = found->second.claims[word * 64 + bit];
                const u64 one = mask & u64{1} << bit;
                if (one != 0 && claims > 0 && --claims > 0) kept |= one;
            }
        }
        find(frame)->owned[frame % frames_per_table_block][word] &= ~mask | kept;
    });
}

void FrameMap::for_each_unowned_metadata(const std::function<void(u64)>& visit) const {
    for_each_entry([&](u64 frame, const Group& group, u32 entry) {
        const format::FrameEntry& found = group.entries[entry];
        const bool may_be =
            frame < superblock_.frame_count &&
            (found.kind == static_cast<u64>(FrameKind::metadata) || found.kind == unknown);
        for (u32 bit = 0; may_be && bit < blocks_per_frame; ++bit) {
            const u64 used = group.is_damaged ? ~u64{0} : found.used[bit / 64];
            const u64 unowned = used & ~group.owned[entry][bit / 64];
            if ((unowned >> bit % 64 & 1) != 0) visit(frame * frame_size + bit * block_size);
        }
    });
}

void FrameMap::compare_frame(u64 frame, const Group& group, u32 entry) const {
    if (group.is_damaged) return;
    const format::FrameEntry& found = group.entries[entry];
    u64 leaked[8];
    u64 missing[8];
    for (u32 w = 0; w < 8; ++w) {
        leaked[w] = found.used[w] & ~group.owned[entry][w];
        missing[w] = group.owned[entry][w] & ~found.used[w];
    }
    if (const u32 count = count_bits(leaked); count > 0) {
        report_.frame(frame, "blocks in use that belong to nothing: " + std::to_string(count));
    }
    if (const u32 count = count_bits(missing); count > 0) {
        report_.frame(frame, "blocks marked free that are in use: " + std::to_string(count));
    }
}

void FrameMap::compare() {
    for_each_entry(
        [this](u64 frame, const Group& group, u32 entry) { compare_frame(frame, group, entry); });
    compare_counts();
    compare_counters();
}

void FrameMap::compare_counters() const {
    format::Superblock right = superblock_;
    fill(right);
    if (const u64 used = blocks_used(); used != superblock_.blocks_used) {
        report_.volume("superblock: counts " + std::to_string(superblock_.blocks_used) +
                       " blocks in use, there are " + std::to_string(used));
    }
    if (right.metadata_frames_end > superblock_.metadata_frames_end) {
        report_.volume("superblock: says that metadata end before frame " +
                       std::to_string(superblock_.metadata_frames_end) + ", they end before " +
                       std::to_string(right.metadata_frames_end));
    }
    if (right.data_frames_begin < superblock_.data_frames_begin) {
        report_.volume("superblock: says that file contents begin at frame " +
                       std::to_string(superblock_.data_frames_begin) + ", they begin at " +
                       std::to_string(right.data_frames_begin));
    }
}

u64 FrameMap::blocks_owned() const {
    u64 count = 0;
    for_each_entry(
        [&](u64, const Group& group, u32 entry) { count += count_bits(group.owned[entry]); });
    return count;
}

u64 FrameMap::blocks_used() const {
    u64 count = 0;
    for_each_entry([&](u64, const Group& group, u32 entry) {
        count += count_bits(group.is_damaged ? group.owned[entry] : group.entries[entry].used);
    });
    return count;
}

void FrameMap::fill(format::Superblock& superblock) const {
    superblock.blocks_used = blocks_owned();
    u64& metadata_end = superblock.metadata_frames_end;
    for_each_entry([&](u64 frame, const Group& group, u32 entry) {
        const auto kind = static_cast<FrameKind>(group.entries[entry].kind);
        if (format::holds_metadata(kind)) metadata_end = std::max(metadata_end, frame + 1);
    });
    u64& data_begin = superblock.data_frames_begin;
    data_begin = superblock.frame_count;
    for_each_entry([&](u64 frame, const Group& group, u32 entry) {
        const auto kind = static_cast<FrameKind>(group.entries[entry].kind);
        // A volume that has grown may have its frame table above the metadata.
        const bool is_moved = kind == FrameKind::system && frame >= metadata_end;
        if (kind == FrameKind::data || is_moved) data_begin = std::min(data_begin, frame);
    });
}

u64 FrameMap::take_free_frame() {
    for (u64 frame = 0; frame < superblock_.frame_count; ++frame) {
        format::FrameEntry& found = find_or_add(frame).entries[frame % frames_per_table_block];
        const bool is_free = found.kind == 0 || found.kind == unknown;
        if (!is_free || count_bits(found.used) != 0) continue;
        found.kind = static_cast<u64>(FrameKind::metadata);
        return frame;
    }
    return superblock_.frame_count;
}

Result<u64> FrameMap::allocate() {
    for (u64 frame = allocation_frame_; frame < superblock_.frame_count; ++frame) {
        Group* group = find(frame);
        const u32 entry = static_cast<u32>(frame % frames_per_table_block);
        if (group == nullptr) {
            frame += frames_per_table_block - 1 - entry;
            continue;
        }
        if (group->entries[entry].kind != static_cast<u64>(FrameKind::metadata)) continue;
        for (u32 w = 0; w < 8; ++w) {
            const u64 free = ~(group->owned[entry][w] | group->entries[entry].used[w]);
            if (free == 0) continue;
            const u32 bit = static_cast<u32>(std::countr_zero(free));
            group->owned[entry][w] |= u64{1} << bit;
            allocation_frame_ = frame;
            return frame * frame_size + (w * 64 + bit) * block_size;
        }
    }
    const u64 taken = take_free_frame();
    if (taken == superblock_.frame_count) return Errc::no_space;
    allocation_frame_ = std::min(allocation_frame_, taken);
    return allocate();
}

/// Fills in the table block as it should be on disk; returns whether it has to be written.
bool FrameMap::fill_block(const Group& group, bool is_final, format::FrameTableBlock& block) const {
    bool is_changed = group.is_damaged || group.must_write;
    for (u32 entry = 0; entry < frames_per_table_block; ++entry) {
        const format::FrameEntry& found = group.entries[entry];
        format::FrameEntry& out = block.entries[entry];
        for (u32 w = 0; w < 8; ++w) {
            out.used[w] = group.owned[entry][w] | (is_final ? 0 : found.used[w]);
            is_changed = is_changed || out.used[w] != found.used[w];
        }
        out.kind = found.kind == unknown ? 0 : found.kind;
        out.references = found.references;
        is_changed = is_changed || out.kind != group.kinds[entry];
    }
    return is_changed;
}

Errc FrameMap::write(u64 transaction, bool is_final) {
    if (is_final) WARREN_TRY(write_counts(transaction));
    for (const auto& group : groups_) {
        if (!group) continue;
        Block block{};
        auto& table = reinterpret_cast<format::FrameTableBlock&>(block);
        if (!fill_block(*group, is_final, table)) continue;
        const u64 place = superblock_.frame_table_offset + group->index * block_size;
        WARREN_TRY(write_sealed(disk_, place, format::BlockKind::frame_table,
                                superblock_.header.volume, transaction, block));
        for (u32 entry = 0; entry < frames_per_table_block; ++entry) {
            std::memcpy(group->entries[entry].used, table.entries[entry].used,
                        sizeof table.entries[entry].used);
            group->kinds[entry] = static_cast<u8>(table.entries[entry].kind);
        }
        group->is_damaged = false;
        group->must_write = false;
    }
    return disk_.flush();
}

}  // namespace warren::check

// SPDX-License-Identifier: Apache-2.0
// Invariant: the tag of an entry is never 0, so no digest matches an empty entry.
#include "fs/volume/dedup_index.hpp"

#include <algorithm>
#include <bit>

#include "team/team.hpp"

namespace warren {
namespace {

constexpr u32 inode_bits = 36;
constexpr u32 block_bits = 34;
constexpr u32 inode_low_bits = 6;  // stored in the word of the tag

/// The bits that distinguish the entries of a group; other bits select the group.
u64 tag_of(const DedupDigest& digest) {
    return std::max<u64>(digest.words[0] >> inode_low_bits, 1);
}

}  // namespace

DedupIndex::DedupIndex(u64 bytes)
    : groups_(std::bit_floor(std::max<u64>(bytes / group_bytes, 1))),
      entries_(groups_ * group_bytes) {}

DedupIndex::Entry* DedupIndex::group_of(const DedupDigest& digest) const {
    return entries_.as<Entry>() + (digest.words[1] & (groups_ - 1)) * group_entries;
}

/// group_of(), after which its memory is a page of its own. Reading first would map the page of
/// zeros, and the kernel interrupts all cores when a write then replaces that.
DedupIndex::Entry* DedupIndex::touch(const DedupDigest& digest) const {
    Entry* const group = group_of(digest);
    u64 zero = 0;
    // Changes nothing, but counts as a write.
    device_atomic<u64>(group->words[0]).compare_exchange_strong(zero, 0, hd::memory_order_relaxed);
    return group;
}

bool DedupIndex::find(const DedupDigest& digest, FileBlock& found) const {
    const Entry* const group = touch(digest);
    const u64 tag = tag_of(digest);
    for (u64 i = 0; i < group_entries; ++i) {
        const u64 first = relaxed_load(group[i].words[0]);
        if (first >> inode_low_bits != tag) continue;
        const u64 second = relaxed_load(group[i].words[1]);
        found.inode = (first & ((1u << inode_low_bits) - 1)) | second >> block_bits
                                                                             << inode_low_bits;
        found.block = second & ((u64{1} << block_bits) - 1);
        return true;
    }
    return false;
}

void DedupIndex::put(const DedupDigest& digest, const FileBlock& at) {
    // If there is no better entry, replaces one selected by bits that do not select the group.
    Entry* const other = group_of(digest) + digest.words[2] % group_entries;
    put_in(find_place(digest, other), digest, at);
}

void DedupIndex::put_if_free(const DedupDigest& digest, const FileBlock& at) {
    Entry* const place = find_place(digest, nullptr);
    if (place != nullptr && relaxed_load(place->words[0]) == 0) put_in(place, digest, at);
}

/// The entry with this digest, otherwise an empty one, otherwise `other`.
DedupIndex::Entry* DedupIndex::find_place(const DedupDigest& digest, Entry* other) const {
    Entry* const group = touch(digest);
    const u64 tag = tag_of(digest);
    for (u64 i = group_entries; i-- > 0;) {
        const u64 first = relaxed_load(group[i].words[0]);
        if (first == 0 || first >> inode_low_bits == tag) other = group + i;
        if (first >> inode_low_bits == tag) break;
    }
    return other;
}

void DedupIndex::put_in(Entry* place, const DedupDigest& digest, const FileBlock& at) {
    if (at.inode >> inode_bits != 0 || at.block >> block_bits != 0) return;
    relaxed_store(place->words[0],
                  tag_of(digest) << inode_low_bits | (at.inode & ((1u << inode_low_bits) - 1)));
    relaxed_store(place->words[1], at.inode >> inode_low_bits << block_bits | at.block);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Invariant: an entry's tag is never 0, so that an empty one is found by no digest.
#include "fs/volume/dedup_index.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "fs/core/name_hash.hpp"
#include "team/team.hpp"

namespace warren {
namespace {

constexpr u32 inode_bits = 36;
constexpr u32 block_bits = 34;
constexpr u32 inode_low_bits = 6;  // beside the tag
constexpr u32 digest_length = 32;

u64 tag_of(std::span<const u8> digest) {
    u64 word = 0;
    std::memcpy(&word, digest.data(), sizeof word);
    return std::max<u64>(word >> inode_low_bits, 1);
}

}  // namespace

DedupIndex::DedupIndex(u64 bytes, const u64 key[2])
    : groups_(std::bit_floor(std::max<u64>(bytes / group_bytes, 1))),
      key_{key[0], key[1]},
      entries_(groups_ * group_bytes) {}

DedupIndex::Entry* DedupIndex::group_of(std::span<const u8> digest, u64& mixed) const {
    WARREN_CHECK(digest.size() == digest_length);
    mixed = siphash_1_3(key_, reinterpret_cast<const char*>(digest.data()), digest_length);
    return entries_.as<Entry>() + (mixed & (groups_ - 1)) * group_entries;
}

bool DedupIndex::find(std::span<const u8> digest, FileBlock& found) const {
    u64 mixed = 0;
    const Entry* const group = group_of(digest, mixed);
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

void DedupIndex::put(std::span<const u8> digest, const FileBlock& at) {
    if (at.inode >> inode_bits != 0 || at.block >> block_bits != 0) return;
    u64 mixed = 0;
    Entry* const group = group_of(digest, mixed);
    const u64 tag = tag_of(digest);
    // The entry of the same digest, else an empty one, else any: bits that the group does not use.
    Entry* taken = group + (mixed >> 62);
    for (u64 i = group_entries; i-- > 0;) {
        const u64 first = relaxed_load(group[i].words[0]);
        if (first == 0 || first >> inode_low_bits == tag) taken = group + i;
        if (first >> inode_low_bits == tag) break;
    }
    relaxed_store(taken->words[0],
                  tag << inode_low_bits | (at.inode & ((1u << inode_low_bits) - 1)));
    relaxed_store(taken->words[1], at.inode >> inode_low_bits << block_bits | at.block);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Elements go to the hasher together, so that it works on several of them at once.
#include "fs/volume/dedup_digest.hpp"

#include "base/check.hpp"
#include "hash/blake3_tree.hpp"

namespace warren {

DedupHash::DedupHash(const u64 key[2]) {
    // The volume's key has half the length, and chooses the places of names as well.
    const hash::Bytes bytes(reinterpret_cast<const std::byte*>(key), 2 * sizeof key[0]);
    static_assert(sizeof key_.words == hash::digest_bytes(hash::Algorithm::blake3));
    hash::hash_blake3_many(hash::widest_lanes(), std::span(&bytes, 1),
                           reinterpret_cast<u8*>(key_.words));
    key_.flags = hash::Blake3::keyed;
}

void DedupHash::digest(std::span<const hash::Bytes> blocks, std::span<DedupDigest> digests) const {
    static_assert(sizeof(DedupDigest) == hash::digest_bytes(hash::Algorithm::blake3));
    WARREN_CHECK(blocks.size() <= digests.size());
    hash::hash_blake3_many(hash::widest_lanes(), blocks, reinterpret_cast<u8*>(digests.data()),
                           key_);
}

}  // namespace warren

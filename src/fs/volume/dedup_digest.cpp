// SPDX-License-Identifier: Apache-2.0
// Passes all blocks to the hasher in one call, so that it hashes several of them in parallel.
#include "fs/volume/dedup_digest.hpp"

#include "base/check.hpp"
#include "hash/blake3_tree.hpp"

namespace warren {

DedupHash::DedupHash(const u64 key[2]) {
    // The volume's key is half as long, and also determines the hashes of names.
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

// SPDX-License-Identifier: Apache-2.0
// The digests by which the deduplication index identifies blocks: BLAKE3 with a key of the volume.
// So an attacker without the key cannot construct blocks that evict each other from the index, or
// blocks with equal digests.
#pragma once

#include <span>

#include "hash/lanes.hpp"

namespace warren {

struct DedupDigest {
    u64 words[4];
};

class DedupHash {
 public:
    /// `key` is the volume's hash key.
    explicit DedupHash(const u64 key[2]);

    /// Computes the digest of each block on the calling thread.
    void digest(std::span<const hash::Bytes> blocks, std::span<DedupDigest> digests) const;

 private:
    hash::Blake3Key key_;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// What the index of deduplication knows blocks by: BLAKE3 under a key of the volume. So nobody who
// does not know the key can make blocks that push each other out of the index, or that are taken
// for equal before their bytes are compared.
#pragma once

#include <span>

#include "hash/lanes.hpp"

namespace warren {

struct DedupDigest {
    u64 words[4];
};

class DedupHash {
 public:
    /// `key` is the volume's.
    explicit DedupHash(const u64 key[2]);

    /// The digest of each block, on this thread.
    void digest(std::span<const hash::Bytes> blocks, std::span<DedupDigest> digests) const;

 private:
    hash::Blake3Key key_;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// One message on one thread. MD5 is our own code, one lane wide, and so are SHA-1 and SHA-256 on
// processors with SHA instructions; on others these two are OpenSSL's, and XXH3 is xxHash's, where
// the build has them.
#pragma once

#include <array>
#include <memory>

#include "hash/lanes.hpp"
#include "hash/md5.hpp"
#include "hash/sha1.hpp"
#include "hash/sha256.hpp"
#include "hash/xxh3.hpp"
#include "warren/hash.hpp"

namespace warren::hash {

/// A stream of one of the sequential digests: all but BLAKE3.
class Sequential {
 public:
    virtual ~Sequential() = default;
    virtual void update(Bytes part) = 0;
    /// Requires: nothing is done with the stream afterwards.
    virtual void finish(u8* digest) = 0;
};

/// An empty stream. Requires: the algorithm is not BLAKE3.
std::unique_ptr<Sequential> open_sequential(Algorithm algorithm);

/// The same, of our own code in plain C++.
std::unique_ptr<Sequential> open_portable(Algorithm algorithm);

/// The same, of OpenSSL or xxHash. Null if the build is without, or OpenSSL refuses.
std::unique_ptr<Sequential> open_by_library(Algorithm algorithm);

/// The digest of one message. Requires: the algorithm is not BLAKE3.
void hash_alone(Algorithm algorithm, Bytes data, u8* digest);

/// The function that finishes a message of MD5, SHA-1 or SHA-256 on one thread.
FinishOne finish_alone(Algorithm algorithm);

/// How many messages may be left for finish_alone() at the end of many: with so few, `lanes` side
/// by side would be slower than one after the other.
u32 alone_at_most(Algorithm algorithm, u32 lanes);

}  // namespace warren::hash

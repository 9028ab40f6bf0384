// SPDX-License-Identifier: Apache-2.0
// Hashes one message on one thread. MD5 is Warren's own code with one lane, and so are SHA-1 and
// SHA-256 on processors with SHA instructions. On other processors these two are OpenSSL's, and
// XXH3 is xxHash's, if the build has these libraries.
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

/// A stream of one of the sequential digests: all except BLAKE3.
class Sequential {
 public:
    virtual ~Sequential() = default;
    virtual void update(Bytes part) = 0;
    /// Writes the digest. Requires: the stream is not used afterwards.
    virtual void finish(u8* digest) = 0;
};

/// Makes an empty stream. Requires: the algorithm is not BLAKE3.
std::unique_ptr<Sequential> open_sequential(Algorithm algorithm);

/// Like open_sequential(), always Warren's own code in plain C++.
std::unique_ptr<Sequential> open_portable(Algorithm algorithm);

/// Like open_sequential(), by OpenSSL or xxHash. Null if the build lacks it, or OpenSSL refuses.
std::unique_ptr<Sequential> open_by_library(Algorithm algorithm);

/// Writes the digest of one message. Requires: the algorithm is not BLAKE3.
void hash_alone(Algorithm algorithm, Bytes data, u8* digest);

/// The function that completes a message of MD5, SHA-1 or SHA-256 on one thread.
FinishOne finish_alone(Algorithm algorithm);

/// How many messages may be left for finish_alone() at the end of a list: hashing so few in `lanes`
/// in parallel would be slower than one after the other.
u32 alone_at_most(Algorithm algorithm, u32 lanes);

}  // namespace warren::hash

// SPDX-License-Identifier: Apache-2.0
// XXH3 with 128 bits by the library xxHash, included as a header and compiled for each vector
// width; the library packages of distributions have only the narrowest.
#pragma once

#include <memory>

#include "hash/alone.hpp"

namespace warren::hash {

/// Writes the digest of one message.
void hash_xxh3(Bytes data, u8* digest);

/// Makes an empty stream.
std::unique_ptr<Sequential> open_xxh3();

/// The functions compiled for one vector width.
struct Xxh3Functions {
    void (*hash)(const void* data, u64 bytes, u8* digest);
    void* (*open)();
    void (*update)(void* stream, const void* data, u64 bytes);
    void (*finish)(void* stream, u8* digest);
    void (*close)(void* stream);
};

}  // namespace warren::hash

// SPDX-License-Identifier: Apache-2.0
// SHA-1 and SHA-256 of one message with the SHA instructions of x86 processors, which compute four
// or two rounds at a time.
#pragma once

#include "warren/types.hpp"

namespace warren::hash {

/// Whether the processor has them. Otherwise the functions below must not be called.
bool has_sha_instructions();

/// Hash `count` blocks of 64 bytes into a state of 5 or 8 words.
void take_sha1_blocks(u32* state, const u8* blocks, u64 count);
void take_sha256_blocks(u32* state, const u8* blocks, u64 count);

}  // namespace warren::hash

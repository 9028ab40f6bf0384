// SPDX-License-Identifier: Apache-2.0
// One call of sliding-window hashing, in the form that vector units and GPUs share.
//
// All windows have the same length, so the padding is the same for all messages: two masks for each
// of the last blocks, applied to the bytes that follow the window. No window is copied. Invariant:
// block b of window w begins at data + w * stride + 64 * b; bytes from data_bytes on are never
// read.
#pragma once

#include "warren/hash.hpp"

namespace warren::hash {

/// A window's message in blocks of 64 bytes. Words are in the algorithm's byte order: little-endian
/// for MD5, big-endian for the others.
struct WindowPlan {
    u64 data_bytes = 0;
    u64 window_bytes = 0;
    u64 stride_bytes = 0;
    u64 blocks = 0;        // of a padded window
    u64 full_blocks = 0;   // those without padding
    u32 keep[2][16] = {};  // for the one or two others: mask of the window's bits
    u32 pad[2][16] = {};   // the padding's bits
};

/// Where results are written: digests truncated to `kept_bytes`, or one bit per window if
/// `kept_bytes` is 0.
struct WindowOutput {
    u8* digests = nullptr;  // starting with window 0
    u32 kept_bytes = 0;
    u64* bitmap = nullptr;  // starting with window 0; whole words are written
    u32 match_mask = 0;     // for the last four bytes of a digest, read as a big-endian number
};

/// Makes the plan for MD5, SHA-1 or SHA-256. Requires: window_count(windows, data_bytes) > 0.
WindowPlan plan_windows(const Windows& windows, u64 data_bytes);

}  // namespace warren::hash

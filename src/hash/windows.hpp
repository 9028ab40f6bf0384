// SPDX-License-Identifier: Apache-2.0
// One call of sliding-window hashing, in the form that vector units and GPUs share.
//
// All windows have the same length, so the padding of a message is the same for each: two masks for
// each of the last blocks, applied to whatever bytes lie behind the window. No window is copied.
// Invariant: block b of window w begins at data + w * stride + 64 * b; bytes from data_bytes on are
// never read.
#pragma once

#include "warren/hash.hpp"

namespace warren::hash {

/// The window's message in blocks of 64 bytes. Words are as the algorithm reads them: little-endian
/// for MD5, big-endian for the others.
struct WindowPlan {
    u64 data_bytes = 0;
    u64 window_bytes = 0;
    u64 stride_bytes = 0;
    u64 blocks = 0;        // of a padded window
    u64 full_blocks = 0;   // of these without padding
    u32 keep[2][16] = {};  // of the one or two others: the bits that are the window's
    u32 pad[2][16] = {};   // and the bits that are the padding's
};

/// Where results go: digests cut to `kept_bytes`, or one bit a window if `kept_bytes` is 0.
struct WindowOutput {
    u8* digests = nullptr;  // of window 0
    u32 kept_bytes = 0;
    u64* bitmap = nullptr;  // of window 0; whole words are written
    u32 match_mask = 0;     // over the digest's last four bytes, read as a big-endian number
};

/// The plan for MD5, SHA-1 or SHA-256. Requires: window_count(windows, data_bytes) > 0.
WindowPlan plan_windows(const Windows& windows, u64 data_bytes);

}  // namespace warren::hash

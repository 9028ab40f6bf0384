// SPDX-License-Identifier: Apache-2.0
// How a chunker divides a call among its threads. The sizes are those that pay; a test makes them
// small, so that inputs it can try by the million meet every seam between blocks and threads.
//
// Invariant: cuts do not depend on them.
#pragma once

#include "warren/types.hpp"

namespace warren::chunk {

struct BlockSizes {
    u64 block_bytes = 256 * kib;      // its bitmap fits the first cache
    u64 least_for_threads = 1 * mib;  // below, waking them costs more than it gives
    bool has_chains = true;           // of whole chunks, from 1 MiB on, before blocks are scanned
};

/// The sizes that chunkers take which are opened from now on. Requires: none is being opened while
/// they are changed.
inline BlockSizes& block_sizes() {
    static BlockSizes sizes;
    return sizes;
}

}  // namespace warren::chunk

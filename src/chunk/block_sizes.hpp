// SPDX-License-Identifier: Apache-2.0
// How a chunker divides a call among its threads. The defaults are the fastest sizes; a test makes
// them small, so that millions of short inputs reach every boundary between blocks and threads.
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

/// The sizes for all chunkers opened from now on. Requires: no chunker is being opened meanwhile.
inline BlockSizes& block_sizes() {
    static BlockSizes sizes;
    return sizes;
}

}  // namespace warren::chunk

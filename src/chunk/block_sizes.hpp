// SPDX-License-Identifier: Apache-2.0
// How a chunker divides a call among its threads. The defaults are the fastest sizes; a test makes
// them small, so that millions of short inputs reach every boundary between blocks and threads.
//
// Invariant: the cuts do not depend on these sizes.
#pragma once

#include "warren/types.hpp"

namespace warren::chunk {

struct BlockSizes {
    u64 block_bytes = 256 * kib;      // the bitmap of a block fits into the L1 cache
    u64 least_for_threads = 1 * mib;  // for fewer bytes waking threads costs more than it gains
    bool has_chains = true;           // follow chains of chunks, from 1 MiB on
};

/// The sizes for all chunkers opened later. Requires: no chunker is being opened meanwhile.
inline BlockSizes& block_sizes() {
    static BlockSizes sizes;
    return sizes;
}

}  // namespace warren::chunk

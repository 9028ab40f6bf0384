// SPDX-License-Identifier: Apache-2.0
// The journal: two halves, used in turn. A transaction lies at the start of a half: its descriptor
// blocks, the blocks that they name, in the same order, and a commit block.
//
// Invariant 1: a commit block is written only after a flush that made its own descriptors and
// blocks durable, and the previous transaction's blocks durable at their home locations. So the
// half that is being overwritten is never needed, only the newest complete transaction is ever
// replayed, and a block freed by it can be reused without a revocation record. Invariant 2: every
// transaction logs the superblock (place 0) with its own number and clean = 0. A superblock that
// is written outside of the journal has a number above all transactions before it and is written
// after a flush that made them durable at their home locations. So a transaction with a lower
// number than the superblock's is obsolete and must not be replayed.
#pragma once

#include "fs/format/layout.hpp"

namespace warren::format {

inline constexpr u32 journal_places_max = 503;
/// A smaller journal might not hold all blocks that one operation changes.
inline constexpr u64 journal_blocks_min = 256;

/// Names the places of `count` blocks of its transaction. Descriptor i names the blocks from
/// i * 503 on, so all but the last are full.
struct JournalDescriptor {
    BlockHeader header;  // header.transaction is the transaction's number
    u32 count;           // places in this descriptor
    u32 zero;
    u64 total;  // blocks in the whole transaction
    u64 index;  // number of this descriptor in the transaction, from 0
    u64 places[journal_places_max];
};
static_assert(sizeof(JournalDescriptor) == block_size);

struct JournalCommit {
    BlockHeader header;
    u64 total;          // blocks in the transaction
    u32 crc_of_blocks;  // CRC32C over descriptors and blocks in journal order
    u32 zero;
    u8 padding[4032];
};
static_assert(sizeof(JournalCommit) == block_size);

}  // namespace warren::format

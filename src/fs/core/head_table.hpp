// SPDX-License-Identifier: Apache-2.0
// The buffer cache: metadata in a fixed number of blocks of memory. Each block of memory has a head
// with the place of its contents and a count of links; it is not evicted while it has links. Heads
// are found by a hash of the place. Eviction is in second-chance order, an approximation of least
// recently used first.
//
// Invariant: a head is in exactly one bucket chain if place != place_none. Its links rise from zero
// only under the bucket's lock, and eviction reads them under that lock.
#pragma once

#include "base/check.hpp"
#include "base/host_device.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren::core {

struct Head {
    u64 place;
    u32 next;   // in its bucket's chain; head_none at the end
    u32 links;  // users of the block: operations, snapshots, state that is not on disk
    u32 used;   // for second chance: set by every lookup
    u32 zero;
};

inline constexpr u32 head_none = ~0u;
inline constexpr u64 place_none = ~u64{0};

struct Bucket {
    u32 lock;
    u32 first;
};

struct HeadTable {
    u32 head_count;
    u32 bucket_mask;
    Head* heads;
    Bucket* buckets;
    format::Block* blocks;  // one for each head

    WARREN_HD Bucket& bucket_of(u64 place) const {
        const u64 x = place / format::block_size * 0x9e3779b97f4a7c15u;
        return buckets[static_cast<u32>(x >> 32) & bucket_mask];
    }
};

/// Takes a bucket's lock. A holder never waits for anything, so spinning is short.
WARREN_HD inline void lock_bucket(Bucket& bucket) {
    device_atomic<u32> word(bucket.lock);
    // Acquire: pairs with the release in unlock_bucket().
    while (word.exchange(1, hd::memory_order_acquire) != 0) {
        while (word.load(hd::memory_order_relaxed) != 0) {
        }
    }
}

WARREN_HD inline void unlock_bucket(Bucket& bucket) {
    // Release: pairs with the acquire in lock_bucket().
    device_atomic<u32>(bucket.lock).store(0, hd::memory_order_release);
}

/// Finds the head of `place` and adds a link to it; head_none if the block is not resident.
WARREN_HD inline u32 link_head(const HeadTable& table, u64 place) {
    Bucket& bucket = table.bucket_of(place);
    lock_bucket(bucket);
    u32 index = bucket.first;
    while (index != head_none && table.heads[index].place != place)
        index = table.heads[index].next;
    if (index != head_none) {
        Head& head = table.heads[index];
        device_atomic<u32>(head.links).fetch_add(1, hd::memory_order_relaxed);
        device_atomic<u32>(head.used).store(1, hd::memory_order_relaxed);
    }
    unlock_bucket(bucket);
    return index;
}

/// Removes one link. Without links the block may be evicted.
WARREN_HD inline void unlink_head(const HeadTable& table, u32 index) {
    // Release: what this thread wrote to the block precedes an eviction that sees no links.
    device_atomic<u32>(table.heads[index].links).fetch_sub(1, hd::memory_order_release);
}

/// Removes a link to the block at `place` that an earlier call has left. Requires: the block is
/// resident.
WARREN_HD inline void drop_link(const HeadTable& table, u64 place) {
    const u32 index = link_head(table, place);
    WARREN_CHECK(index != head_none);
    unlink_head(table, index);
    unlink_head(table, index);
}

/// Gives the free head `index` to `place`, with one link. Requires: the block's contents are
/// already in memory.
WARREN_HD inline void insert_head(const HeadTable& table, u32 index, u64 place) {
    Head& head = table.heads[index];
    Bucket& bucket = table.bucket_of(place);
    lock_bucket(bucket);
    head.place = place;
    device_atomic<u32>(head.links).store(1, hd::memory_order_relaxed);
    device_atomic<u32>(head.used).store(1, hd::memory_order_relaxed);
    head.next = bucket.first;
    bucket.first = index;
    unlock_bucket(bucket);
}

/// Removes head `index` from its chain, unless it has links or its block is dirty; false if it
/// stays. A thread that marks a block dirty holds a link, so neither condition can change while
/// this thread holds the bucket's lock and sees no links.
WARREN_HD inline bool evict_head(const HeadTable& table, u32 index, const u64* dirty) {
    Head& head = table.heads[index];
    Bucket& bucket = table.bucket_of(head.place);
    lock_bucket(bucket);
    // Acquire: pairs with the release in unlink_head().
    const bool idle = device_atomic<u32>(head.links).load(hd::memory_order_acquire) == 0;
    const bool clean = !test_bit(dirty, head.place / format::block_size);
    if (idle && clean) {
        u32* from = &bucket.first;
        while (*from != index)
            from = &table.heads[*from].next;
        *from = head.next;
        head.place = place_none;
    }
    unlock_bucket(bucket);
    return idle && clean;
}

}  // namespace warren::core

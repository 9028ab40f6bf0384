// SPDX-License-Identifier: Apache-2.0
// The heads map: metadata in a fixed number of block frames. Each frame has a head with its place
// and a link count; a block in use is never evicted. Heads are found by hash; the one that was not
// used for longest goes first (second-chance order).
//
// Invariant: a head is in exactly one bucket chain if place != none, and its links only grow from
// zero under the bucket's lock, under which eviction reads them too.
#pragma once

#include "base/host_device.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren::core {

struct Head {
    u64 place;
    u32 next;   // in its bucket's chain, head_none at the end
    u32 links;  // operations and volatile state that use the block
    u32 used;   // second chance: set by every look-up
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
    format::Block* blocks;  // one a head

    WARREN_HD Bucket& bucket_of(u64 place) const {
        const u64 x = place / format::block_size * 0x9e3779b97f4a7c15u;
        return buckets[static_cast<u32>(x >> 32) & bucket_mask];
    }
};

/// Takes a bucket's lock. Holders do not wait for anything, so the spin is short.
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

/// The head of `place`, its links raised by one; head_none if the block is not resident.
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

/// Gives back one link. The block may be evicted after that.
WARREN_HD inline void unlink_head(const HeadTable& table, u32 index) {
    // Release: what was written to the block comes before an eviction that sees links at zero.
    device_atomic<u32>(table.heads[index].links).fetch_sub(1, hd::memory_order_release);
}

/// Puts `place` into the free head `index`, linked once. Requires: the block's contents are filled
/// in.
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

/// Removes head `index` from its chain unless it is linked or the next commit needs it. False if it
/// stays. A thread that makes a block dirty holds a link, so both conditions are stable under the
/// lock.
WARREN_HD inline bool evict_head(const HeadTable& table, u32 index, const u64* dirty) {
    Head& head = table.heads[index];
    Bucket& bucket = table.bucket_of(head.place);
    lock_bucket(bucket);
    // Acquire: pairs with the release in unlink_head().
    const bool idle = device_atomic<u32>(head.links).load(hd::memory_order_acquire) == 0;
    const u64 block = head.place / format::block_size;
    const bool clean =
        (device_atomic<u64>(const_cast<u64&>(dirty[block / 64])).load(hd::memory_order_relaxed) >>
             block % 64 &
         1) == 0;
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

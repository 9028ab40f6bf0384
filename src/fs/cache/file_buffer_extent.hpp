// SPDX-License-Identifier: Apache-2.0
// An extent of the file buffer, for both parts of its code: reading and writing (file_buffer.cpp),
// and dirty blocks (file_buffer_dirty.cpp).
//
// A reader that finds an extent by a hint has not locked the table, so the extent may be evicted at
// that moment. Therefore extents are freed only together with the buffer; a reader counts itself as
// a user before it reads anything else; and a thread that removes an extent from the table first
// closes it, which succeeds only while it has no user.
//
// Invariant: the counts agree with the bits. An extent is closed while it is loading and while it
// is not in the table. `first`, `blocks` and `memory` change only while it is closed.
#pragma once

#include <atomic>
#include <bitset>

#include "fs/cache/content_lock.hpp"
#include "fs/cache/file_buffer.hpp"

namespace warren {

/// The cost of a disk request, as the number of blocks that could be transferred in the same time.
inline constexpr u64 request_cost_blocks = 16;

/// The length of the longest extent, which has a bit for each of its blocks.
inline constexpr u64 extent_blocks_limit = 512;
using ExtentBits = std::bitset<extent_blocks_limit>;

inline void set_bits(ExtentBits& bits, u64 first, u64 count, bool value) {
    for (u64 i = first; i < first + count; ++i)
        bits[i] = value;
}

/// The fields that a search for room reads come first, so that they share a cache line.
struct alignas(64) FileBuffer::Extent {
    u64 first = 0;
    u64 blocks = 0;
    u64 dirty_count = 0;
    u64 logged_count = 0;
    std::atomic<u32> users{closed};       // number of users, and the bit `closed`
    std::atomic<bool> was_hinted{false};  // found by a hint since the last search for room
    bool is_loading = false;
    bool is_writing = false;
    u64 limit = 0;  // the limit of the load that filled it; see load_length()
    format::Block* memory = nullptr;
    std::list<Extent*>::iterator position;
    Map::iterator entry;
    ContentLock content;
    ExtentBits dirty;
    ExtentBits taken;   // blocks that are being written
    ExtentBits logged;  // blocks that are in a journal, but not at their places yet
    Extent* next_spare = nullptr;

    static constexpr u32 closed = u32{1} << 31;

    u64 end() const { return first + blocks; }
    bool is_locked() const { return is_loading || is_writing; }
    bool is_used() const {
        // Sequentially consistent: see FileBuffer::leave().
        return (users.load(std::memory_order_seq_cst) & ~closed) != 0;
    }
    /// Whether it must stay even if it has no user.
    bool is_kept() const { return is_locked() || logged_count != 0; }
    bool is_idle() const { return !is_used() && !is_kept(); }
    /// Counts a user that has not locked the table; FileBuffer::leave() must follow. False if the
    /// extent is closed: the user may read nothing of it.
    bool enter() {
        // Pairs with the release in open().
        return (users.fetch_add(1, std::memory_order_acquire) & closed) == 0;
    }
    /// Admits users that have not locked the table.
    void open() {
        // Pairs with the acquire in enter().
        users.fetch_and(~closed, std::memory_order_release);
    }
    /// Closes the extent. False if it has a user.
    bool close() {
        u32 nobody = 0;
        // Pairs with the decrement in FileBuffer::leave(), so that everything that users did is
        // visible.
        return users.compare_exchange_strong(nobody, closed, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }
    std::byte* bytes() { return reinterpret_cast<std::byte*>(memory); }
    /// The cost of evicting the extent and loading it again, in blocks transferred.
    u64 cost() const {
        return request_cost_blocks + blocks +
               (dirty_count == 0 ? 0 : request_cost_blocks + dirty_count);
    }
};

}  // namespace warren

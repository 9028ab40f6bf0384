// SPDX-License-Identifier: Apache-2.0
// What the file buffer knows of an extent, for the two halves of it: reading and writing bytes
// (file_buffer.cpp), and what becomes of dirty ones (file_buffer_dirty.cpp).
//
// Invariant: the counts are those of the bits.
#pragma once

#include <bit>

#include "fs/cache/file_buffer.hpp"

namespace warren {

/// What a request to the disk costs, in blocks that could be moved in that time.
inline constexpr u64 request_cost_blocks = 16;

inline u64 bits_in(const std::vector<u64>& words) {
    u64 count = 0;
    for (const u64 word : words)
        count += static_cast<u64>(std::popcount(word));
    return count;
}

inline void set_bits(std::vector<u64>& words, u64 first, u64 count, bool value) {
    for (u64 i = first; i < first + count; ++i) {
        const u64 bit = u64{1} << i % 64;
        words[i / 64] = value ? words[i / 64] | bit : words[i / 64] & ~bit;
    }
}

inline bool test_bit(const std::vector<u64>& words, u64 index) {
    return (words[index / 64] >> index % 64 & 1) != 0;
}

struct FileBuffer::Extent {
    u64 first = 0;
    u64 blocks = 0;
    u64 limit = 0;  // that it was loaded with
    format::Block* memory = nullptr;
    std::vector<u64> dirty;   // a bit for each block
    std::vector<u64> taken;   // those that are being written
    std::vector<u64> logged;  // in a journal, not at its place
    u64 dirty_count = 0;
    u64 logged_count = 0;
    u32 users = 0;
    bool is_loading = false;
    bool is_writing = false;
    std::shared_mutex content;
    std::list<Extent*>::iterator position;

    u64 end() const { return first + blocks; }
    bool is_locked() const { return is_loading || is_writing; }
    bool is_idle() const { return users == 0 && !is_locked() && logged_count == 0; }
    std::byte* bytes() { return reinterpret_cast<std::byte*>(memory); }
    /// What it takes to lose it and to have it back, in blocks moved.
    u64 cost() const {
        return request_cost_blocks + blocks +
               (dirty_count == 0 ? 0 : request_cost_blocks + dirty_count);
    }
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Buzhash rotates by one per byte, so a byte contributes its table entry rotated by its distance
// from the window's end. If entries are rotated by their absolute position instead, prefix sums
// suffice: a window's hash is the difference (XOR) of the sums at its end and its beginning,
// rotated. This takes one lookup per byte, and many windows are tested at once by rotating the mask
// instead of the hashes.
//
// Invariant: sums_[k] is the sum of the bytes up to k - window bytes after the start of the tile.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "chunk/scanner.hpp"
#include "chunk/streams.hpp"

namespace warren::chunk {

namespace {

constexpr u32 turn = 32;  // the period of rotations of a hash
constexpr u64 least_tile_bytes = 2048;

using Four = u32 __attribute__((vector_size(16)));

Four load_four(const u32* at) {
    Four four;
    std::memcpy(&four, at, sizeof four);
    return four;
}

class BuzhashScan {
 public:
    BuzhashScan(const Rule& rule, const u32* entries, u64 count, u64* bits)
        : window_(rule.window_bytes),
          // Moving what the next tile needs costs at most a few times as much as the tile itself.
          tile_bytes_(std::min(std::max<u64>(least_tile_bytes, window_ / 2 / 64 * 64),
                               (count + 63) / 64 * 64)),
          entries_(entries),
          bits_(bits),
          sums_(window_ + 1 + tile_bytes_) {
        for (u32 place = 0; place < turn; ++place) {
            masks_[place] = std::rotr(static_cast<u32>(rule.mask), static_cast<int>(place));
            values_[place] = std::rotr(static_cast<u32>(rule.value), static_cast<int>(place));
        }
    }

    void run(const u8* bytes, u64 count) {
        u32 sum = 0;
        for (u64 index = 0; index < window_; ++index) {
            const u32 place = static_cast<u32>(index - window_) % turn;
            sum ^= std::rotr(entries_[*(bytes + index - window_)], static_cast<int>(place));
            sums_[index + 1] = sum;
        }
        for (u64 begin = 0; begin < count; begin += tile_bytes_) {
            const u64 size = std::min(count - begin, tile_bytes_);
            add_up(bytes + begin, size);
            test(begin, size);
            std::memmove(sums_.data(), sums_.data() + tile_bytes_, (window_ + 1) * sizeof(u32));
        }
    }

 private:
    void add_up(const u8* bytes, u64 size) {
        u32* const sums = sums_.data() + window_ + 1;
        u32 sum = sums[-1];
        u64 index = 0;
        for (; index + turn <= size; index += turn) {
#pragma GCC unroll 32
            for (u32 place = 0; place < turn; ++place) {
                sum ^= std::rotr(entries_[bytes[index + place]], static_cast<int>(place));
                sums[index + place] = sum;
            }
        }
        for (u32 place = 0; index < size; ++index, ++place) {
            sum ^= std::rotr(entries_[bytes[index]], static_cast<int>(place));
            sums[index] = sum;
        }
    }

    void test(u64 begin, u64 size) {
        u64 index = 0;
        for (; index + turn <= size; index += turn) {
            if (has_match(index)) [[unlikely]]
                note(begin, index, turn);
        }
        note(begin, index, static_cast<u32>(size - index));
    }

    /// Whether one of 32 windows matches.
    bool has_match(u64 index) const {
        const u32* const last = sums_.data() + window_ + 1 + index;
        const u32* const first = sums_.data() + 1 + index;
        Four any{};
#pragma GCC unroll 8
        for (u32 place = 0; place < turn; place += 4) {
            const Four hash = load_four(last + place) ^ load_four(first + place);
            const Four rest = (hash & load_four(masks_ + place)) ^ load_four(values_ + place);
            any |= reinterpret_cast<Four>(rest == 0);
        }
        return (any[0] | any[1] | any[2] | any[3]) != 0;
    }

    void note(u64 begin, u64 index, u32 count) {
        for (u32 place = 0; place < count; ++place) {
            const u32 hash = sums_[window_ + 1 + index + place] ^ sums_[1 + index + place];
            if ((hash & masks_[place]) == values_[place]) set_bit(bits_, begin + index + place);
        }
    }

    u64 window_;
    u64 tile_bytes_;
    const u32* entries_;
    u64* bits_;
    std::vector<u32> sums_;
    u32 masks_[turn];
    u32 values_[turn];
};

}  // namespace

void scan_buzhash(const Rule& rule, const u32* entries, const u8* bytes, u64 count, u64* bits) {
    BuzhashScan(rule, entries, count, bits).run(bytes, count);
}

}  // namespace warren::chunk

// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing with vectors of `n` words: included once by each of lanes_4.cpp, lanes_8.cpp
// and lanes_16.cpp, after the pragma that selects their instructions. Everything is in an unnamed
// namespace, so that the linker can never use code for one kind of processor in a call for another.
//
// Invariant: bytes outside of a message are never read.
#pragma once

#include <cstring>
#include <span>

#include "hash/lanes.hpp"
#include "hash/lanes_trees.hpp"
#include "hash/lanes_vector.hpp"
#include "hash/md5.hpp"
#include "hash/sha1.hpp"
#include "hash/sha256.hpp"
#include "hash/word.hpp"

namespace warren::hash {
namespace {

/// Stores a word in the algorithm's byte order.
template <class Digest>
WARREN_INLINE void store_word(u32 word, u8* at) {
    if (Digest::is_big_endian) word = byte_swap(word);
    std::memcpy(at, &word, 4);
}

/// Builds the padded end of a message from the `rest_bytes` after its last whole block. Returns the
/// number of blocks.
template <class Digest>
u64 pad_end(const u8* rest, u64 rest_bytes, u64 length_bytes, u8 (&end)[2 * block_bytes]) {
    const u64 blocks = rest_bytes < block_bytes - 8 ? 1 : 2;
    std::memset(end, 0, sizeof end);
    if (rest_bytes != 0) std::memcpy(end, rest, rest_bytes);
    end[rest_bytes] = 0x80;
    u64 bits = length_bytes * 8;
    if (Digest::is_big_endian) bits = __builtin_bswap64(bits);
    std::memcpy(end + blocks * block_bytes - 8, &bits, 8);
    return blocks;
}

/// Hashes n messages in parallel. A lane that finishes a message takes the next one without waiting
/// for the others.
template <u32 n, class Digest>
class Queue {
    using Word = typename Vector<n>::Word;

 public:
    Queue(std::span<const Bytes> pieces, u8* digests, const Beginning& beginning)
        : pieces_(pieces), digests_(digests), beginning_(beginning) {
        if (beginning_.state == nullptr) beginning_.state = Digest::initial;
    }

    void run(FinishOne finish, u32 alone) {
        for (u32 lane = 0; lane < n; ++lane)
            take_next(lane);
        while (busy_ > 0) {
            if (next_ == pieces_.size() && busy_ <= alone && give_away(finish)) continue;
            step();
        }
    }

 private:
    struct Lane {
        u64 piece;
        u64 blocks = 0;  // up to the end of the message's whole blocks, or of its padded end
        bool is_at_end = false;
        bool is_busy = false;
        u8 end[2 * block_bytes];
    };

    void take_next(u32 lane) {
        lanes_[lane].is_busy = false;
        if (next_ == pieces_.size()) return;
        lanes_[lane].piece = next_++;
        lanes_[lane].is_busy = true;
        lanes_[lane].is_at_end = false;
        ++busy_;
        const Bytes& piece = pieces_[lanes_[lane].piece];
        at_[lane] = reinterpret_cast<const u8*>(piece.data());
        lanes_[lane].blocks = piece.size() / block_bytes;
        for (int i = 0; i < Digest::state_words; ++i)
            state_[i][lane] = beginning_.state[i];
        if (lanes_[lane].blocks == 0) begin_end(lane);
    }

    void begin_end(u32 lane) {
        Lane& own = lanes_[lane];
        const u64 length_bytes = pieces_[own.piece].size();
        own.is_at_end = true;
        own.blocks = pad_end<Digest>(at_[lane], length_bytes % block_bytes,
                                     beginning_.bytes + length_bytes, own.end);
        at_[lane] = own.end;
    }

    void store_digest(u32 lane) {
        u8* digest = digests_ + lanes_[lane].piece * Digest::digest_bytes;
        for (int i = 0; i < Digest::state_words; ++i)
            store_word<Digest>(state_[i][lane], digest + 4 * i);
        --busy_;
    }

    /// Processes as many blocks as the lane with the fewest has left.
    void step() {
        u64 blocks = ~u64{0};
        const u8* somewhere = nullptr;
        for (u32 lane = 0; lane < n; ++lane) {
            if (!lanes_[lane].is_busy || lanes_[lane].blocks >= blocks) continue;
            blocks = lanes_[lane].blocks;
            somewhere = at_[lane];
        }
        for (u32 lane = 0; lane < n; ++lane) {
            if (!lanes_[lane].is_busy) at_[lane] = somewhere;  // any readable data: not used
        }
        compress(blocks);
        for (u32 lane = 0; lane < n; ++lane) {
            if (!lanes_[lane].is_busy) continue;
            at_[lane] += blocks * block_bytes;
            lanes_[lane].blocks -= blocks;
            if (lanes_[lane].blocks != 0) continue;
            if (!lanes_[lane].is_at_end) {
                begin_end(lane);
            } else {
                store_digest(lane);
                take_next(lane);
            }
        }
    }

    void compress(u64 blocks) {
        Word state[Digest::state_words];
        for (int i = 0; i < Digest::state_words; ++i)
            state[i] = state_[i];
        for (u64 offset = 0; offset < blocks * block_bytes; offset += block_bytes) {
            Word message[16];
            Vector<n>::template load_blocks<Digest::is_big_endian>(at_, offset, message);
            Digest::compress(state, message);
        }
        for (int i = 0; i < Digest::state_words; ++i)
            state_[i] = state[i];
    }

    /// Passes one long message to `finish`. Returns false if no message is long enough.
    bool give_away(FinishOne finish) {
        constexpr u64 worth_blocks = 8;
        for (u32 lane = 0; lane < n; ++lane) {
            Lane& own = lanes_[lane];
            if (!own.is_busy || own.is_at_end || own.blocks < worth_blocks) continue;
            u32 state[Digest::state_words];
            for (int i = 0; i < Digest::state_words; ++i)
                state[i] = state_[i][lane];
            const u64 length_bytes = pieces_[own.piece].size();
            const u64 rest_bytes = own.blocks * block_bytes + length_bytes % block_bytes;
            const auto* rest = reinterpret_cast<const std::byte*>(at_[lane]);
            finish({state, Bytes(rest, rest_bytes), beginning_.bytes + length_bytes},
                   digests_ + own.piece * Digest::digest_bytes);
            own.is_busy = false;
            --busy_;
            return true;
        }
        return false;
    }

    std::span<const Bytes> pieces_;
    u8* digests_;
    Beginning beginning_;
    u64 next_ = 0;
    u32 busy_ = 0;
    Word state_[Digest::state_words] = {};
    const u8* at_[n] = {};
    Lane lanes_[n];
};

template <u32 n, class Digest>
void hash_pieces_in_lanes(std::span<const Bytes> pieces, u8* digests, const Beginning& beginning,
                          FinishOne finish, u32 alone) {
    Queue<n, Digest>(pieces, digests, beginning).run(finish, alone);
}

/// Reads windows directly from the data, except the last few, which are read from a padded copy.
template <u32 n, class Digest>
class WindowLanes {
    using Word = typename Vector<n>::Word;

 public:
    WindowLanes(const WindowPlan& plan, const u8* data, const WindowOutput& output)
        : plan_(plan), data_(data), output_(output) {}

    /// Hashes the windows from `window` on, at most n and at most `count`.
    void run(u64 window, u64 count) {
        const u64 reach = plan_.blocks * block_bytes;
        Word state[Digest::state_words];
        set_initial<Digest>(state);
        const u64 last = window + (count < n ? count : n) - 1;
        const bool is_inside = last * plan_.stride_bytes + reach <= plan_.data_bytes;
        const u8* at[n];
        for (u32 lane = 0; lane < n; ++lane) {
            const u64 own = window + lane < last ? window + lane : last;
            at[lane] = data_ + own * plan_.stride_bytes;
        }
        for (u64 block = 0; block < plan_.blocks; ++block) {
            Word message[16];
            if (is_inside) {
                load<true>(at, block, message);
            } else {
                load<false>(at, block, message);
            }
            if (block >= plan_.full_blocks) pad(block - plan_.full_blocks, message);
            Digest::compress(state, message);
        }
        store(window, count < n ? count : n, state);
    }

 private:
    template <bool is_inside>
    WARREN_INLINE void load(const u8* const (&at)[n], u64 block, Word (&message)[16]) {
        const u64 offset = block * block_bytes;
        if constexpr (is_inside) {
            Vector<n>::template load_blocks<Digest::is_big_endian>(at, offset, message);
            return;
        }
        u8 copies[n][block_bytes] = {};
        const u8* copied[n];
        for (u32 lane = 0; lane < n; ++lane) {
            copied[lane] = copies[lane];
            if (offset >= plan_.window_bytes) continue;
            const u64 rest = plan_.window_bytes - offset;
            std::memcpy(copies[lane], at[lane] + offset, rest < block_bytes ? rest : block_bytes);
        }
        Vector<n>::template load_blocks<Digest::is_big_endian>(copied, 0, message);
    }

    WARREN_INLINE void pad(u64 which, Word (&message)[16]) {
        for (u32 i = 0; i < 16; ++i)
            message[i] = (message[i] & plan_.keep[which][i]) | plan_.pad[which][i];
    }

    WARREN_INLINE void store(u64 window, u64 count, const Word (&state)[Digest::state_words]) {
        if (output_.kept_bytes == 0) {
            const Word last = state[Digest::state_words - 1];
            const u32 mask =
                Digest::is_big_endian ? output_.match_mask : byte_swap(output_.match_mask);
            u64 bits = Vector<n>::zero_words(last & mask);
            if (count < n) bits &= (u64{1} << count) - 1;
            output_.bitmap[window / 64] |= bits << window % 64;
            return;
        }
        u8* to = output_.digests + window * output_.kept_bytes;
        for (u32 lane = 0; lane < count; ++lane, to += output_.kept_bytes) {
            u8 digest[Digest::digest_bytes];
            for (int i = 0; i < Digest::state_words; ++i)
                store_word<Digest>(state[i][lane], digest + 4 * i);
            std::memcpy(to, digest, output_.kept_bytes);
        }
    }

    const WindowPlan& plan_;
    const u8* data_;
    const WindowOutput& output_;
};

template <u32 n, class Digest>
void hash_windows_in_lanes(const WindowPlan& plan, const u8* data, u64 first, u64 count,
                           const WindowOutput& output) {
    if (output.kept_bytes == 0) {
        std::memset(output.bitmap + first / 64, 0, (count + 63) / 64 * 8);
    }
    WindowLanes<n, Digest> lanes(plan, data, output);
    for (u64 done = 0; done < count; done += n)
        lanes.run(first + done, count - done);
}

template <u32 n>
constexpr LaneSet make_lane_set(const char* name) {
    return {n,
            name,
            {hash_pieces_in_lanes<n, Md5>, hash_pieces_in_lanes<n, Sha1>,
             hash_pieces_in_lanes<n, Sha256>},
            {hash_windows_in_lanes<n, Md5>, hash_windows_in_lanes<n, Sha1>,
             hash_windows_in_lanes<n, Sha256>},
            hash_xxh3_in_lanes<n>,
            hash_chunks_in_lanes<n>,
            hash_parents_in_lanes<n>};
}

}  // namespace
}  // namespace warren::hash

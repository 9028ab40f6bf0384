// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing for vectors of `n` words: included once by each of lanes_4.cpp, lanes_8.cpp
// and lanes_16.cpp, behind the pragma that names their instructions. All is in an unnamed
// namespace, so that code for one kind of processor can never be linked into a call for another.
//
// Invariant: bytes outside of a message are never read.
#pragma once

#include <cstring>
#include <span>

#include "hash/blake3.hpp"
#include "hash/lanes.hpp"
#include "hash/md5.hpp"
#include "hash/sha1.hpp"
#include "hash/sha256.hpp"
#include "hash/word.hpp"

namespace warren::hash {
namespace {

constexpr u32 block_bytes = 64;

template <u32 n>
struct Vector {
    typedef u32 Word __attribute__((vector_size(n * 4)));
    typedef u8 Byte __attribute__((vector_size(n * 4)));
    typedef u64 Pair __attribute__((vector_size(n * 4)));

    static WARREN_INLINE Word load(const u8* at) {
        Word word;
        std::memcpy(&word, at, sizeof word);
        return word;
    }

    /// 16 bytes from each of at[which], at[which + 4] and so on, side by side. Joining them as they
    /// are loaded leaves only a transposition within quarters of the vector.
    static WARREN_INLINE Word load_quarters(const u8* const (&at)[n], u32 which, u64 offset) {
#if defined(WARREN_HASH_AVX2)
        const auto pair = [&](u32 first) WARREN_INLINE_LAMBDA {
            const auto* low = reinterpret_cast<const __m128i*>(at[which + 4 * first] + offset);
            const auto* high = reinterpret_cast<const __m128i*>(at[which + 4 * first + 4] + offset);
            return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                           _mm_loadu_si128(high), 1);
        };
#endif
#if defined(WARREN_HASH_AVX512)
        return (Word)_mm512_inserti64x4(_mm512_castsi256_si512(pair(0)), pair(2), 1);
#elif defined(WARREN_HASH_AVX2)
        return (Word)pair(0);
#else
        return load(at[which] + offset);
#endif
    }

    /// In every quarter of four words by itself: those of x and y in turn, the low or high ones as
    /// single words (from 0 or 2) or as pairs.
    template <u32 from, u32... i>
    static WARREN_INLINE Word unpack(Word x, Word y, std::integer_sequence<u32, i...>) {
        return __builtin_shufflevector(x, y, (i / 4 * 4 + from + i % 4 / 2 + i % 2 * n)...);
    }
    template <u32 from, u32... i>
    static WARREN_INLINE Word unpack_pairs(Word x, Word y, std::integer_sequence<u32, i...>) {
        // As pairs also in the type: the compiler does not see that the words move in pairs.
        return (Word)__builtin_shufflevector((Pair)x, (Pair)y,
                                             (i / 2 * 2 + from + i % 2 * (n / 2))...);
    }

    /// Word w of row r becomes word r of row w, in every quarter by itself.
    static WARREN_INLINE void transpose(Word (&rows)[4]) {
        constexpr auto all = std::make_integer_sequence<u32, n>{};
        constexpr auto pairs = std::make_integer_sequence<u32, n / 2>{};
        const Word low = unpack<0>(rows[0], rows[1], all);
        const Word high = unpack<2>(rows[0], rows[1], all);
        const Word other_low = unpack<0>(rows[2], rows[3], all);
        const Word other_high = unpack<2>(rows[2], rows[3], all);
        rows[0] = unpack_pairs<0>(low, other_low, pairs);
        rows[1] = unpack_pairs<1>(low, other_low, pairs);
        rows[2] = unpack_pairs<0>(high, other_high, pairs);
        rows[3] = unpack_pairs<1>(high, other_high, pairs);
    }

    /// Bit w says whether word w is 0.
    static WARREN_INLINE u64 zero_words(Word word) {
#if defined(WARREN_HASH_AVX512)
        return _mm512_testn_epi32_mask((__m512i)word, (__m512i)word);
#elif defined(WARREN_HASH_AVX2)
        const __m256i zeros = _mm256_cmpeq_epi32((__m256i)word, _mm256_setzero_si256());
        return static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(zeros)));
#else
        u32 words[n];
        std::memcpy(words, &word, sizeof words);
        u64 bits = 0;
        for (u32 lane = 0; lane < n; ++lane)
            bits |= u64{words[lane] == 0} << lane;
        return bits;
#endif
    }

    /// Writes words 0 to 7 of each lane to its place, for the first `count` lanes.
    template <class Place>
    static WARREN_INLINE void store_eight(const Word (&values)[8], u32 count, Place place) {
        for (u32 half = 0; half < 2; ++half) {
            Word rows[4] = {values[4 * half], values[4 * half + 1], values[4 * half + 2],
                            values[4 * half + 3]};
            transpose(rows);
            for (u32 lane = 0; lane < count; ++lane) {
                const auto* quarters = reinterpret_cast<const u8*>(&rows[lane % 4]);
                std::memcpy(place(lane) + 4 * half, quarters + lane / 4 * 16, 16);
            }
        }
    }

    template <u32... i>
    static WARREN_INLINE Word swap_bytes(Word word, std::integer_sequence<u32, i...>) {
        const Byte bytes = (Byte)word;
        return (Word)__builtin_shufflevector(bytes, bytes, (i / 4 * 4 + 3 - i % 4)...);
    }

    /// The block at each of the n places as 16 words, lane by lane.
    template <bool is_big_endian>
    static WARREN_INLINE void load_blocks(const u8* const (&at)[n], u64 offset,
                                          Word (&message)[16]) {
        constexpr auto all = std::make_integer_sequence<u32, n * 4>{};
#pragma GCC unroll 4
        for (u32 part = 0; part < 4; ++part) {
            Word rows[4];
            for (u32 row = 0; row < 4; ++row)
                rows[row] = load_quarters(at, row, offset + 16 * part);
            transpose(rows);
            for (u32 row = 0; row < 4; ++row)
                message[4 * part + row] = is_big_endian ? swap_bytes(rows[row], all) : rows[row];
        }
    }
};

/// Writes word by word, in the algorithm's order of bytes.
template <class Digest>
WARREN_INLINE void store_word(u32 word, u8* at) {
    if (Digest::is_big_endian) word = byte_swap(word);
    std::memcpy(at, &word, 4);
}

/// The padded end of a message: the `rest` of it behind its last whole block. Answers its blocks.
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

/// n messages under way. A lane whose message ends takes the next one; the others do not wait.
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
        u64 blocks = 0;  // to the end of the message's whole blocks, or of its padded end
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

    /// Takes as many blocks as the shortest lane has.
    void step() {
        u64 blocks = ~u64{0};
        const u8* somewhere = nullptr;
        for (u32 lane = 0; lane < n; ++lane) {
            if (!lanes_[lane].is_busy || lanes_[lane].blocks >= blocks) continue;
            blocks = lanes_[lane].blocks;
            somewhere = at_[lane];
        }
        for (u32 lane = 0; lane < n; ++lane) {
            if (!lanes_[lane].is_busy) at_[lane] = somewhere;  // hashed along, and forgotten
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

    /// Hands one long message to `finish`; false if none is worth it.
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

/// Reads windows straight from the data; the few at the end of it from a padded copy.
template <u32 n, class Digest>
class WindowLanes {
    using Word = typename Vector<n>::Word;

 public:
    WindowLanes(const WindowPlan& plan, const u8* data, const WindowOutput& output)
        : plan_(plan), data_(data), output_(output) {}

    /// The windows from `window` on, at most n and at most `count`.
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

/// Up to n chunks of BLAKE3. Lanes that are at their end keep their value while others go on.
template <u32 n>
class ChunkLanes {
    using Word = typename Vector<n>::Word;

 public:
    explicit ChunkLanes(std::span<const ChunkJob> jobs) : jobs_(jobs) {
        for (u32 lane = 0; lane < n; ++lane) {
            const ChunkJob& job = jobs_[lane < jobs_.size() ? lane : 0];
            at_[lane] = reinterpret_cast<const u8*>(job.data.data());
            counter_low_[lane] = static_cast<u32>(job.index);
            counter_high_[lane] = static_cast<u32>(job.index >> 32);
            bytes_[lane] = static_cast<u32>(job.data.size());
            if (bytes_[lane] != Blake3::chunk_bytes) are_whole_ = false;
            if (blocks_of(lane) > most_blocks_) most_blocks_ = blocks_of(lane);
        }
    }

    void run() {
        Word value[8];
        set_initial<Blake3>(value);
        for (u32 block = 0; block < most_blocks_; ++block) {
            if (are_whole_) {
                take_whole(block, value);
            } else {
                take_part(block, value);
            }
        }
        Vector<n>::store_eight(value, static_cast<u32>(jobs_.size()),
                               [&](u32 lane) { return jobs_[lane].chaining_value; });
    }

 private:
    u32 blocks_of(u32 lane) const {
        return bytes_[lane] == 0 ? 1 : (bytes_[lane] + block_bytes - 1) / block_bytes;
    }

    WARREN_INLINE void take_whole(u32 block, Word (&value)[8]) {
        Word message[16];
        Vector<n>::template load_blocks<false>(at_, block * block_bytes, message);
        Word flags = Word{} + (block == 0 ? u32{Blake3::chunk_start} : 0u);
        if (block == most_blocks_ - 1) {
            for (u32 lane = 0; lane < n; ++lane)
                flags[lane] |= end_flags(lane);
        }
        Blake3::compress(value, message, counter_low_, counter_high_, Word{} + block_bytes, flags);
    }

    u32 end_flags(u32 lane) const {
        const bool is_root = lane < jobs_.size() && jobs_[lane].is_root;
        return Blake3::chunk_end | (is_root ? u32{Blake3::root} : 0u);
    }

    void take_part(u32 block, Word (&value)[8]) {
        Word flags = {};
        Word lengths = {};
        Word active = {};
        u8 ends[n][block_bytes] = {};
        const u8* from[n];
        for (u32 lane = 0; lane < n; ++lane) {
            from[lane] = ends[lane];
            if (block >= blocks_of(lane)) continue;
            active[lane] = ~u32{0};
            if (block == 0) flags[lane] = Blake3::chunk_start;
            if (block == blocks_of(lane) - 1) flags[lane] |= end_flags(lane);
            const u32 rest = bytes_[lane] - block * block_bytes;
            lengths[lane] = rest < block_bytes ? rest : block_bytes;
            if (rest >= block_bytes) {
                from[lane] = at_[lane] + block * block_bytes;
            } else if (rest != 0) {
                std::memcpy(ends[lane], at_[lane] + block * block_bytes, rest);
            }
        }
        Word message[16];
        Vector<n>::template load_blocks<false>(from, 0, message);
        Word next[8];
        for (int i = 0; i < 8; ++i)
            next[i] = value[i];
        Blake3::compress(next, message, counter_low_, counter_high_, lengths, flags);
        for (int i = 0; i < 8; ++i)
            value[i] = choose(active, next[i], value[i]);
    }

    std::span<const ChunkJob> jobs_;
    const u8* at_[n];
    Word counter_low_ = {};
    Word counter_high_ = {};
    u32 bytes_[n];
    u32 most_blocks_ = 0;
    bool are_whole_ = true;
};

template <u32 n>
void hash_chunks_in_lanes(std::span<const ChunkJob> jobs) {
    for (; jobs.size() > n; jobs = jobs.subspan(n))
        ChunkLanes<n>(jobs.first(n)).run();
    if (!jobs.empty()) ChunkLanes<n>(jobs).run();
}

template <u32 n>
void hash_parents_in_lanes(std::span<const ParentJob> jobs) {
    using Word = typename Vector<n>::Word;
    for (u64 first = 0; first < jobs.size(); first += n) {
        const u8* at[n];
        Word flags = {};
        for (u32 lane = 0; lane < n; ++lane) {
            const ParentJob& job = jobs[first + lane < jobs.size() ? first + lane : first];
            at[lane] = reinterpret_cast<const u8*>(job.children);
            flags[lane] = Blake3::parent | (job.is_root ? u32{Blake3::root} : 0u);
        }
        Word message[16];
        Vector<n>::template load_blocks<false>(at, 0, message);
        Word value[8];
        set_initial<Blake3>(value);
        Blake3::compress(value, message, Word{}, Word{}, Word{} + block_bytes, flags);
        const u64 left = jobs.size() - first;
        Vector<n>::store_eight(value, left < n ? static_cast<u32>(left) : n,
                               [&](u32 lane) { return jobs[first + lane].chaining_value; });
    }
}

template <u32 n>
constexpr LaneSet make_lane_set(const char* name) {
    return {n,
            name,
            {hash_pieces_in_lanes<n, Md5>, hash_pieces_in_lanes<n, Sha1>,
             hash_pieces_in_lanes<n, Sha256>},
            {hash_windows_in_lanes<n, Md5>, hash_windows_in_lanes<n, Sha1>,
             hash_windows_in_lanes<n, Sha256>},
            hash_chunks_in_lanes<n>,
            hash_parents_in_lanes<n>};
}

}  // namespace
}  // namespace warren::hash

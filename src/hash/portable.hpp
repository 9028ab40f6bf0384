// SPDX-License-Identifier: Apache-2.0
// Streams of MD5, SHA-1, SHA-256 and XXH3 in plain C++, one block at a time. BlockStream can use
// other code for its blocks.
//
// Invariant: input bytes that do not fill a block yet (for XXH3: the last block and the 64 bytes
// before it) are in the stream's own buffer.
#pragma once

#include <algorithm>
#include <cstring>

#include "hash/alone.hpp"

namespace warren::hash {

/// Hashes `count` blocks of 64 bytes into a state.
using TakeBlocks = void (*)(u32* state, const u8* blocks, u64 count);

template <class Digest>
void take_blocks(u32* state, const u8* blocks, u64 count) {
    u32 words[Digest::state_words];
    std::copy_n(state, Digest::state_words, words);
    for (; count != 0; --count, blocks += 64) {
        u32 message[16];
        std::memcpy(message, blocks, sizeof message);
        if (Digest::is_big_endian) {
            for (u32& word : message)
                word = byte_swap(word);
        }
        Digest::compress(words, message);
    }
    std::copy_n(words, Digest::state_words, state);
}

template <class Digest, TakeBlocks take = take_blocks<Digest>>
class BlockStream final : public Sequential {
    static constexpr u64 block_bytes = 64;

 public:
    BlockStream() { std::copy_n(Digest::initial, Digest::state_words, state_); }
    /// Continues a message after a whole number of blocks.
    BlockStream(const u32* state, u64 length_bytes) : length_bytes_(length_bytes) {
        std::copy_n(state, Digest::state_words, state_);
    }

    void update(Bytes part) override {
        const u8* at = reinterpret_cast<const u8*>(part.data());
        u64 left = part.size();
        u64 held = length_bytes_ % block_bytes;
        length_bytes_ += left;
        if (held != 0) {
            const u64 taken = std::min(left, block_bytes - held);
            std::copy_n(at, taken, held_ + held);
            at += taken;
            left -= taken;
            if (held + taken < block_bytes) return;
            take(state_, held_, 1);
        }
        take(state_, at, left / block_bytes);
        std::copy_n(at + left / block_bytes * block_bytes, left % block_bytes, held_);
    }

    void finish(u8* digest) override {
        const u64 bits = length_bytes_ * 8;
        u64 held = length_bytes_ % block_bytes;
        held_[held++] = 0x80;
        if (held > block_bytes - 8) {
            std::fill(held_ + held, held_ + block_bytes, u8{0});
            take(state_, held_, 1);
            held = 0;
        }
        std::fill(held_ + held, held_ + block_bytes - 8, u8{0});
        for (u32 i = 0; i < 8; ++i) {
            const u32 place = Digest::is_big_endian ? 7 - i : i;
            held_[block_bytes - 8 + place] = static_cast<u8>(bits >> (8 * i));
        }
        take(state_, held_, 1);
        for (int i = 0; i < Digest::state_words; ++i) {
            const u32 word = Digest::is_big_endian ? byte_swap(state_[i]) : state_[i];
            std::memcpy(digest + 4 * i, &word, 4);
        }
    }

 private:
    u32 state_[Digest::state_words];
    u64 length_bytes_ = 0;
    u8 held_[block_bytes];
};

class PortableXxh3 final : public Sequential {
    static constexpr u32 before_bytes = Xxh3::stripe_bytes;

 public:
    PortableXxh3() { std::copy_n(Xxh3::initial, Xxh3::lanes, accumulators_); }

    void update(Bytes part) override {
        const u8* at = reinterpret_cast<const u8*>(part.data());
        u64 left = part.size();
        length_bytes_ += left;
        while (left != 0) {
            // A block is processed only when more data follow: the last one is treated differently.
            if (held_bytes_ == Xxh3::block_bytes) take_held();
            const u64 taken = std::min<u64>(left, Xxh3::block_bytes - held_bytes_);
            std::copy_n(at, taken, held_ + before_bytes + held_bytes_);
            held_bytes_ += static_cast<u32>(taken);
            at += taken;
            left -= taken;
        }
    }

    void finish(u8* digest) override {
        const u64* words = Xxh3::secret_words;
        const u8* held = held_ + before_bytes;
        if (length_bytes_ <= Xxh3::most_short_bytes) {
            Xxh3::store(Xxh3::hash(held, length_bytes_, words), digest);
            return;
        }
        for (u32 i = 0; i < (held_bytes_ - 1) / Xxh3::stripe_bytes; ++i)
            Xxh3::take_stripe(accumulators_, held + Xxh3::stripe_bytes * i, words, 8 * i);
        Xxh3::take_stripe(accumulators_, held + held_bytes_ - Xxh3::stripe_bytes, words,
                          Xxh3::last_stripe_secret);
        Xxh3::store(Xxh3::finish_long(accumulators_, words, length_bytes_), digest);
    }

 private:
    void take_held() {
        Xxh3::take_block(accumulators_, held_ + before_bytes, Xxh3::secret_words);
        std::copy_n(held_ + Xxh3::block_bytes, before_bytes, held_);
        held_bytes_ = 0;
    }

    u64 accumulators_[Xxh3::lanes];
    u64 length_bytes_ = 0;
    u32 held_bytes_ = 0;
    u8 held_[before_bytes + Xxh3::block_bytes];
};

}  // namespace warren::hash

// SPDX-License-Identifier: Apache-2.0
// Direct hashing, version 1, as docs/HASHING.md defines it: pieces are hashed in parallel, their
// digests are hashed in pieces again until one is left, and the root also hashes the length.
//
// Every message begins with a block that states its kind, so that a leaf, a node and the root never
// collide. The digest's state after that block is computed once for a whole level.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "hash/alone.hpp"
#include "hash/pieces.hpp"

namespace warren::hash {
namespace {

constexpr u32 block_bytes = 64;
constexpr u32 root_level = 0xffffffff;

using Block = std::array<u8, block_bytes>;

void put(Block& block, u32 place, u64 value, u32 bytes) {
    for (u32 i = 0; i < bytes; ++i)
        block[place + i] = static_cast<u8>(value >> (8 * i));
}

/// The common first block of the messages of a level.
Block beginning_of(u32 level, u64 piece_bytes, u32 levels, u64 length_bytes) {
    constexpr char title[] = "Warren direct hash 1";
    Block block{};
    std::memcpy(block.data(), title, sizeof title - 1);
    put(block, 24, level, 4);
    put(block, 28, levels, 4);
    put(block, 32, piece_bytes, 8);
    put(block, 40, length_bytes, 8);
    return block;
}

/// Computes the digest's state after one block.
template <class Digest>
void take_block(const Block& block, u32* state) {
    u32 message[16];
    u32 value[Digest::state_words];
    std::memcpy(message, block.data(), block_bytes);
    std::copy_n(Digest::initial, Digest::state_words, value);
    if (Digest::is_big_endian) {
        for (u32& word : message)
            word = byte_swap(word);
    }
    Digest::compress(value, message);
    std::copy_n(value, Digest::state_words, state);
}

void take_block(Algorithm algorithm, const Block& block, u32* state) {
    switch (algorithm) {
        case Algorithm::md5:
            return take_block<Md5>(block, state);
        case Algorithm::sha1:
            return take_block<Sha1>(block, state);
        default:
            return take_block<Sha256>(block, state);
    }
}

/// Adds the stages of one level to the total.
void add(const Stages& level, Stages& all) {
    all.initialise += level.initialise;
    all.copy_in += level.copy_in;
    all.kernel += level.kernel;
    all.copy_out += level.copy_out;
    all.finish += level.finish;
    all.total += level.total;
    if (level.processor == Processor::gpu) all.processor = Processor::gpu;
}

}  // namespace

Errc hash_direct(Algorithm algorithm, Bytes data, std::span<u8> digest, u64 piece_bytes,
                 const Options& options, Stages* stages) {
    if (piece_bytes == 0 || algorithm > Algorithm::sha256) return Errc::invalid;
    const u32 size = digest_bytes(algorithm);
    if (digest.size() != size) return Errc::invalid;
    const u64 node_bytes = std::max<u64>(2, piece_bytes / size) * size;
    Stages all;
    std::vector<u8> below;
    u32 level = 0;
    do {
        const Bytes input = level == 0 ? data : std::as_bytes(std::span(below));
        const Bytes nothing;
        const Pieces pieces = input.empty() ? Pieces(std::span(&nothing, 1))
                                            : Pieces(input, level == 0 ? piece_bytes : node_bytes);
        u32 state[8];
        take_block(algorithm, beginning_of(level, piece_bytes, 0, 0), state);
        std::vector<u8> digests(pieces.count() * size);
        Stages taken;
        WARREN_TRY(hash_anywhere(algorithm, pieces, {state, block_bytes}, digests.data(), options,
                                 &taken));
        add(taken, all);
        below = std::move(digests);
        ++level;
    } while (below.size() > size);

    const Block root = beginning_of(root_level, piece_bytes, level, data.size());
    const auto stream = open_sequential(algorithm);
    stream->update(std::as_bytes(std::span(root)));
    stream->update(std::as_bytes(std::span(below)));
    stream->finish(digest.data());
    if (stages != nullptr) *stages = all;
    return Errc::ok;
}

}  // namespace warren::hash

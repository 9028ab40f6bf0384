// SPDX-License-Identifier: Apache-2.0
// BLAKE3 of many pieces, with one thread per piece, and of one long message by its tree: one thread
// per subtree of 4 KiB, then one thread per parent, level by level, and the last levels in one
// block.
#include "gpu/failure.hpp"
#include "hash/blake3.hpp"
#include "hash/cuda/digest_kernels.hpp"
#include "hash/cuda/reading.cuh"

namespace warren::hash::cuda {
namespace {

constexpr u64 leaf_bytes = 4 * Blake3::chunk_bytes;
constexpr u32 last_width = 1024;  // levels of this width and below are processed by one block

/// The chaining value of one chunk; `flags` are added to those of its last block.
template <bool is_aligned>
__device__ __forceinline__ void hash_chunk(const u8* data, u32 bytes, u64 index, u32 flags,
                                           u32 (&value)[8]) {
    set_initial<Blake3>(value);
    const u32 whole = bytes / 64;
    const u32 rest = bytes % 64;
    const u32 blocks = whole + (rest != 0 || bytes == 0 ? 1 : 0);
    BlockReader<is_aligned> reader(data, whole != 0);
    for (u32 block = 0; block < blocks; ++block) {
        u32 message[16];
        if (block < whole) {
            reader.next(message);
        } else {
            load_rest(data + 64 * whole, rest, message);
        }
        const u32 block_flags = (block == 0 ? u32{Blake3::chunk_start} : 0u) |
                                (block == blocks - 1 ? Blake3::chunk_end | flags : 0u);
        Blake3::compress(value, message, static_cast<u32>(index), static_cast<u32>(index >> 32),
                         block < whole ? 64u : rest, block_flags);
    }
}

/// Replaces `right` by the parent of `left` and `right`.
__device__ __forceinline__ void join(const u32* left, u32 (&right)[8], u32 flags) {
    u32 message[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        message[i] = left[i];
        message[8 + i] = right[i];
    }
    set_initial<Blake3>(right);
    Blake3::compress(right, message, 0u, 0u, 64u, Blake3::parent | flags);
}

/// The value of the subtree over [data, data + bytes), which begins with chunk `first_chunk`.
template <bool is_aligned>
__device__ void hash_subtree(const u8* data, u64 bytes, u64 first_chunk, u32 root_flag,
                             u32 (&value)[8]) {
    constexpr u32 most_levels = 40;
    u32 stack[most_levels][8];
    u32 depth = 0;
    const u64 chunks = bytes == 0 ? 1 : (bytes + Blake3::chunk_bytes - 1) / Blake3::chunk_bytes;
    for (u64 i = 0; i < chunks; ++i) {
        const u64 rest = bytes - i * Blake3::chunk_bytes;
        hash_chunk<is_aligned>(
            data + i * Blake3::chunk_bytes,
            static_cast<u32>(rest < Blake3::chunk_bytes ? rest : Blake3::chunk_bytes),
            first_chunk + i, chunks == 1 ? root_flag : 0u, value);
        // The last chunk is joined with everything on the stack, others only into complete
        // subtrees.
        const bool is_last = i == chunks - 1;
        for (u64 joined = i + 1; depth > 0 && (is_last || joined % 2 == 0); joined /= 2) {
            --depth;
            join(stack[depth], value, is_last && depth == 0 ? root_flag : 0u);
        }
        if (is_last) return;
#pragma unroll
        for (int word = 0; word < 8; ++word)
            stack[depth][word] = value[word];
        ++depth;
    }
}

template <bool is_aligned>
__global__ void __launch_bounds__(block_threads)
    hash_pieces_kernel(DevicePieces pieces, u64 first_chunk, u32 root_flag, u8* digests) {
    const u64 i = u64{blockIdx.x} * block_threads + threadIdx.x;
    if (i >= pieces.count) return;
    const Piece piece = piece_at(pieces, i);
    u32 value[8];
    // Pieces that are subtrees of one message have consecutive chunk numbers.
    const u64 chunk = root_flag != 0 ? 0 : first_chunk + i * (leaf_bytes / Blake3::chunk_bytes);
    hash_subtree<is_aligned>(piece.data, piece.bytes, chunk, root_flag, value);
    store_words(value, 8, digests + i * Blake3::digest_bytes);
}

Errc launch(const DevicePieces& pieces, u64 first_chunk, u32 root_flag, u8* digests,
            StreamHandle stream) {
    const u32 grid = grid_for(pieces.count);
    if (are_aligned(pieces)) {
        hash_pieces_kernel<true>
            <<<grid, block_threads, 0, stream>>>(pieces, first_chunk, root_flag, digests);
    } else {
        hash_pieces_kernel<false>
            <<<grid, block_threads, 0, stream>>>(pieces, first_chunk, root_flag, digests);
    }
    return gpu::check(cudaGetLastError(), "hash_pieces_kernel of BLAKE3");
}

/// Value i of the next level: two neighbours joined, or the odd one moved up.
__device__ void join_neighbours(const u32* values, u64 width, u64 i, u32 flags, u32* next) {
    u32 value[8];
    const u64 right = 2 * i + 1;
#pragma unroll
    for (int word = 0; word < 8; ++word)
        value[word] = values[8 * (right < width ? right : right - 1) + word];
    if (right < width) join(values + 8 * (right - 1), value, flags);
#pragma unroll
    for (int word = 0; word < 8; ++word)
        next[8 * i + word] = value[word];
}

__global__ void __launch_bounds__(block_threads)
    join_level_kernel(const u32* values, u64 width, u32* next) {
    const u64 i = u64{blockIdx.x} * block_threads + threadIdx.x;
    if (i < (width + 1) / 2) join_neighbours(values, width, i, 0, next);
}

/// All levels from `width` down to one value, which may be the root.
__global__ void __launch_bounds__(last_width / 2)
    join_rest_kernel(u32* values, u32 width, u32* other, u32 root_flag, u8* digest) {
    while (width > 1) {
        if (threadIdx.x < (width + 1) / 2) {
            join_neighbours(values, width, threadIdx.x, width == 2 ? root_flag : 0u, other);
        }
        __syncthreads();
        u32* const swapped = values;
        values = other;
        other = swapped;
        width = (width + 1) / 2;
    }
    if (threadIdx.x == 0) store_words(values, 8, digest);
}

}  // namespace

Errc hash_pieces_blake3(const DevicePieces& pieces, u8* digests, StreamHandle stream) {
    return launch(pieces, 0, Blake3::root, digests, stream);
}

u64 tree_words(u64 bytes) {
    const u64 leaves = bytes / leaf_bytes + 1;
    return 8 * (leaves + leaves / 2 + 1);
}

Errc hash_tree(const u8* data, u64 bytes, u64 first_chunk, bool is_root, u32* words, u8* digest,
               StreamHandle stream) {
    const u32 root_flag = is_root ? u32{Blake3::root} : 0u;
    DevicePieces leaves = {.data = data, .data_bytes = bytes, .piece_bytes = leaf_bytes};
    leaves.count = (bytes + leaf_bytes - 1) / leaf_bytes;
    if (leaves.count <= 1) {
        leaves.count = 1;
        return launch(leaves, first_chunk, root_flag, digest, stream);
    }
    u32* values = words;
    u32* other = words + 8 * leaves.count;
    WARREN_TRY(launch(leaves, first_chunk, 0, reinterpret_cast<u8*>(values), stream));
    u64 width = leaves.count;
    for (; width > last_width; width = (width + 1) / 2) {
        const u32 grid = grid_for((width + 1) / 2);
        join_level_kernel<<<grid, block_threads, 0, stream>>>(values, width, other);
        u32* const swapped = values;
        values = other;
        other = swapped;
    }
    join_rest_kernel<<<1, last_width / 2, 0, stream>>>(values, static_cast<u32>(width), other,
                                                       root_flag, digest);
    return gpu::check(cudaGetLastError(), "join_rest_kernel");
}

}  // namespace warren::hash::cuda

// SPDX-License-Identifier: Apache-2.0
// Sliding windows on a GPU: one thread per window. A block copies the bytes of its windows to
// shared memory, 16 at a time, and every thread reads its words there, because neighbouring windows
// share almost all of their bytes. Windows too long for that are read in place.
#include "gpu/failure.hpp"
#include "hash/cuda/kernels.hpp"
#include "hash/cuda/reading.cuh"
#include "hash/md5.hpp"
#include "hash/sha1.hpp"
#include "hash/sha256.hpp"

namespace warren::hash::cuda {
namespace {

constexpr u32 windows_per_block = 256;
constexpr u64 most_staged_bytes = 47 * kib;

/// The bytes that a block's windows cover, and up to 4 more for whole words.
u64 staged_bytes(const WindowPlan& plan) {
    return (windows_per_block - 1) * plan.stride_bytes + plan.blocks * 64 + 4;
}

/// Fills shared memory with the data from `first` on, followed by zeros.
__device__ void stage(const u8* data, u64 data_bytes, u64 first, u32 bytes, u8* shared) {
    const bool is_aligned = (reinterpret_cast<u64>(data) + first) % 16 == 0;
    const u32 vectors = bytes / 16;
    for (u32 i = threadIdx.x; i < vectors; i += windows_per_block) {
        const u64 at = first + 16 * u64{i};
        uint4 four = {0, 0, 0, 0};
        if (is_aligned && at + 16 <= data_bytes) {
            four = __ldg(reinterpret_cast<const uint4*>(data + at));
        } else if (at < data_bytes) {
            u32 words[4] = {0, 0, 0, 0};
            for (u32 byte = 0; byte < 16 && at + byte < data_bytes; ++byte)
                words[byte / 4] |= static_cast<u32>(data[at + byte]) << (8 * (byte % 4));
            four = {words[0], words[1], words[2], words[3]};
        }
        reinterpret_cast<uint4*>(shared)[i] = four;
    }
    __syncthreads();
}

/// Loads 64 bytes from shared memory at any alignment.
__device__ __forceinline__ void load_staged(const u8* shared, u32 offset, u32 (&message)[16]) {
    const u32* words = reinterpret_cast<const u32*>(shared) + offset / 4;
    const u32 bits = offset % 4 * 8;
    u32 low = words[0];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const u32 high = words[i + 1];
        message[i] = __funnelshift_r(low, high, bits);
        low = high;
    }
}

/// Loads 64 bytes from the data, of which `bytes` exist from `at` on.
__device__ __forceinline__ void load_in_place(const u8* at, u64 bytes, u32 (&message)[16]) {
    if (bytes < 64) {
        load_rest(at, static_cast<u32>(bytes), message);
        return;
    }
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(at) % 4);
    const u32* words = reinterpret_cast<const u32*>(at - shift);
    u32 low = __ldg(words);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const u32 high = shift != 0 || i < 15 ? __ldg(words + i + 1) : 0u;
        message[i] = __funnelshift_r(low, high, 8 * shift);
        low = high;
    }
}

template <class Digest>
__device__ __forceinline__ void store(const u32 (&state)[Digest::state_words], u64 window,
                                      u64 count, const WindowOutput& output) {
    if (output.kept_bytes == 0) {
        const u32 last = state[Digest::state_words - 1];
        const u32 end = Digest::is_big_endian ? last : byte_swap(last);
        const u32 votes =
            __ballot_sync(0xffffffff, window < count && (end & output.match_mask) == 0);
        const u64 half = window / 32;
        if (window % 32 == 0 && half < (count + 63) / 64 * 2) {
            reinterpret_cast<u32*>(output.bitmap)[half] = votes;
        }
        return;
    }
    if (window >= count) return;
    u8* const to = output.digests + window * output.kept_bytes;
#pragma unroll
    for (u32 i = 0; i < Digest::state_words; ++i) {
        const u32 word = Digest::is_big_endian ? byte_swap(state[i]) : state[i];
        if (4 * i + 4 <= output.kept_bytes && reinterpret_cast<u64>(to) % 4 == 0) {
            reinterpret_cast<u32*>(to)[i] = word;
        } else {
            for (u32 byte = 0; byte < 4; ++byte) {
                if (4 * i + byte < output.kept_bytes)
                    to[4 * i + byte] = static_cast<u8>(word >> (8 * byte));
            }
        }
    }
}

template <class Digest, bool is_staged>
__global__ void __launch_bounds__(windows_per_block)
    hash_windows_kernel(const __grid_constant__ WindowPlan plan, const u8* data, u64 count,
                        WindowOutput output, u32 shared_bytes) {
    extern __shared__ __align__(16) u8 shared[];
    const u64 first = u64{blockIdx.x} * windows_per_block;
    const u64 window = first + threadIdx.x;
    if constexpr (is_staged) {
        stage(data, plan.data_bytes, first * plan.stride_bytes, shared_bytes, shared);
    }
    u32 state[Digest::state_words];
    set_initial<Digest>(state);
    // Threads past the last window compute that window too, so that they take part in the ballot.
    const u64 own = window < count ? window : count - 1;
    for (u64 block = 0; block < plan.blocks; ++block) {
        u32 message[16];
        if constexpr (is_staged) {
            const u64 offset = (own - first) * plan.stride_bytes + 64 * block;
            load_staged(shared, own < first ? 0u : static_cast<u32>(offset), message);
        } else {
            const u64 offset = 64 * block;
            const u64 rest = offset < plan.window_bytes ? plan.window_bytes - offset : 0;
            load_in_place(data + own * plan.stride_bytes + offset, rest, message);
        }
        const bool is_padded = block >= plan.full_blocks;
        const u32 which = is_padded ? static_cast<u32>(block - plan.full_blocks) : 0u;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            if constexpr (Digest::is_big_endian) message[i] = __byte_perm(message[i], 0, 0x0123);
            if (is_padded) message[i] = (message[i] & plan.keep[which][i]) | plan.pad[which][i];
        }
        Digest::compress(state, message);
    }
    store<Digest>(state, window, count, output);
}

template <class Digest>
Errc launch(const WindowPlan& plan, const u8* data, u64 count, const WindowOutput& output,
            bool stages, StreamHandle stream) {
    const u32 grid = static_cast<u32>((count + windows_per_block - 1) / windows_per_block);
    const u64 bytes = (staged_bytes(plan) + 15) / 16 * 16;
    if (stages && plan.stride_bytes <= most_staged_bytes && bytes <= most_staged_bytes) {
        hash_windows_kernel<Digest, true><<<grid, windows_per_block, bytes, stream>>>(
            plan, data, count, output, static_cast<u32>(bytes));
    } else {
        hash_windows_kernel<Digest, false>
            <<<grid, windows_per_block, 0, stream>>>(plan, data, count, output, 0);
    }
    return gpu::check(cudaGetLastError(), "hash_windows_kernel");
}

}  // namespace

Errc hash_windows(Algorithm algorithm, const WindowPlan& plan, const u8* data, u64 count,
                  const WindowOutput& output, bool stages_in_shared_memory, StreamHandle stream) {
    if (count == 0) return Errc::ok;
    switch (algorithm) {
        case Algorithm::md5:
            return launch<Md5>(plan, data, count, output, stages_in_shared_memory, stream);
        case Algorithm::sha1:
            return launch<Sha1>(plan, data, count, output, stages_in_shared_memory, stream);
        case Algorithm::sha256:
            return launch<Sha256>(plan, data, count, output, stages_in_shared_memory, stream);
        default:
            return Errc::invalid;
    }
}

}  // namespace warren::hash::cuda

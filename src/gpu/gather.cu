// SPDX-License-Identifier: Apache-2.0
// A thread block copies a piece. Reads that cross the bus take microseconds, so each thread has
// several under way.
#include "base/check.hpp"
#include "gpu/failure.hpp"
#include "gpu/gather.hpp"

namespace warren::gpu {
namespace {

constexpr u32 threads = 128;
constexpr u32 quads_at_once = 4;  // of a thread; a quad has 16 bytes

__device__ void store_quad(std::byte* to, const uint4& quad) {
    const auto at = reinterpret_cast<u64>(to);
    if (at % sizeof quad == 0) {
        *reinterpret_cast<uint4*>(to) = quad;
        return;
    }
    const u32 words[] = {quad.x, quad.y, quad.z, quad.w};
    if (at % sizeof(u32) == 0) {
        for (u32 i = 0; i < 4; ++i)
            reinterpret_cast<u32*>(to)[i] = words[i];
        return;
    }
    for (u32 i = 0; i < sizeof quad; ++i)
        to[i] = static_cast<std::byte>(words[i / 4] >> i % 4 * 8);
}

__global__ void __launch_bounds__(threads) gather_kernel(const CopyPiece* pieces) {
    const CopyPiece piece = pieces[blockIdx.x];
    const auto* const source = reinterpret_cast<const uint4*>(piece.from);
    const u64 whole = piece.bytes / sizeof(uint4);
    for (u64 first = threadIdx.x; first < whole; first += threads * quads_at_once) {
        uint4 quads[quads_at_once];
#pragma unroll
        for (u32 i = 0; i < quads_at_once; ++i) {
            const u64 at = first + i * threads;
            if (at < whole) quads[i] = source[at];
        }
#pragma unroll
        for (u32 i = 0; i < quads_at_once; ++i) {
            const u64 at = first + i * threads;
            if (at < whole) store_quad(piece.to + at * sizeof(uint4), quads[i]);
        }
    }
    const u64 rest = whole * sizeof(uint4) + threadIdx.x;
    if (rest < piece.bytes) piece.to[rest] = piece.from[rest];
}

}  // namespace

Errc gather(std::span<const CopyPiece> pieces, const Stream& stream) {
    if (pieces.empty()) return Errc::ok;
    for (const CopyPiece& piece : pieces)
        WARREN_CHECK(reinterpret_cast<u64>(piece.from) % gather_alignment == 0);
    gather_kernel<<<static_cast<u32>(pieces.size()), threads, 0, stream.get()>>>(pieces.data());
    return check(cudaGetLastError(), "gather_kernel");
}

}  // namespace warren::gpu

// SPDX-License-Identifier: Apache-2.0
// The chunks of a batch are sorted by length into classes of 512 bytes, the longest first, so that
// no long chunk is started last. This takes place on the device, so that the host is free to select
// the next cuts.
#include "chunk/cuda/chunk_digests.hpp"

#include <algorithm>

#include "base/host_device.hpp"
#include "gpu/failure.hpp"
#include "hash/cuda/kernels.hpp"

namespace warren::chunk::cuda {

namespace {

constexpr u64 least_together = 16384;  // chunks; fewer leave most of the GPU idle
constexpr u64 step_bytes = 512;
constexpr u32 classes = 256;
constexpr u32 threads = 256;

/// A batch: chunks [first, first + count) of the stream, and where they are sorted.
struct Batch {
    const u64* ends;  // all ends of the stream
    u64 first;
    u64 count;
    u32* begins;  // where each class begins
    u64* offsets;
    u64* lengths;
    u32* chunks;
};

__device__ u64 start_of(const Batch& batch, u64 chunk) {
    return chunk == 0 ? 0 : batch.ends[chunk - 1];
}

__device__ u32 class_of(u64 length) {
    const u64 step = length / step_bytes;
    return step < classes ? classes - 1 - static_cast<u32>(step) : 0;
}

__global__ void count_classes(Batch batch) {
    const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= batch.count) return;
    const u64 chunk = batch.first + index;
    const u32 own = class_of(batch.ends[chunk] - start_of(batch, chunk));
    device_atomic<u32>(batch.begins[own]).fetch_add(1, hd::memory_order_relaxed);
}

/// Replaces counts by the sums of the counts before them. One block with one thread per class.
__global__ void sum_classes(u32* begins) {
    __shared__ u32 sums[classes];
    const u32 own = begins[threadIdx.x];
    sums[threadIdx.x] = own;
    for (u32 step = 1; step < classes; step *= 2) {
        __syncthreads();
        const u32 other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
    }
    begins[threadIdx.x] = sums[threadIdx.x] - own;
}

__global__ void order_chunks(Batch batch) {
    const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= batch.count) return;
    const u64 chunk = batch.first + index;
    const u64 start = start_of(batch, chunk);
    const u64 length = batch.ends[chunk] - start;
    const u32 at =
        device_atomic<u32>(batch.begins[class_of(length)]).fetch_add(1, hd::memory_order_relaxed);
    batch.offsets[at] = start;
    batch.lengths[at] = length;
    batch.chunks[at] = static_cast<u32>(chunk);
}

/// Writes the digests, of `words` 4-byte words each, in the order of the chunks.
__global__ void spread_digests(const u32* sorted, const u32* chunks, u64 count, u32 words,
                               u32* digests) {
    const u64 index = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= count * words) return;
    const u64 chunk = chunks[index / words];
    digests[chunk * words + index % words] = sorted[index];
}

u32 blocks_for(u64 count) {
    return static_cast<u32>((count + threads - 1) / threads);
}

Errc queue_order(const Batch& batch, const gpu::Stream& stream) {
    WARREN_TRY(stream.fill(batch.begins, 0, classes * sizeof(u32)));
    count_classes<<<blocks_for(batch.count), threads, 0, stream.get()>>>(batch);
    sum_classes<<<1, classes, 0, stream.get()>>>(batch.begins);
    order_chunks<<<blocks_for(batch.count), threads, 0, stream.get()>>>(batch);
    return gpu::check(cudaGetLastError(), "order_chunks");
}

}  // namespace

Errc ChunkDigests::open(hash::Algorithm algorithm, u64 most_chunks) {
    algorithm_ = algorithm;
    most_ = most_chunks;
    const u64 bytes = most_chunks * hash::digest_bytes(algorithm);
    for (size_t turn = 0; turn < streams_.size(); ++turn) {
        WARREN_TRY(streams_[turn].open());
        WARREN_TRY(begins_[turn].allocate(classes));
    }
    WARREN_TRY(ends_.allocate(most_chunks));
    WARREN_TRY(device_ends_.allocate(most_chunks));
    WARREN_TRY(offsets_.allocate(most_chunks));
    WARREN_TRY(lengths_.allocate(most_chunks));
    WARREN_TRY(chunks_.allocate(most_chunks));
    WARREN_TRY(sorted_digests_.allocate(bytes));
    WARREN_TRY(device_digests_.allocate(bytes));
    return digests_.allocate(bytes);
}

void ChunkDigests::begin(const u8* data, u64 count) {
    data_ = data;
    data_bytes_ = count;
    done_ = 0;
}

Errc ChunkDigests::add(std::span<const u64> ends, bool is_last) {
    const u64 count = ends.size() - done_;
    if (ends.size() > most_) return Errc::no_space;
    if (count == 0 || (count < least_together && !is_last)) return Errc::ok;
    const size_t turn = turn_++ % streams_.size();
    const gpu::Stream& stream = streams_[turn];
    std::copy(ends.begin() + static_cast<std::ptrdiff_t>(done_), ends.end(), ends_.data() + done_);
    // Includes the previous end, which another stream may still be copying.
    const u64 from = done_ == 0 ? 0 : done_ - 1;
    WARREN_TRY(stream.copy(device_ends_.data() + from, ends_.data() + from,
                           (ends.size() - from) * sizeof(u64)));
    const Batch batch{device_ends_.data(),
                      done_,
                      count,
                      begins_[turn].data(),
                      offsets_.data() + done_,
                      lengths_.data() + done_,
                      chunks_.data() + done_};
    WARREN_TRY(queue_order(batch, stream));
    const u64 size = hash::digest_bytes(algorithm_);
    u8* const sorted = sorted_digests_.data() + done_ * size;
    const hash::cuda::DevicePieces pieces{data_,         data_bytes_,   0,
                                          batch.offsets, batch.lengths, count};
    WARREN_TRY(hash::cuda::hash_pieces(algorithm_, pieces, {}, sorted, stream.get()));
    const u32 words = static_cast<u32>(size / sizeof(u32));
    spread_digests<<<blocks_for(count * words), threads, 0, stream.get()>>>(
        reinterpret_cast<const u32*>(sorted), batch.chunks, count, words,
        reinterpret_cast<u32*>(device_digests_.data()));
    WARREN_TRY(gpu::check(cudaGetLastError(), "spread_digests"));
    WARREN_TRY(stream.copy(digests_.data() + done_ * size, device_digests_.data() + done_ * size,
                           count * size));
    done_ = ends.size();
    return Errc::ok;
}

Errc ChunkDigests::finish(std::span<const u8>& digests) {
    Errc code = Errc::ok;
    for (const gpu::Stream& stream : streams_) {
        const Errc waited = stream.wait();
        if (code == Errc::ok) code = waited;
    }
    digests = {digests_.data(), done_ * hash::digest_bytes(algorithm_)};
    return code;
}

}  // namespace warren::chunk::cuda

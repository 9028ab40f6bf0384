// SPDX-License-Identifier: Apache-2.0
// The functions for data on the device. Results for the host pass through memory that is allocated
// and freed in stream order, so no function here waits.
#include <cuda_runtime_api.h>

#include "gpu/failure.hpp"
#include "gpu/pipeline.hpp"
#include "hash/cuda/kernels.hpp"
#include "warren/hash_device.hpp"

namespace warren::hash::device {
namespace {

/// Stream-ordered memory: work queued before the destructor may use it.
class StreamMemory {
 public:
    explicit StreamMemory(cudaStream_t stream) : stream_(stream) {}
    ~StreamMemory() {
        if (at_ != nullptr) {
            static_cast<void>(gpu::check(cudaFreeAsync(at_, stream_), "cudaFreeAsync"));
        }
    }
    StreamMemory(const StreamMemory&) = delete;
    StreamMemory& operator=(const StreamMemory&) = delete;

    Errc allocate(u64 bytes) {
        return gpu::check(cudaMallocAsync(&at_, bytes, stream_), "cudaMallocAsync");
    }
    void* get() const { return at_; }

 private:
    cudaStream_t stream_;
    void* at_ = nullptr;
};

/// Calls work() with an address in device memory for its `bytes` of results, and queues their copy
/// to `results` if that is elsewhere.
template <class Work>
Errc with_results(void* results, u64 bytes, Stream stream, const Work& work) {
    if (bytes == 0) return Errc::ok;
    auto* const queue = static_cast<cudaStream_t>(stream);
    if (gpu::kind_of(results) == gpu::MemoryKind::device) return work(results, queue);
    StreamMemory memory(queue);
    WARREN_TRY(memory.allocate(bytes));
    WARREN_TRY(work(memory.get(), queue));
    return gpu::check(cudaMemcpyAsync(results, memory.get(), bytes, cudaMemcpyDefault, queue),
                      "cudaMemcpyAsync");
}

Errc run_windows(const Windows& windows, const void* data, u64 data_bytes, WindowOutput output,
                 void* results, u64 bytes, Stream stream) {
    if (windows.algorithm > Algorithm::sha256) return Errc::not_supported;
    const u64 count = window_count(windows, data_bytes);
    if (count == 0) return Errc::ok;
    return with_results(results, bytes, stream, [&](void* at, cudaStream_t queue) {
        output.digests = static_cast<u8*>(at);
        output.bitmap = static_cast<u64*>(at);
        return cuda::hash_windows(windows.algorithm, plan_windows(windows, data_bytes),
                                  static_cast<const u8*>(data), count, output, true, queue);
    });
}

bool are_sizes(const Windows& windows) {
    return windows.window_bytes != 0 && windows.stride_bytes != 0;
}

}  // namespace

Errc hash_pieces(Algorithm algorithm, const void* data, u64 data_bytes, u64 piece_bytes,
                 void* digests, Stream stream) {
    if (piece_bytes == 0) return Errc::invalid;
    cuda::DevicePieces pieces;
    pieces.data = static_cast<const u8*>(data);
    pieces.data_bytes = data_bytes;
    pieces.piece_bytes = piece_bytes;
    pieces.count = (data_bytes + piece_bytes - 1) / piece_bytes;
    const u64 bytes = pieces.count * digest_bytes(algorithm);
    return with_results(digests, bytes, stream, [&](void* at, cudaStream_t queue) {
        return cuda::hash_pieces(algorithm, pieces, {}, static_cast<u8*>(at), queue);
    });
}

Errc hash_many(Algorithm algorithm, const void* data, const u64* offsets, const u64* lengths,
               u64 count, void* digests, Stream stream) {
    cuda::DevicePieces pieces;
    pieces.data = static_cast<const u8*>(data);
    pieces.offsets = offsets;
    pieces.lengths = lengths;
    pieces.count = count;
    const u64 bytes = count * digest_bytes(algorithm);
    return with_results(digests, bytes, stream, [&](void* at, cudaStream_t queue) {
        return cuda::hash_pieces(algorithm, pieces, {}, static_cast<u8*>(at), queue);
    });
}

Errc hash_one(const void* data, u64 data_bytes, void* digest, Stream stream) {
    StreamMemory words(static_cast<cudaStream_t>(stream));
    WARREN_TRY(words.allocate(cuda::tree_words(data_bytes) * sizeof(u32)));
    return with_results(digest, 32, stream, [&](void* at, cudaStream_t queue) {
        return cuda::hash_tree(static_cast<const u8*>(data), data_bytes, 0, true,
                               static_cast<u32*>(words.get()), static_cast<u8*>(at), queue);
    });
}

Errc hash_windows(const Windows& windows, const void* data, u64 data_bytes, u32 kept_bytes,
                  void* output, Stream stream) {
    if (!are_sizes(windows)) return Errc::invalid;
    if (kept_bytes == 0 || kept_bytes > digest_bytes(windows.algorithm)) return Errc::invalid;
    const u64 bytes = window_count(windows, data_bytes) * kept_bytes;
    return run_windows(windows, data, data_bytes, {.kept_bytes = kept_bytes}, output, bytes,
                       stream);
}

Errc match_windows(const Windows& windows, const void* data, u64 data_bytes, u32 zero_bits,
                   u64* bitmap, Stream stream) {
    if (!are_sizes(windows) || zero_bits == 0 || zero_bits > 32) return Errc::invalid;
    const u64 bytes = (window_count(windows, data_bytes) + 63) / 64 * 8;
    return run_windows(windows, data, data_bytes, {.match_mask = ~u32{0} >> (32 - zero_bits)},
                       bitmap, bytes, stream);
}

}  // namespace warren::hash::device

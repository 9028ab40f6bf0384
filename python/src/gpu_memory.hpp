// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU, for arrays and for the contents of files. In a build without CUDA there is none.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fs/volume/staged_reads.hpp"
#include "fs/volume/staged_write.hpp"
#include "python/src/array.hpp"
#include "warren/chunk.hpp"
#include "warren/volume.hpp"

namespace warren::python {

class LongCall;

/// The number of the GPU whose memory `at` points into; -1 for host memory.
i32 gpu_of(const void* at);

/// Allocates an array in the memory of GPU number `gpu`, not initialized. Errc::no_device,
/// Errc::no_memory; gpu_failure() has the details. Requires: the caller does not hold the GIL.
Errc make_on_gpu(i32 gpu, const ElementType& type, std::vector<i64> shape, Array& made);
/// Copies an array to such memory.
Errc copy_to_gpu(const Array& from, i32 gpu, Array& to);
/// Copies an array from a GPU to `to`, which has room for all of it.
Errc copy_to_host(const Array& from, void* to);

/// The last failure of this thread.
Failure gpu_failure(Errc code);
/// Whether copying contents from or to a GPU may have failed by this for the GPU's sake.
inline bool is_of_gpu(Errc code) {
    return code == Errc::no_device || code == Errc::no_memory;
}
/// Returns the result of take(), which allocates memory of a GPU. If there is too little, the open
/// volumes give back what they can do without, and take() is called again; MemoryError is raised if
/// that is still too little. Requires: the GIL, with which take() is called.
Errc take_gpu_memory(const std::function<Errc()>& take);

/// The default stream of the calling thread (cudaStreamPerThread).
inline constexpr u64 own_stream = 2;

/// A range of a GPU's memory, and the cudaStream_t on which copies from and to it are queued.
struct GpuBytes {
    std::byte* data = nullptr;
    u64 bytes = 0;
    i32 gpu = 0;
    u64 stream = 0;
};

/// The range of an array; none for host memory. Raises ValueError for a stream there, and TypeError
/// for other devices; `what` names the array.
template <class Target>
std::optional<GpuBytes> gpu_bytes(const Target& array, std::optional<u64> stream,
                                  const char* what) {
    const i32 type = array.device_type();
    if (type == nb::device::cpu::value || type == nb::device::cuda_host::value) {
        if (stream) throw nb::value_error("stream: not allowed with host memory");
        return std::nullopt;
    }
    if (type != nb::device::cuda::value)
        throw nb::type_error((std::string(what) + ": must be in host or CUDA memory").c_str());
    auto* data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data())));
    return GpuBytes{data, array.nbytes(), static_cast<i32>(array.device_id()), stream.value_or(0)};
}

/// Copies the range to `to` after the work queued on its stream.
Errc copy_to_host(const GpuBytes& from, void* to);
/// Appends the ends of the chunks of the range, after the work queued on its stream.
Errc cut_on_gpu(const chunk::Rule& rule, const GpuBytes& data, std::vector<u64>& ends);
/// Reads a file into `target` on all cores and returns the number of bytes read. Copies may still
/// be under way; what is queued on the stream after this waits for them.
Result<u64> read_to_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& target,
                        LongCall& call);
/// Reads parts of many files likewise. Their errors are in the reads.
Errc read_many_to_gpu(Volume& volume, std::span<StagedRead> reads, i32 gpu, u64 stream,
                      LongCall& call);
/// Writes `source` to a file on all cores after the work queued on its stream, and returns the
/// number of bytes.
Result<u64> write_from_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& source,
                           LongCall& call);
/// The most bytes that a buffer of staging memory holds.
inline constexpr u64 staged_bytes_max = 4 * mib;
/// Passes pieces of `source`, of at most `staged_bytes_max` each, to put(piece, bytes) on all
/// cores, after the work queued on its stream. Each thread asks goes_on(worker) before a piece;
/// worker 0 is the calling thread.
Errc fetch_pieces(
    const GpuBytes& source, std::span<const StagedWrite::Piece> pieces,
    const std::function<bool(u32 worker)>& goes_on,
    const std::function<void(const StagedWrite::Piece&, std::span<const std::byte>)>& put);
/// Waits for the work queued on the stream.
Errc wait_for_stream(i32 gpu, u64 stream);

}  // namespace warren::python

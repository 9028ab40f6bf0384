// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU, for arrays and for the contents of files. In a build without CUDA there is none.
#pragma once

#include "python/src/array.hpp"
#include "warren/volume.hpp"

namespace warren::python {

class LongCall;

/// The number of the GPU whose memory `at` points into; -1 for host memory.
i32 gpu_of(const void* at);

/// Copies an array to the memory of GPU number `gpu`. Errc::no_device, Errc::no_memory;
/// gpu_failure() has the details. Requires: the caller does not hold the GIL.
Errc copy_to_gpu(const Array& from, i32 gpu, Array& to);
/// Copies an array from a GPU to `to`, which has room for all of it.
Errc copy_to_host(const Array& from, void* to);

/// The last failure of this thread.
Failure gpu_failure(Errc code);

/// A range of a GPU's memory, and the cudaStream_t on which copies from and to it are queued.
struct GpuBytes {
    std::byte* data = nullptr;
    u64 bytes = 0;
    i32 gpu = 0;
    u64 stream = 0;
};

/// Reads a file into `target` on all cores, through pinned host memory, and returns the number of
/// bytes read. The last copies may still be queued on the stream.
Result<u64> read_to_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& target,
                        LongCall& call);
/// Writes `source` to a file after the work queued on its stream, and returns the number of bytes.
Result<u64> write_from_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& source,
                           LongCall& call);
/// Waits for the work queued on the stream.
Errc wait_for_stream(i32 gpu, u64 stream);

}  // namespace warren::python

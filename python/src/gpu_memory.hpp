// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU, for arrays and for the contents of files. In a build without CUDA there is none.
#pragma once

#include "python/src/array.hpp"
#include "warren/volume.hpp"

namespace warren::python {

class LongCall;

/// The GPU whose memory this is; -1: it is the host's.
i32 gpu_of(const void* at);

/// A copy in the memory of GPU `gpu`. Requires: the GIL is let go. Errc::no_device if there is none
/// of that number, Errc::no_memory; gpu_failure() says more.
Errc copy_to_gpu(const Array& from, i32 gpu, Array& to);
/// Copies what is in the memory of a GPU to `to`, which has as many bytes.
Errc copy_to_host(const Array& from, void* to);

/// The last failure of this thread.
Failure gpu_failure(Errc code);

/// Bytes of a GPU's memory, and the stream where its copies are queued: a cudaStream_t.
struct GpuBytes {
    std::byte* data = nullptr;
    u64 bytes = 0;
    i32 gpu = 0;
    u64 stream = 0;
};

/// Fills `target` from a file, by all cores, through pinned memory of the host; how much the file
/// had. The last copies may still be in the stream.
Result<u64> read_to_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& target,
                        LongCall& call);
/// Writes `source` to a file when the stream has come to it; how much was written.
Result<u64> write_from_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& source,
                           LongCall& call);
/// Waits until what is queued in the stream is done.
Errc wait_for_stream(i32 gpu, u64 stream);

}  // namespace warren::python

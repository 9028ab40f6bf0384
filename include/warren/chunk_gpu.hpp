// SPDX-License-Identifier: Apache-2.0
// Chunking by a GPU: data that are in device memory already are taken in place, data of the host
// are copied through a ring of buffers while the pieces before are scanned.
//
// Invariant: the cuts are those of chunk.hpp, bit for bit. Nothing here needs a CUDA header, and
// where Warren was built without CUDA every call answers Errc::no_device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "warren/chunk.hpp"

namespace warren::chunk {

class CandidateList;

class GpuChunker {
 public:
    /// Called whenever more ends are known, with all of them so far, while the GPU works on.
    using OnEnds = std::function<Errc(std::span<const u64> ends)>;
    /// Gets candidates in order (fastcdc: by its two masks), and how far they are complete.
    using OnKnown = std::function<Errc(CandidateList& candidates, CandidateList& early, u64 known)>;

    GpuChunker();
    ~GpuChunker();
    GpuChunker(GpuChunker&&) noexcept;
    GpuChunker& operator=(GpuChunker&&) noexcept;

    /// Whether there is a kernel for the rule: for all but rabin with another window than 48 or 64
    /// bytes or a polynomial below degree 40, and fastcdc whose masks have less than eight bits in
    /// common. Every preset has one.
    static bool has_kernel(const Rule& rule);

    /// Takes memory on the calling thread's GPU. Errc::invalid for a bad rule, Errc::not_supported
    /// without a kernel, Errc::no_device without a GPU, Errc::no_memory.
    Errc open(const Rule& rule);

    /// Keeps host memory in place until the next call or the end, so that what lies in it is copied
    /// at the full speed of the bus; nothing to let it go. Where the system refuses, it is slower.
    void pin(std::span<std::byte> memory);

    /// Appends the ends of all chunks of a stream in host memory. Pinned memory is copied at the
    /// full speed of the bus. `keep`, if not null, is device memory that gets a copy of the stream,
    /// aligned to 16; what lies before an end is there when on_ends is called.
    Errc cut(std::span<const std::byte> bytes, std::vector<u64>& ends, const OnEnds& on_ends = {},
             void* keep = nullptr);

    /// The same of a stream in device memory, after what is queued in `stream` (a cudaStream_t).
    /// Memory that is not aligned to 16 is copied on the device first.
    Errc cut_device(const void* bytes, u64 count, void* stream, std::vector<u64>& ends,
                    const OnEnds& on_ends = {});

    /// The same with the ends, which the host chooses or sees in any case, copied to device memory
    /// that has room for `most_ends`; `found` of them are there when the call returns.
    /// Errc::no_space if they are more: then nothing was copied.
    Errc cut_device(const void* bytes, u64 count, void* stream, u64* device_ends, u64 most_ends,
                    u64& found);

    /// For Chunker::feed_by_gpu(): hands on the candidates of bytes at `position` in their stream.
    /// As many bytes as windows reach back, at least 128, end at `history`; they are not read at
    /// position 0.
    Errc scan(std::span<const u8> bytes, u64 position, const u8* history, const OnKnown& on_known);

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace warren::chunk

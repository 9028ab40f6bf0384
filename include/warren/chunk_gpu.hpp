// SPDX-License-Identifier: Apache-2.0
// Chunking by a GPU: data in device memory are scanned in place; host data are copied through a
// ring of buffers while earlier parts are scanned.
//
// Invariant: the cuts are those of chunk.hpp, bit for bit. No CUDA header is needed here; in a
// build without CUDA every call returns Errc::no_device.
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
    /// Called whenever more ends are known, with all of them so far, while the GPU continues.
    using OnEnds = std::function<Errc(std::span<const u64> ends)>;
    /// Gets candidates in order (fastcdc: by its two masks), and how far they are complete.
    using OnKnown = std::function<Errc(CandidateList& candidates, CandidateList& early, u64 known)>;

    GpuChunker();
    ~GpuChunker();
    GpuChunker(GpuChunker&&) noexcept;
    GpuChunker& operator=(GpuChunker&&) noexcept;

    /// Whether there is a kernel for the rule. There is none for rabin with a window other than 48
    /// or 64 bytes or a polynomial below degree 40, nor for fastcdc if its masks have fewer than
    /// eight bits in common. Every preset has one.
    static bool has_kernel(const Rule& rule);

    /// Allocates memory on the calling thread's GPU. Errc::invalid for a bad rule,
    /// Errc::not_supported without a kernel, Errc::no_device without a GPU, Errc::no_memory.
    Errc open(const Rule& rule);

    /// Pins host memory until the next call of pin() or the end, so that copies from it run at the
    /// full speed of the bus; an empty span unpins it. Where the system refuses, copies are slower.
    void pin(std::span<std::byte> memory);

    /// Appends the ends of all chunks of a stream in host memory. Pinned memory is copied at the
    /// full speed of the bus. `keep`, if not null, is device memory that gets a copy of the stream,
    /// aligned to 16; what lies before an end is there when on_ends is called.
    Errc cut(std::span<const std::byte> bytes, std::vector<u64>& ends, const OnEnds& on_ends = {},
             void* keep = nullptr);

    /// As cut(), for a stream in device memory, after the work queued in `stream` (a cudaStream_t).
    /// Memory that is not aligned to 16 is copied on the device first.
    Errc cut_device(const void* bytes, u64 count, void* stream, std::vector<u64>& ends,
                    const OnEnds& on_ends = {});

    /// As above, and copies the ends to device memory with room for `most_ends` (they pass through
    /// the host anyway); `found` of them are there at return. Errc::no_space if they do not fit:
    /// then nothing was copied.
    Errc cut_device(const void* bytes, u64 count, void* stream, u64* device_ends, u64 most_ends,
                    u64& found);

    /// For Chunker::feed_by_gpu(): hands on the candidates of bytes at `position` in their stream.
    /// `history` points behind the preceding bytes: as many as windows reach back, at least 128.
    /// They are not read at position 0.
    Errc scan(std::span<const u8> bytes, u64 position, const u8* history, const OnKnown& on_known);

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace warren::chunk

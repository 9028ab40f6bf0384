// SPDX-License-Identifier: Apache-2.0
// Chunking on a GPU. Data in device memory are scanned in place; host data are copied through a
// ring of buffers while earlier parts are scanned.
//
// Invariant: the cuts are exactly those of chunk.hpp. No CUDA header is needed here; in a build
// without CUDA every call returns Errc::no_device.
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
    /// Called whenever more chunk ends are known, with all ends so far, while the GPU continues. An
    /// error that it returns ends the call.
    using OnEnds = std::function<Errc(std::span<const u64> ends)>;
    /// Receives candidates in order (fastcdc: separately for its two masks), complete up to
    /// `known`.
    using OnKnown = std::function<Errc(CandidateList& candidates, CandidateList& early, u64 known)>;

    GpuChunker();
    ~GpuChunker();
    GpuChunker(GpuChunker&&) noexcept;
    GpuChunker& operator=(GpuChunker&&) noexcept;

    /// Whether there is a kernel for the rule. Every preset has one. There is none for rabin with a
    /// window other than 48 or 64 bytes or with a polynomial of degree below 40, nor for fastcdc if
    /// its masks have fewer than eight bits in common.
    static bool has_kernel(const Rule& rule);

    /// Allocates memory on the calling thread's current GPU. Errc::invalid: the rule is invalid.
    /// Errc::not_supported: there is no kernel for it. Errc::no_device: there is no GPU.
    /// Errc::no_memory: memory is exhausted.
    Errc open(const Rule& rule);

    /// Pins host memory until the next call of pin() or the destruction of this object, so that
    /// copies from it run at the full speed of the bus; an empty span unpins it. If the system
    /// refuses to pin it, copies are slower.
    void pin(std::span<std::byte> memory);

    /// Appends the ends of all chunks of a stream in host memory. Pinned memory is copied at the
    /// full speed of the bus. `keep`, if not null, is device memory that receives a copy of the
    /// stream and must be aligned to 16 bytes (else Errc::invalid): when on_ends is called, the
    /// bytes before the last end have been copied.
    Errc cut(std::span<const std::byte> bytes, std::vector<u64>& ends, const OnEnds& on_ends = {},
             void* keep = nullptr);

    /// Like cut(), for a stream in device memory, after the work queued in `stream` (a
    /// cudaStream_t). Memory that is not aligned to 16 bytes is first copied on the device.
    Errc cut_device(const void* bytes, u64 count, void* stream, std::vector<u64>& ends,
                    const OnEnds& on_ends = {});

    /// Like the above, and also copies the ends to device memory with room for `most_ends` of them.
    /// (They pass through the host in any case.) Sets `found` to their number. Returns
    /// Errc::no_space if they do not fit; nothing is copied then.
    Errc cut_device(const void* bytes, u64 count, void* stream, u64* device_ends, u64 most_ends,
                    u64& found);

    /// For Chunker::feed_by_gpu(): passes the candidates of `bytes`, which are at `position` of
    /// their stream, to on_known. `history` points just past the bytes that precede them: as many
    /// as a window reaches back, at least 128. They are not read if `position` is 0.
    Errc scan(std::span<const u8> bytes, u64 position, const u8* history, const OnKnown& on_known);

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace warren::chunk

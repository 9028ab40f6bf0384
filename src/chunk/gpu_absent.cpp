// SPDX-License-Identifier: Apache-2.0
// GpuChunker in a build without CUDA: every call returns Errc::no_device.
#include "warren/chunk_gpu.hpp"

#if !defined(WARREN_CUDA)

namespace warren::chunk {

class GpuChunker::Implementation {};

GpuChunker::GpuChunker() = default;
GpuChunker::~GpuChunker() = default;
GpuChunker::GpuChunker(GpuChunker&&) noexcept = default;
GpuChunker& GpuChunker::operator=(GpuChunker&&) noexcept = default;

bool GpuChunker::has_kernel(const Rule& /*rule*/) {
    return false;
}

Errc GpuChunker::open(const Rule& /*rule*/) {
    return Errc::no_device;
}

void GpuChunker::pin(std::span<std::byte> /*memory*/) {}

Errc GpuChunker::cut(std::span<const std::byte> /*bytes*/, std::vector<u64>& /*ends*/,
                     const OnEnds& /*on_ends*/, void* /*keep*/) {
    return Errc::no_device;
}

Errc GpuChunker::cut_device(const void* /*bytes*/, u64 /*count*/, void* /*stream*/,
                            std::vector<u64>& /*ends*/, const OnEnds& /*on_ends*/) {
    return Errc::no_device;
}

Errc GpuChunker::cut_device(const void* /*bytes*/, u64 /*count*/, void* /*stream*/,
                            u64* /*device_ends*/, u64 /*most_ends*/, u64& /*found*/) {
    return Errc::no_device;
}

Errc GpuChunker::scan(std::span<const u8> /*bytes*/, u64 /*position*/, const u8* /*history*/,
                      const OnKnown& /*on_known*/) {
    return Errc::no_device;
}

}  // namespace warren::chunk

#endif

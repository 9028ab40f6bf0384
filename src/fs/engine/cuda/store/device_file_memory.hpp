// SPDX-License-Identifier: Apache-2.0
// Contents of a mapped file in device memory, in contiguous units of 2 MiB, for kernels to access
// in place. Bytes pass through pinned staging memory, so that copies run at the speed of the bus
// and concurrently with other work of the device.
//
// Invariant: no unit is shared with another file or with metadata, so a kernel that reads a little
// past the end of its file reads zeros.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "fs/engine/file_memory.hpp"
#include "gpu/buffer.hpp"
#include "gpu/reserved_range.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

/// Pinned buffers with a stream each. A call takes one for its duration; idle ones are kept.
class StagingPool {
 public:
    static constexpr u64 buffer_bytes = 4 * mib;

    struct Staging {
        gpu::PinnedBuffer<std::byte> buffer;
        gpu::Stream stream;
    };

    explicit StagingPool(int device) : device_(device) {}

    /// Null, with the reason in `code`, if pinned memory or a stream cannot be allocated.
    std::unique_ptr<Staging> take(Errc& code);
    void give(std::unique_ptr<Staging> staging);
    int device() const { return device_; }

 private:
    const int device_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Staging>> idle_;
};

class DeviceFileMemory final : public FileMemory {
 public:
    explicit DeviceFileMemory(std::shared_ptr<StagingPool> pool) : pool_(std::move(pool)) {}
    ~DeviceFileMemory() override;

    /// Allocates memory of zeros. Errc::no_memory if the device has too little.
    Errc open(u64 bytes);

    std::byte* data() const override { return range_.data(); }
    u64 bytes() const override { return range_.bytes(); }
    bool is_on_device() const override { return true; }
    Errc put(u64 offset, u64 length, const Source& source) override;
    Errc get(u64 offset, u64 length, const Sink& sink) const override;
    Errc clear(u64 offset, u64 length) override;

 private:
    template <class Body>
    Errc with_staging(const Body& body) const;

    std::shared_ptr<StagingPool> pool_;
    gpu::ReservedRange range_;
};

}  // namespace warren::cuda_engine

// SPDX-License-Identifier: Apache-2.0
// Contents of a mapped file in device memory, in contiguous units of 2 MiB, for kernels to access
// in place. Bytes pass through pinned staging memory, so that copies run at the speed of the bus
// and concurrently with other work of the device.
//
// Invariant: no unit is shared with another file or with metadata, so a kernel that reads a little
// past the end of its file reads zeros.
#pragma once

#include <optional>

#include "fs/engine/file_memory.hpp"
#include "gpu/device.hpp"
#include "gpu/reserved_range.hpp"

namespace warren::cuda_engine {

class DeviceFileMemory final : public FileMemory {
 public:
    explicit DeviceFileMemory(int device) : device_(device) {}
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
    // Selects the device while the other members are destroyed, and therefore comes first.
    std::optional<gpu::DeviceScope> closing_;
    const int device_;
    gpu::ReservedRange range_;
};

}  // namespace warren::cuda_engine

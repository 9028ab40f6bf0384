// SPDX-License-Identifier: Apache-2.0
// Each call uses a stream of its own, so when several threads fill a file, disk reads of one
// overlap with copies of another.
#include "fs/engine/cuda/store/device_file_memory.hpp"

#include "gpu/staging.hpp"

namespace warren::cuda_engine {

using gpu::Staging;
using gpu::StagingPool;

DeviceFileMemory::~DeviceFileMemory() {
    closing_.emplace(device_);
}

Errc DeviceFileMemory::open(u64 bytes) {
    const gpu::DeviceScope device(device_);
    WARREN_TRY(device.code());
    WARREN_TRY(range_.reserve(bytes));
    WARREN_TRY(range_.map(0, range_.bytes()));
    return clear(0, range_.bytes());
}

Errc DeviceFileMemory::put(u64 offset, u64 length, const Source& source) {
    return StagingPool::of(device_).with([&](Staging& staging) -> Errc {
        WARREN_TRY(staging.put(data() + offset, length, source));
        return staging.wait();
    });
}

Errc DeviceFileMemory::get(u64 offset, u64 length, const Sink& sink) const {
    return StagingPool::of(device_).with(
        [&](Staging& staging) { return staging.get(data() + offset, length, sink); });
}

Errc DeviceFileMemory::clear(u64 offset, u64 length) {
    return StagingPool::of(device_).with([&](Staging& staging) -> Errc {
        WARREN_TRY(staging.stream().fill(data() + offset, 0, length));
        return staging.wait();
    });
}

}  // namespace warren::cuda_engine

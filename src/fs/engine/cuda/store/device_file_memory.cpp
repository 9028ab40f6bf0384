// SPDX-License-Identifier: Apache-2.0
// Each call uses a stream of its own, so when several threads fill a file, disk reads of one
// overlap with copies of another.
#include "fs/engine/cuda/store/device_file_memory.hpp"

#include <algorithm>

#include "gpu/device.hpp"

namespace warren::cuda_engine {

std::unique_ptr<StagingPool::Staging> StagingPool::take(Errc& code) {
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            auto staging = std::move(idle_.back());
            idle_.pop_back();
            return staging;
        }
    }
    auto staging = std::make_unique<Staging>();
    code = staging->buffer.allocate(buffer_bytes);
    if (code == Errc::ok) code = staging->stream.open();
    return code == Errc::ok ? std::move(staging) : nullptr;
}

void StagingPool::give(std::unique_ptr<Staging> staging) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(staging));
}

/// Returns the result of `body(staging)`, called with the right device selected. A staging buffer
/// whose stream has failed is not used again.
template <class Body>
Errc DeviceFileMemory::with_staging(const Body& body) const {
    WARREN_TRY(gpu::use_device(pool_->device()));
    Errc code = Errc::ok;
    std::unique_ptr<StagingPool::Staging> staging = pool_->take(code);
    if (staging == nullptr) return code;
    code = body(*staging);
    const Errc ended = staging->stream.wait();
    if (ended == Errc::ok) pool_->give(std::move(staging));
    return code == Errc::ok ? ended : code;
}

DeviceFileMemory::~DeviceFileMemory() {
    static_cast<void>(gpu::use_device(pool_->device()));
}

Errc DeviceFileMemory::open(u64 bytes) {
    WARREN_TRY(gpu::use_device(pool_->device()));
    WARREN_TRY(range_.reserve(bytes));
    WARREN_TRY(range_.map(0, range_.bytes()));
    return clear(0, range_.bytes());
}

Errc DeviceFileMemory::put(u64 offset, u64 length, const Source& source) {
    return with_staging([&](StagingPool::Staging& staging) -> Errc {
        for (u64 at = 0; at < length; at += StagingPool::buffer_bytes) {
            const u64 count = std::min(StagingPool::buffer_bytes, length - at);
            WARREN_TRY(source(at, {staging.buffer.data(), count}));
            WARREN_TRY(staging.stream.copy(data() + offset + at, staging.buffer.data(), count));
            WARREN_TRY(staging.stream.wait());
        }
        return Errc::ok;
    });
}

Errc DeviceFileMemory::get(u64 offset, u64 length, const Sink& sink) const {
    return with_staging([&](StagingPool::Staging& staging) -> Errc {
        for (u64 at = 0; at < length; at += StagingPool::buffer_bytes) {
            const u64 count = std::min(StagingPool::buffer_bytes, length - at);
            WARREN_TRY(staging.stream.copy(staging.buffer.data(), data() + offset + at, count));
            WARREN_TRY(staging.stream.wait());
            WARREN_TRY(sink(at, {staging.buffer.data(), count}));
        }
        return Errc::ok;
    });
}

Errc DeviceFileMemory::clear(u64 offset, u64 length) {
    return with_staging([&](StagingPool::Staging& staging) {
        return staging.stream.fill(data() + offset, 0, length);
    });
}

}  // namespace warren::cuda_engine

// SPDX-License-Identifier: Apache-2.0
// Each thread has a stream of its own, because copies of one stream begin only when those before
// them have ended, which leaves the bus idle for a moment each time.
#include "gpu/staging.hpp"

#include <map>

#include "base/check.hpp"
#include "gpu/failure.hpp"
#include "gpu/gather.hpp"

namespace warren::gpu {

Errc Staging::open(bool is_urgent) {
    WARREN_TRY(stream_.open(is_urgent));
    for (Buffer& buffer : buffers_) {
        WARREN_TRY(buffer.copied.open());
        WARREN_TRY(buffer.memory.reserve(buffer_bytes + pieces_max * gather_alignment));
        WARREN_TRY(buffer.pieces.reserve(pieces_max));
    }
    return Errc::ok;
}

Errc Staging::next(Buffer*& buffer) {
    buffer = &buffers_[turn_];
    turn_ ^= 1;
    return buffer->copied.wait();
}

Errc Staging::fetch(const std::byte* from, u64 bytes, Buffer*& buffer) {
    WARREN_TRY(next(buffer));
    WARREN_CHECK(bytes <= buffer->memory.bytes());
    WARREN_TRY(stream_.copy(buffer->memory.data(), from, bytes));
    return queued(*buffer);
}

StagingPool& StagingPool::of(int device) {
    static std::mutex& mutex = *new std::mutex;
    static auto& all = *new std::map<int, std::unique_ptr<StagingPool>>;
    const std::lock_guard lock(mutex);
    std::unique_ptr<StagingPool>& pool = all[device];
    if (pool == nullptr) pool.reset(new StagingPool(device));
    return *pool;
}

std::unique_ptr<Staging> StagingPool::take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Staging>();
    std::unique_ptr<Staging> staging = std::move(idle_.back());
    idle_.pop_back();
    return staging;
}

void StagingPool::give(std::unique_ptr<Staging> staging) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(staging));
}

}  // namespace warren::gpu

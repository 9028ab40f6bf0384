// SPDX-License-Identifier: Apache-2.0
// Streams are non-blocking: they do not wait for the default stream.
#include "gpu/stream.hpp"

#include <algorithm>
#include <atomic>

#include "base/check.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren::gpu {

namespace {

std::atomic<bool> has_streams{false};

}  // namespace

bool was_used() {
    return has_streams.load(std::memory_order_relaxed);
}

Stream::~Stream() {
    if (stream_ != nullptr)
        static_cast<void>(check(cudaStreamDestroy(stream_), "cudaStreamDestroy"));
}

Errc Stream::open(bool is_urgent) {
    if (stream_ != nullptr) return Errc::ok;
    int least = 0;
    int greatest = 0;
    has_streams.store(true, std::memory_order_relaxed);
    WARREN_TRY(check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                     "cudaDeviceGetStreamPriorityRange"));
    return check(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, is_urgent ? greatest : least),
        "cudaStreamCreateWithPriority");
}

Errc Stream::wait() const {
    return check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Errc Stream::wait_for(const Event& event) const {
    return check(cudaStreamWaitEvent(stream_, event.get()), "cudaStreamWaitEvent");
}

Errc Stream::copy(void* to, const void* from, u64 bytes) const {
    if (bytes == 0) return Errc::ok;
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}

Errc Stream::copy_many(std::span<const CopyPiece> pieces) const {
    constexpr std::size_t at_once = 32;
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    while (!pieces.empty()) {
        const std::size_t count = std::min(pieces.size(), at_once);
        void* to[at_once];
        const void* from[at_once];
        std::size_t bytes[at_once];
        for (std::size_t i = 0; i < count; ++i) {
            to[i] = pieces[i].to;
            from[i] = pieces[i].from;
            bytes[i] = pieces[i].bytes;
            WARREN_CHECK(bytes[i] > 0);
        }
        std::size_t first = 0;  // that these attributes are for
        WARREN_TRY(
            check(cudaMemcpyBatchAsync(to, from, bytes, count, &attributes, &first, 1, stream_),
                  "cudaMemcpyBatchAsync"));
        pieces = pieces.subspan(count);
    }
    return Errc::ok;
}

Errc Stream::fill(void* at, int byte, u64 bytes) const {
    if (bytes == 0) return Errc::ok;
    return check(cudaMemsetAsync(at, byte, bytes, stream_), "cudaMemsetAsync");
}

Event::~Event() {
    if (event_ != nullptr) static_cast<void>(check(cudaEventDestroy(event_), "cudaEventDestroy"));
}

Errc Event::open() {
    if (event_ != nullptr) return Errc::ok;
    return check(cudaEventCreate(&event_), "cudaEventCreate");
}

Errc Event::record(const Stream& stream) const {
    return check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

Errc Event::wait() const {
    return check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

bool Event::is_reached() const {
    if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
    static_cast<void>(cudaGetLastError());  // otherwise the next launch would report it
    return false;
}

Result<float> Event::milliseconds_since(const Event& begin) const {
    float milliseconds = 0;
    WARREN_TRY(
        check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime"));
    return milliseconds;
}

}  // namespace warren::gpu

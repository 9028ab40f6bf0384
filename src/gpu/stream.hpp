// SPDX-License-Identifier: Apache-2.0
// A queue of work on the GPU, and an event in it. These streams never wait for the default stream,
// so work that a host program queues there does not delay the file system.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "base/copy_piece.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

class Event;

class Stream {
 public:
    Stream() = default;
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// Creates the stream unless it is open. `is_urgent`: its work takes precedence over that of
    /// other streams.
    Errc open(bool is_urgent = false);
    /// Waits until all queued work is done. Returns its first error.
    Errc wait() const;
    /// Makes work queued after this wait until `event`, recorded in another stream, is reached.
    Errc wait_for(const Event& event) const;
    /// Queues a copy between host and device, in either direction. It is slow for pageable host
    /// memory.
    Errc copy(void* to, const void* from, u64 bytes) const;
    /// Queues copies like copy(), with shorter pauses between them. No piece may be empty.
    Errc copy_many(std::span<const CopyPiece> pieces) const;
    /// Queues a fill of device memory.
    Errc fill(void* at, int byte, u64 bytes) const;

    cudaStream_t get() const { return stream_; }

 private:
    cudaStream_t stream_ = nullptr;
};

class Event {
 public:
    Event() = default;
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    /// Creates the event unless it is open.
    Errc open();
    /// Records the event after the work queued in `stream` so far.
    Errc record(const Stream& stream) const;
    /// Waits until the event has been reached.
    Errc wait() const;
    /// Whether the event has been reached. True after an error, which the next wait reports.
    bool is_reached() const;
    /// The time from `begin` to this event. Requires: both have been reached.
    Result<float> milliseconds_since(const Event& begin) const;

    cudaEvent_t get() const { return event_; }

 private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace warren::gpu

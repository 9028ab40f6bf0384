// SPDX-License-Identifier: Apache-2.0
// A queue of work on the GPU, and an event in it. These streams never wait for the default stream,
// so a host program's work there does not delay the file system.
#pragma once

#include <cuda_runtime_api.h>

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

    /// `is_urgent`: its work goes before that of other streams where both wait. Nothing to do if it
    /// is open already.
    Errc open(bool is_urgent = false);
    /// Waits until all that was queued is done; the first error of any of it.
    Errc wait() const;
    /// What is queued from here on waits until `event`, recorded in another stream, is reached.
    Errc wait_for(const Event& event) const;
    /// Queues a copy between host and device, either way. Pageable host memory makes it slow.
    Errc copy(void* to, const void* from, u64 bytes) const;
    /// Queues the filling of device memory.
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

    /// Nothing to do if it is open already.
    Errc open();
    /// Puts the event behind what is queued in `stream` now.
    Errc record(const Stream& stream) const;
    /// Waits until it has been reached.
    Errc wait() const;
    /// Whether it has been reached. An error counts: the next wait tells.
    bool is_reached() const;
    /// From `begin` to this event, both reached.
    Result<float> milliseconds_since(const Event& begin) const;

    cudaEvent_t get() const { return event_; }

 private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace warren::gpu

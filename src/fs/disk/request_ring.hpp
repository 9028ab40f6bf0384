// SPDX-License-Identifier: Apache-2.0
// A disk serves many concurrent requests in the time of one. A RequestRing keeps up to `depth`
// requests of one caller in flight by io_uring(7), and waits for them with few system calls.
//
// Invariant: when run() returns, the kernel has no request left that uses the caller's memory.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

struct DiskRequest {
    bool is_write = false;
    u64 offset = 0;
    std::byte* memory = nullptr;  // a write only reads it
    u64 length_bytes = 0;
};

/// For tests: called for each completed request with its result as in cqe->res; returns the result
/// to use instead.
using RequestProbe = std::function<i32(const DiskRequest&, i32 result)>;

/// Not thread-safe: one caller at a time.
class RequestRing {
 public:
    static constexpr u32 depth = 32;           // requests in flight
    static constexpr u32 requests_max = 128;   // of one call of run()
    static constexpr u64 transfer_unit = 512;  // a request is resumed at a multiple of it

    /// If the kernel provides no ring: null, and `error` is the errno value.
    static std::unique_ptr<RequestRing> open(int& error);
    ~RequestRing();
    RequestRing(const RequestRing&) = delete;
    RequestRing& operator=(const RequestRing&) = delete;

    /// Carries out all `requests` in any order. Returns the first error; then any of them may be
    /// done in part. Requires: at most requests_max requests, and no broken ring.
    Errc run(int descriptor, std::span<const DiskRequest> requests, const RequestProbe& probe);

    /// Whether the kernel has refused a submission: the ring cannot be used any more.
    bool is_broken() const { return is_broken_; }

 private:
    struct Queue;
    struct Run;
    explicit RequestRing(std::unique_ptr<Queue> queue);

    std::unique_ptr<Queue> queue_;
    bool is_broken_ = false;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Reads and writes of any range by io_uring. For direct I/O the kernel requires whole aligned
// blocks and aligned memory: other transfers go through a lane's bounce buffer, and a block that is
// written in part is read first.
//
// Thread-safe: each call takes a lane (a ring and its bounce buffer) while it lasts, so a call
// waits only for its own requests. With lanes_max calls running, the next one waits for a lane.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "fs/disk/disk.hpp"
#include "fs/disk/request_ring.hpp"

namespace warren {

class RingAccess {
 public:
    static constexpr u32 lanes_max = 8;
    static constexpr u64 piece_bytes = 256 * kib;  // of one request
    static constexpr u64 bounce_bytes = 1 * mib;   // of one lane

    /// `unit_bytes`: offsets and lengths of requests must be multiples of it. If the kernel
    /// provides no ring: null, and `error` is the errno value. Requires: the descriptor stays open.
    static std::unique_ptr<RingAccess> open(int descriptor, u64 unit_bytes, int& error);
    ~RingAccess();

    /// As Disk::read_many() and Disk::write_many(). Requires: all ranges, widened to whole units,
    /// lie in the file.
    Errc read(std::span<const DiskRead> reads);
    Errc write(std::span<const DiskWrite> writes);

    /// For tests; not during reads or writes.
    void set_probe(RequestProbe probe) { probe_ = std::move(probe); }

 private:
    class Lane;
    RingAccess(int descriptor, u64 unit_bytes);
    std::unique_ptr<Lane> take_lane();
    void give_back(std::unique_ptr<Lane> lane);
    template <class Request>
    Errc transfer(std::span<const Request> requests, bool is_write);

    const int descriptor_;
    const u64 unit_bytes_;
    RequestProbe probe_;
    std::mutex mutex_;  // guards all below
    std::condition_variable lane_came_;
    std::vector<std::unique_ptr<Lane>> idle_;
    u32 lane_count_ = 0;
};

}  // namespace warren

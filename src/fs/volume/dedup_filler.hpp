// SPDX-License-Identifier: Apache-2.0
// Adds the existing contents of a volume to the deduplication index after the volume is opened. A
// thread reads the blocks of all files, inode by inode, at a limited rate and with low priority,
// and more slowly while there are writes.
//
// Invariant: the thread holds no lock while it reads. Only closing the volume waits for it, for one
// read at most. What it has read may have changed since, which the users of the index must expect.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "base/rate_limit.hpp"
#include "fs/format/layout.hpp"
#include "fs/volume/dedup_index.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class DedupFiller {
 public:
    /// `lookups` counts the lookups by writes. All arguments outlive this object.
    DedupFiller(VolumeImplementation& volume, const DedupHash& hash, DedupIndex& index,
                const std::atomic<u64>& lookups, u64 bytes_per_second);

    /// Starts the thread, or does nothing if memory for it is lacking. Requires: not started
    /// before.
    void start();
    /// Stops the thread after its current read.
    void stop();

    bool is_running() const { return is_running_.load(std::memory_order_relaxed); }
    /// The number of bytes of contents read so far.
    u64 bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
    static constexpr u64 piece_blocks = 64;

    void run(const std::stop_token& stop);
    bool add_frame(u64 frame);
    bool add_file(u64 inode);
    void add_piece(u64 inode, u64 first_block, u64 place, u64 bytes);
    bool pause(u64 bytes);

    VolumeImplementation& volume_;
    const DedupHash& hash_;
    DedupIndex& index_;
    const std::atomic<u64>& lookups_;
    RateLimit limit_;
    const i64 opened_;      // when the filler was constructed
    u64 step_ = 1;          // of this many anchors of a file, the first is added
    u64 anchors_seen_ = 0;  // of the current file
    u64 lookups_seen_ = 0;
    std::unique_ptr<format::Block[]> piece_;
    std::stop_token stop_;
    std::atomic<u64> bytes_read_{0};
    std::atomic<bool> is_running_{false};
    std::jthread thread_;
};

}  // namespace warren

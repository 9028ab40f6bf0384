// SPDX-License-Identifier: Apache-2.0
// Fills the index of deduplication with what the volume holds when it is opened. A thread reads the
// blocks of all files, inode by inode, at a limited rate and a lower priority, and more slowly
// while writes come.
//
// Invariant: it holds no lock while it reads, and nothing but closing the volume waits for it, for
// one read at most. What it read may have changed since; an entry of the index may be wrong anyway.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>

#include "base/rate_limit.hpp"
#include "fs/format/layout.hpp"
#include "fs/volume/dedup_index.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class DedupFiller {
 public:
    /// `lookups` counts what writes look up. All that is passed outlives this.
    DedupFiller(VolumeImplementation& volume, const DedupHash& hash, DedupIndex& index,
                const std::atomic<u64>& lookups, u64 bytes_per_second);

    /// Requires: it was not started before. Without memory for a thread nothing is filled in.
    void start();
    /// Ends the thread after the read that it is in.
    void stop();

    bool is_running() const { return is_running_.load(std::memory_order_relaxed); }
    /// The bytes of contents that were read.
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
    const i64 opened_;      // the time
    u64 step_ = 1;          // of so many anchors of a file the first is added
    u64 anchors_seen_ = 0;  // of this file
    u64 lookups_seen_ = 0;
    std::unique_ptr<format::Block[]> piece_;
    std::stop_token stop_;
    std::atomic<u64> bytes_read_{0};
    std::atomic<bool> is_running_{false};
    std::jthread thread_;
};

}  // namespace warren

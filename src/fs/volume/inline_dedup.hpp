// SPDX-License-Identifier: Apache-2.0
// Deduplication of writes: runs of blocks that a file of the volume already has are shared with it
// instead of written. An index says where they may be, and the bytes are compared. Written blocks
// are added to the index; existing contents are added in the background after opening.
#pragma once

#include <array>
#include <atomic>

#include "fs/volume/dedup_anchors.hpp"
#include "fs/volume/dedup_filler.hpp"
#include "fs/volume/dedup_index.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// The blocks of one step of a write that may be shared or zeroed. Large, so leave it
/// uninitialized.
struct DedupStep {
    struct Candidate {
        u64 at;        // the block's first byte in the file
        bool is_zero;  // a run of zeros begins here, and the rest is not set
        DedupDigest digest;
    };
    u64 end;  // of the step, in the file
    u64 count;
    std::array<Candidate, anchored_blocks_max> candidates;  // `count` of them, sorted by `at`
};

/// Thread-safe.
class InlineDedup {
 public:
    /// Shorter runs are written, because many small extents cost more than they save. A whole file
    /// is shared however short it is.
    static constexpr u64 run_bytes_min = 32 * kib;
    /// A shorter write is not looked up if its caller waits for durability: the wait would be
    /// longer.
    static constexpr u64 awaited_bytes_min = 64 * kib;

    /// `index_bytes` 0: 1/1024 of the volume, at most 1/8 of the memory. `fill_bytes`: see
    /// OpenOptions::dedup_fill_bytes.
    InlineDedup(VolumeImplementation& volume, u64 index_bytes, u64 fill_bytes);

    /// Errc::no_memory if the system has refused the memory for the index.
    Errc code() const { return index_.is_open() ? Errc::ok : Errc::no_memory; }
    DedupStatistics statistics() const;
    void start_filling() { filler_.start(); }
    void stop_filling() { filler_.stop(); }

    /// Whether look_up() could find something.
    static bool can_gain(u64 offset, u64 bytes, Awaited awaited) {
        if (awaited == Awaited::yes && bytes < awaited_bytes_min) return false;
        return bytes >= run_bytes_min || (offset == 0 && bytes > format::area_bytes);
    }
    /// Looks up the first step of a write in the index, and adds the anchors that the index does
    /// not contain. Returns whether write() may find something to share. Needs no lock.
    bool look_up(Handle file, u64 offset, std::span<const std::byte> source, DedupStep& step);
    /// Like VolumeImplementation::write_contents(), but shares what it can. `step` is the result of
    /// look_up() for this write. Requires: the file's exclusive data lock; its size is `size`.
    Result<u64> write(Handle file, u64 offset, std::span<const std::byte> source, u64 size, i64 now,
                      DedupStep& step);

 private:
    class Writing;

    VolumeImplementation& volume_;
    const DedupHash hash_;
    DedupIndex index_;
    std::atomic<u64> looked_up_{0};
    std::atomic<u64> found_{0};
    std::atomic<u64> shared_bytes_{0};
    std::atomic<u64> zero_bytes_{0};
    DedupFiller filler_;  // declared last: its thread uses the others
};

}  // namespace warren

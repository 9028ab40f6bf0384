// SPDX-License-Identifier: Apache-2.0
// Lookups through an engine's stream (fs/engine/lookup_stream.hpp) by all workers at once. Each
// worker takes the next work, finished segments first. One worker at a time serves the stream,
// because driver calls block each other; it is the first that finds the stream unattended. Idle
// workers poll one word until a list changes.
//
// Invariant: a slot is either free, held by a worker, packed, in flight (under_way_) or done.
// work() allocates no memory.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "fs/engine/lookup_stream.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class LookupSegments {
 public:
    /// For `workers` threads that call work(). All arguments outlive this object.
    LookupSegments(LookupStream& stream, std::span<const Lookup> lookups,
                   std::span<Result<Attributes>> answers, u32 workers);

    /// Works until every item has its result: Errc::retry for an item to be looked up by other
    /// means. Called by any number of threads.
    void work();

    /// The items whose result is Errc::retry. Requires: work() has returned.
    std::vector<u64>& left() { return left_; }

 private:
    struct Range {
        u64 begin;
        u64 end;
    };
    struct Slot {
        ops::BatchMemory memory;
        u64 begin = 0;  // its first item
        u64 items = 0;
        u64 words = 0;
        Errc code = Errc::ok;
    };
    enum class Work : u8 { nothing, pack, answer };
    enum class Served : u8 { by_another, nothing, something };

    Work take(u32& slot, Range& range);
    bool take_packed(u32& slot);
    void pack(u32 slot, Range range);
    void answer(u32 slot);
    void put(std::vector<u32>& list, u32 slot);
    Served serve();
    bool serve_once();
    void note_change();
    void wait_for_change(u64 seen) const;

    LookupStream& stream_;
    const LookupStreamShape shape_;
    const std::span<const Lookup> lookups_;
    const std::span<Result<Attributes>> answers_;
    const u64 piece_items_;
    std::vector<Slot> slots_;
    std::mutex mutex_;          // guards the lists below
    u64 next_ = 0;              // the first item that no worker has taken
    std::vector<Range> rests_;  // of segments whose names did not all fit
    std::vector<u32> free_;     // the last is taken first: its memory is in the caches
    std::vector<u32> packed_;
    std::vector<u32> done_;
    std::mutex stream_mutex_;     // held by the worker that serves the stream
    std::vector<u32> under_way_;  // in order
    std::atomic<u64> open_;       // items without a result
    std::vector<u64> left_;       // guarded by mutex_
    // Counts changes of the lists. On a cache line of its own, because waiting workers poll it.
    alignas(64) std::atomic<u64> changes_{0};
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Look-ups through an engine's stream (fs/engine/lookup_stream.hpp), by all workers at once: each
// takes the next work, finished pieces first. One worker at a time, the first to find the stream
// unattended, serves the stream, because driver calls block each other. Idle workers poll one word
// until a list has changed.
//
// Invariant: a slot is in one place: free, held by a worker, packed, under way or done. Nothing is
// allocated once work() has begun.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "fs/engine/lookup_stream.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class LookupPieces {
 public:
    /// For `workers` that call work(). All that is given outlives this.
    LookupPieces(LookupStream& stream, std::span<const Lookup> lookups,
                 std::span<Result<Attributes>> answers, u32 workers);

    /// Works until every item has its answer: Errc::retry for items to be looked up by other means.
    /// Called by any number of threads.
    void work();

    /// The items whose answer is Errc::retry. Requires: work() has returned.
    std::vector<u64>& left() { return left_; }

 private:
    struct Range {
        u64 begin;
        u64 end;
    };
    struct Slot {
        ops::BatchMemory memory;
        u64 begin = 0;  // of its items
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
    void note_left(u64 item);
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
    std::mutex mutex_;          // of the lists below
    u64 next_ = 0;              // items from here on are not yet taken
    std::vector<Range> rests_;  // of pieces whose names did not fit
    std::vector<u32> free_;     // the last one is taken first: its memory is in the caches
    std::vector<u32> packed_;
    std::vector<u32> done_;
    std::mutex stream_mutex_;     // held by the worker that serves the stream
    std::vector<u32> under_way_;  // in order
    std::atomic<u64> open_;       // items without an answer
    std::vector<u64> left_;       // under mutex_
    // Counts changes of the lists: on its own cache line, since waiting workers poll it.
    alignas(64) std::atomic<u64> changes_{0};
};

}  // namespace warren

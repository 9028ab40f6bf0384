// SPDX-License-Identifier: Apache-2.0
// A segment has a fixed number of items, unless their names need more words than a slot has. In
// that case the rest becomes another segment.
#include "fs/volume/lookup_segments.hpp"

#include <algorithm>
#include <thread>

#include "base/out_of_memory.hpp"
#include "base/processor_pause.hpp"
#include "fs/volume/batch_packer.hpp"

namespace warren {
namespace {

/// To send a segment costs as much as about a thousand lookups, but each worker should have some.
constexpr u64 piece_items_min = 1024;
constexpr u64 pieces_per_worker = 2;
/// How often an idle worker polls before it yields the processor: some microseconds, less than a
/// segment takes.
constexpr u32 looks_max = 100;

}  // namespace

LookupSegments::LookupSegments(LookupStream& stream, std::span<const Lookup> lookups,
                               std::span<Result<Attributes>> answers, u32 workers)
    : stream_(stream),
      shape_(stream.shape()),
      lookups_(lookups),
      answers_(answers),
      piece_items_(
          std::min(std::max(lookups.size() / (workers * pieces_per_worker) + 1, piece_items_min),
                   shape_.items_max)),
      slots_(shape_.slots),
      open_(lookups.size()) {
    rests_.reserve(shape_.slots);
    free_.reserve(shape_.slots);
    packed_.reserve(shape_.slots);
    done_.reserve(shape_.slots);
    under_way_.reserve(shape_.slots);
    left_.reserve(lookups.size());  // does not touch the memory
    for (u32 slot = shape_.slots; slot-- > 0;) {
        slots_[slot].memory = stream.memory(slot);
        free_.push_back(slot);
    }
}

void LookupSegments::work() {
    // Relaxed: the end of the workers' run publishes the results.
    while (open_.load(std::memory_order_relaxed) > 0) {
        // Relaxed: noticing a change late costs one more wait, which is bounded.
        const u64 seen = changes_.load(std::memory_order_relaxed);
        u32 slot = 0;
        Range range{};
        const Work work = take(slot, range);
        if (work == Work::pack) {
            pack(slot, range);
        } else if (work == Work::answer) {
            answer(slot);
        }
        const Served served = serve();
        if (work == Work::nothing && served == Served::by_another) {
            wait_for_change(seen);
        } else if (work == Work::nothing && served == Served::nothing) {
            std::this_thread::yield();
        }
    }
}

/// Takes the next work, and the slot for it.
LookupSegments::Work LookupSegments::take(u32& slot, Range& range) {
    const std::lock_guard lock(mutex_);
    if (!done_.empty()) {
        slot = done_.back();
        done_.pop_back();
        return Work::answer;
    }
    if (free_.empty()) return Work::nothing;
    if (!rests_.empty()) {
        range = rests_.back();
        rests_.pop_back();
    } else if (next_ < lookups_.size()) {
        range = {next_, std::min<u64>(next_ + piece_items_, lookups_.size())};
        next_ = range.end;
    } else {
        return Work::nothing;
    }
    slot = free_.back();
    free_.pop_back();
    return Work::pack;
}

bool LookupSegments::take_packed(u32& slot) {
    const std::lock_guard lock(mutex_);
    if (packed_.empty()) return false;
    slot = packed_.back();
    packed_.pop_back();
    return true;
}

void LookupSegments::put(std::vector<u32>& list, u32 slot) {
    const std::lock_guard lock(mutex_);
    list.push_back(slot);
    note_change();
}

void LookupSegments::pack(u32 slot, Range range) {
    Slot& segment = slots_[slot];
    u64 word = 0;
    u64 i = range.begin;
    for (; i < range.end && word + words_of(lookups_[i].name) <= shape_.words_max; ++i) {
        segment.memory.operands[i - range.begin] =
            pack_operand(segment.memory.names, lookups_[i].directory, lookups_[i].name, word);
    }
    segment.begin = range.begin;
    segment.items = i - range.begin;
    segment.words = word;
    const std::lock_guard lock(mutex_);
    if (i < range.end) rests_.push_back({i, range.end});
    packed_.push_back(slot);
    note_change();
}

void LookupSegments::answer(u32 slot) {
    const Slot& segment = slots_[slot];
    const ops::BatchMemory& memory = segment.memory;
    for (u64 i = 0; i < segment.items; ++i) {
        const Errc code = segment.code == Errc::ok ? memory.codes[i] : Errc::retry;
        if (code == Errc::ok) {
            answers_[segment.begin + i] = memory.attributes[i];
        } else {
            answers_[segment.begin + i] = code;
            if (code != Errc::retry) continue;
            const std::lock_guard lock(mutex_);
            left_.push_back(segment.begin + i);
        }
    }
    open_.fetch_sub(segment.items, std::memory_order_relaxed);
    put(free_, slot);  // from here on another worker may take the slot
}

/// Announces a change of a list. Requires: the caller holds mutex_.
void LookupSegments::note_change() {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Waits until the count of changes differs from `seen`, but only briefly: the worker that serves
/// the stream may stop without a change.
void LookupSegments::wait_for_change(u64 seen) const {
    for (u32 looks = 0; looks < looks_max; ++looks) {
        if (changes_.load(std::memory_order_relaxed) != seen) return;
        pause_processor();
    }
    std::this_thread::yield();
}

/// Serves the stream, unless another worker does.
LookupSegments::Served LookupSegments::serve() {
    const std::unique_lock turn(stream_mutex_, std::try_to_lock);
    if (!turn.owns_lock()) return Served::by_another;
    Served served = Served::nothing;
    while (serve_once())
        served = Served::something;
    return served;
}

/// Sends packed segments and takes finished ones. False if there were none. Does not throw, because
/// other workers would wait for the segment for ever.
bool LookupSegments::serve_once() {
    bool has_served = false;
    for (u32 slot = 0; take_packed(slot); has_served = true) {
        Slot& segment = slots_[slot];
        segment.code =
            or_no_memory([&] { return stream_.start(slot, segment.items, segment.words); });
        if (segment.code == Errc::ok) {
            under_way_.push_back(slot);
        } else {
            put(done_, slot);
        }
    }
    // They finish in order, or nearly so.
    while (!under_way_.empty()) {
        const u32 slot = under_way_.front();
        const Errc code = or_no_memory([&] { return stream_.poll(slot); });
        if (code == Errc::busy) break;
        slots_[slot].code = code;
        under_way_.erase(under_way_.begin());
        put(done_, slot);
        has_served = true;
    }
    return has_served;
}

}  // namespace warren

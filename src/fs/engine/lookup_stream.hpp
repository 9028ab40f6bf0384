// SPDX-License-Identifier: Apache-2.0
// Lookups by an engine that has memory of its own, in segments that overlap: while one crosses the
// bus, the names of another are looked up, the caller packs the next, and takes the answers of the
// one before.
//
// Invariant: a slot belongs to the engine from start() until poll() returns anything but
// Errc::busy, and to the caller otherwise.
#pragma once

#include <functional>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/permission.hpp"
#include "warren/result.hpp"

namespace warren {

/// How large the segments of a stream may be, and how many can be in flight.
struct LookupStreamShape {
    u32 slots = 0;
    u64 items_max = 0;  // of a segment
    u64 words_max = 0;  // of its names; enough for one name of any length
};

class LookupStream {
 public:
    virtual ~LookupStream() = default;

    virtual LookupStreamShape shape() const = 0;
    /// A slot's memory: the operands and names of a segment, which the caller fills in, and the
    /// codes and attributes of its answers. Any thread may call this.
    virtual ops::BatchMemory memory(u32 slot) = 0;

    // One thread at a time may call these; it need not always be the same one.
    /// Starts the lookups of a segment. On an error they were not started.
    virtual Errc start(u32 slot, u64 items, u64 words) = 0;
    /// Errc::busy while the segment is in flight; then ok, or an error, and there are no answers.
    /// The answer Errc::retry means that this name must be looked up by a command or a batch.
    virtual Errc poll(u32 slot) = 0;
};

/// Looks up through a stream.
using UseStream = std::function<void(LookupStream& stream)>;

/// The lookup streams of an engine. On an error, the volume runs the lookups as batches.
class LookupStreams {
 public:
    virtual ~LookupStreams() = default;

    /// Allocates the memory that a stream needs. That may take a while, so the caller must not hold
    /// a lock that other threads wait for. Any thread may call it at any time.
    virtual Errc prepare_lookups() = 0;
    /// Calls `use` with a stream that looks up on behalf of `caller`. One stream at a time: waits
    /// until the previous one is not used any more. After an error `use` was not called. Requires:
    /// prepare_lookups() succeeded.
    virtual Errc look_up(const core::Credentials& caller, const UseStream& use) = 0;
};

}  // namespace warren

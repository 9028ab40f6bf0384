// SPDX-License-Identifier: Apache-2.0
// Look-ups on their way through an engine that has memory of its own, in pieces: while one is on
// the bus another is looked up, the next packed, and the answers of the one before are spread.
//
// Invariant: a slot belongs to the engine from start() until poll() says that it is done, and to
// the caller otherwise.
#pragma once

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/permission.hpp"
#include "warren/result.hpp"

namespace warren {

/// How large a stream's pieces may be, and how many may be under way.
struct LookupStreamShape {
    u32 slots = 0;
    u64 items_max = 0;  // of a piece
    u64 words_max = 0;  // of its names; there is room for one name of any length
};

class LookupStream {
 public:
    virtual ~LookupStream() = default;

    virtual LookupStreamShape shape() const = 0;
    /// A slot's memory: ends and names of a piece to be filled in, codes and attributes of its
    /// answers. By any thread.
    virtual ops::BatchMemory memory(u32 slot) = 0;

    // By one thread at a time, whichever it is.
    /// Sends a piece on its way. An error: it is not on its way.
    virtual Errc start(u32 slot, u64 items, u64 words) = 0;
    /// Errc::busy while the piece is under way; then ok, or an error: it has no answers.
    /// Errc::retry among the answers means that the look-up has to be given in another way.
    virtual Errc poll(u32 slot) = 0;
};

/// The streams of an engine. An error: there is none, and the volume makes batches of the look-ups.
class LookupStreams {
 public:
    virtual ~LookupStreams() = default;

    /// Takes the memory that a stream needs, which may take a while, so the caller holds nothing
    /// that others wait for. By any thread, at any time.
    virtual Errc prepare_lookups() = 0;
    /// A stream of look-ups on behalf of `caller`, until close_lookups() by the same thread. One at
    /// a time: it waits for the one before. Requires: prepare_lookups() was ok.
    virtual Result<LookupStream*> open_lookups(const core::Credentials& caller) = 0;
    virtual void close_lookups() = 0;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Runs of bulk templates that change a volume by way of the image of its replica. Each takes place
// while nothing applies to the Store, and what it has changed in the image is adopted at once.
//
// Invariant: a run is carried out in the Store and in the image, or in neither. After a failure of
// the device, no further one takes place.
#pragma once

#include <functional>

#include "base/workers.hpp"
#include "fs/engine/replica/replica.hpp"

namespace warren {

class TakenRoom;

class ImageRuns {
 public:
    /// Runs a template on an image that ReplicaMemory::open_run() has prepared. `status` is the
    /// result; if it is not Errc::ok, nothing has changed there. An error: the device has failed.
    using Body = std::function<Errc(const core::Store& image, Errc& status)>;

    /// A run changes at most this many blocks: those that are brought back have memory.
    static constexpr u64 blocks_max = 32'768;

    /// Requires: all outlive this. `may_load`: see Replica::read().
    ImageRuns(const core::Store& store, Replica& replica, const Replica::ForEach& for_each,
              bool may_load)
        : store_(store), replica_(replica), for_each_(for_each), may_load_(may_load) {}

    /// Runs `body` on an image that equals the Store, where it finds `room`, and adopts what it has
    /// changed. Returns its status; Errc::not_supported after a failure. `beside`, unless empty, is
    /// called by another thread while the body runs, if a thread can be had.
    Errc run(const TakenRoom& room, const Body& body, const std::function<void()>& beside = {});

    const core::Store& store() const { return store_; }
    const Replica::ForEach& for_each() const { return for_each_; }
    /// Whether the journal had room for all blocks that the last run could change.
    bool had_journal() const { return had_journal_; }
    /// How many runs were adopted.
    u64 adopted() const { return adopted_; }
    /// Errc::ok, or the error with which the device or the image's memory has failed.
    Errc failure() const { return failure_; }
    void note_failure(Errc code) { failure_ = code; }

 private:
    Errc run_on(ReplicaMemory& memory, const TakenRoom& room, const Body& body,
                const std::function<void()>& beside, Errc& status);

    const core::Store& store_;
    Replica& replica_;
    const Replica::ForEach& for_each_;
    const bool may_load_;
    Workers pair_{2};
    bool had_journal_ = false;
    u64 adopted_ = 0;
    Errc failure_ = Errc::ok;
};

}  // namespace warren

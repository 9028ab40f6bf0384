// SPDX-License-Identifier: Apache-2.0
// The calls by which a bulk command on the GPU uses the engine and the volume between its kernels.
//
// Invariant: no kernel of the command runs during such a call.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "gpu/stream.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

/// Implemented by the engine.
class BulkHost {
 public:
    virtual ~BulkHost() = default;
    /// Loads blocks into device memory. Returns the first error, but tries all blocks.
    virtual Errc bring(const std::vector<u64>& places) = 0;
    /// Calls `call` with the engine unlocked, so that other threads can use it and `call` can call
    /// the volume.
    virtual Errc let_go(const std::function<Errc()>& call) { return call(); }
    virtual Errc commit() = 0;
    /// Whether a scan may call visitors in its last run only. One whose results do not fit in one
    /// run then ends with Errc::no_space before any visitor is called.
    virtual bool visits_last() const { return false; }
    /// Gives device memory to more frames.
    virtual Errc add_frames() { return Errc::no_space; }
    /// Unlinks the names of a directory being deleted that a bulk step cannot free; adds their
    /// number to `files`.
    virtual Errc remove_leftovers(u64 /*directory*/, u64& /*files*/) { return Errc::no_space; }
    /// Frees a directory in the orphan directory and everything below it by commands. Called when
    /// a bulk step finds no room for the names that it may add to the orphan directory.
    virtual Errc remove_by_names(u64 /*directory*/, Removal& /*removal*/) { return Errc::no_space; }

    /// Unlocks the engine for a moment, so that a commit that waits for it can begin.
    Errc rest() {
        return let_go([] { return Errc::ok; });
    }
};

/// Loads the `count` blocks whose places a kernel has listed in device memory at `list`.
inline Errc bring_listed(const gpu::Stream& stream, const u64* list, u64 count, BulkHost& host) {
    if (count == 0) return Errc::ok;
    std::vector<u64> places(count);
    WARREN_TRY(stream.copy(places.data(), list, count * sizeof(u64)));
    WARREN_TRY(stream.wait());
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return host.bring(places);
}

}  // namespace warren::cuda_engine

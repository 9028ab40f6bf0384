// SPDX-License-Identifier: Apache-2.0
// What the host does for a bulk command between its kernels.
//
// Invariant: the command has no kernel at work meanwhile.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "gpu/stream.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

/// The engine and the volume above it, as a bulk command sees them.
class BulkHost {
 public:
    virtual ~BulkHost() = default;
    /// Brings blocks into the device's memory; the first error, and the others are brought.
    virtual Errc bring(const std::vector<u64>& places) = 0;
    /// Lets others have the engine for the time of `call`, which may call the volume.
    virtual Errc let_go(const std::function<Errc()>& call) { return call(); }
    virtual Errc commit() = 0;
    /// Gives memory to more frames.
    virtual Errc add_frames() { return Errc::no_space; }
    /// Unlinks the names of a dying directory that a step cannot free; adds how many to `files`.
    virtual Errc remove_leftovers(u64 /*directory*/, u64& /*files*/) { return Errc::no_space; }
    /// Frees a directory that hangs on the orphan directory, and all below it, without bulk steps:
    /// there is no room for what they may leave.
    virtual Errc remove_by_names(u64 /*directory*/, Removal& /*removal*/) { return Errc::no_space; }

    /// Lets others have their turn.
    Errc rest() {
        return let_go([] { return Errc::ok; });
    }
};

/// Brings the `count` blocks whose places a kernel has listed in device memory.
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

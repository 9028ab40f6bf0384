// SPDX-License-Identifier: Apache-2.0
// Where a replica keeps its image of a volume's metadata: a device's memory, or the host's in its
// place. One thread at a time calls send() and set_values(), and nobody reads the image meanwhile.
#pragma once

#include <span>

#include "fs/core/store.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren {

/// What readers of an image take from the counters of its moment.
struct ReplicaValues {
    u64 metadata_frames_end;
    u64 blocks_used;
    u64 inodes_used;
};

class ReplicaMemory {
 public:
    virtual ~ReplicaMemory() = default;

    /// Makes block i of `blocks` the one at places[i], a block of the frame table or of metadata,
    /// and resident. `blocks` may change once this returns. An error: the image is lost.
    virtual Errc send(std::span<const u64> places, const format::Block* blocks) = 0;
    virtual Errc set_values(const ReplicaValues& values) = 0;
    /// The image, with the addresses of the volume. Nobody locks or reserves anything there.
    virtual const core::Store& image() const = 0;
};

}  // namespace warren

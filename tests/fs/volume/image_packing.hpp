// SPDX-License-Identifier: Apache-2.0
// Packs directories in the image of a volume's replica. `ReplicaOf` makes the replica, as
// HostReplicaOf does.
#pragma once

#include <gtest/gtest.h>

#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

inline Errc pack(Volume& volume, Handle directory, const Caller& caller = anybody) {
    Rebuilt rebuilt;
    return volume.rebuild(caller, directory, rebuilt);
}

/// A rebuild for expect_rebuilds(). Nothing may be left to the CPU.
template <class ReplicaOf>
class ImagePacking {
 public:
    explicit ImagePacking(InsideVolume& volume) : volume_(*volume), replica_(volume.inside()) {
        replica_.queries->use_only(Side::replica);
    }
    ~ImagePacking() {
        EXPECT_EQ(replica_.queries->statistics().left, 0u);
        EXPECT_TRUE(replica_.reports.empty());
    }
    Errc operator()(const Caller& caller, Handle directory) {
        return pack(volume_, directory, caller);
    }

 private:
    Volume& volume_;
    ReplicaOf replica_;
};

}  // namespace warren

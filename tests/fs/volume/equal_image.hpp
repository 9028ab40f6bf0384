// SPDX-License-Identifier: Apache-2.0
// Whether the image of a volume's replica equals the volume. `ReplicaOf` is a HostReplicaOf or
// alike.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "fs/engine/replica/change_set.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/host_replica.hpp"

namespace warren {

template <class ReplicaOf>
void expect_equal_now(InsideVolume& volume, ReplicaOf& replica) {
    volume.inside().freeze([&] {
        HostReplica wanted(volume.inside().store());
        wanted.take_all();
        EXPECT_EQ(difference(wanted.image(), replica.memory->look(), false), "");
    });
}

/// A new version of the image must equal the volume.
template <class ReplicaOf>
void expect_equal_image(InsideVolume& volume, ReplicaOf& replica) {
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ((*volume).usage(anybody, (*volume).root(), {}, usage), Errc::ok);
    expect_equal_now(volume, replica);
}

/// The image must equal the volume although nothing was sent to it.
template <class ReplicaOf>
void expect_equal_unsent(InsideVolume& volume, ReplicaOf& replica) {
    EXPECT_EQ(ChangeSet(volume.inside().store()).marked(), 0u);
    expect_equal_now(volume, replica);
}

}  // namespace warren

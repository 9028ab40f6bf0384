// SPDX-License-Identifier: Apache-2.0
// A volume whose trees are removed by the list of a replica in the host's memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/fs/volume/equal_image.hpp"
#include "tests/support/host_reader.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren {

/// A volume with a replica that is asked whenever it can be.
struct ListingVolume {
    explicit ListingVolume(u64 size_bytes = 64 * mib)
        : disk(make_memory_disk(size_bytes)), volume(*disk), replica(volume.inside()) {
        replica.queries->use_only(Side::replica);
    }
    Volume& operator*() { return *volume; }
    Volume* operator->() { return &*volume; }

    /// How many trees were removed by their lists.
    u64 listed() const { return replica.reader->freed_trees; }
    u64 left() const { return replica.queries->statistics().left; }
    Removal remove_doomed() {
        Removal removal;
        EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
        EXPECT_EQ(volume->lookup(anybody, volume->root(), "doomed").code(), Errc::no_entry);
        return removal;
    }
    void expect_equal_image() { warren::expect_equal_image(volume, replica); }
    void close_and_check() {
        EXPECT_EQ(volume->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*disk));
    }

    std::unique_ptr<MemoryDisk> disk;
    InsideVolume volume;
    HostReplicaOf replica;
};

inline void expect_same_space(Volume& one, Volume& other) {
    EXPECT_EQ(one.statistics().blocks_free, other.statistics().blocks_free);
    EXPECT_EQ(one.statistics().inodes_used, other.statistics().inodes_used);
}

}  // namespace warren

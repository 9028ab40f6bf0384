// SPDX-License-Identifier: Apache-2.0
// A volume whose replica carries out its batches, as the volume under test of twins.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "fs/engine/replica/replica_queries.hpp"
#include "tests/fs/volume/batch_twins.hpp"
#include "tests/fs/volume/equal_image.hpp"
#include "tests/support/seed.hpp"

namespace warren {

/// `ReplicaOf` makes the replica of a volume, as HostReplicaOf does. Calls for more than `window`
/// items take several batches.
template <class ReplicaOf, u64 window = 64>
class ReplicatedMany {
 public:
    explicit ReplicatedMany(u64 size_bytes, const OpenOptions& = {}, u64 hash_mask = ~u64{0})
        : disk_(make_memory_disk(size_bytes)), hash_mask_(hash_mask) {
        open();
    }
    Volume& operator*() { return **volume_; }
    Volume* operator->() { return &**volume_; }
    InsideVolume& outer() { return *volume_; }
    ReplicaOf& replica() { return *replica_; }

    void open() {
        volume_ = std::make_unique<InsideVolume>(*disk_, OpenOptions{.workers = 2}, hash_mask_);
        replica_ = std::make_unique<ReplicaOf>(volume_->inside());
        replica_->queries->use_only(Side::replica);
        replica_->queries->use_windows_of(window);
    }
    void close_and_check() {
        EXPECT_TRUE(replica_->reports.empty());
        warren::expect_equal_image(*volume_, *replica_);
        windows_ += replica_->reader->batches.runs;
        EXPECT_EQ(volume_->operator*().close(), Errc::ok);
        volume_.reset();
        EXPECT_TRUE(expect_clean(*disk_, hash_mask_));
    }
    u64 windows() const { return windows_; }

 private:
    std::unique_ptr<MemoryDisk> disk_;
    const u64 hash_mask_;
    std::unique_ptr<InsideVolume> volume_;
    std::unique_ptr<ReplicaOf> replica_;
    u64 windows_ = 0;
};

/// Random items on twins of which one has a replica; its batches must run in more than
/// `windows_min` windows.
template <class Many>
void expect_equal_twins(u64 size_bytes, u64 rounds, u64 names, u64 items_max, u64 windows_min = 0,
                        u64 hash_mask = ~u64{0}) {
    const Seed seed;
    BatchTwinsOf<Many> twins(size_bytes, hash_mask);
    run_random(twins, seed.value(), rounds, names, items_max);
    EXPECT_GT(twins.many().windows(), windows_min);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// A FaultDisk without a plan lies between volume and disk: it forwards everything and owns nothing.
#include "tests/support/memory_volume.hpp"

#include <gtest/gtest.h>

#include "fs/admin/make_volume.hpp"
#include "fs/check/check.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/two_looks.hpp"

namespace warren {
std::unique_ptr<MemoryDisk> make_memory_disk(u64 size_bytes) {
    auto disk = std::make_unique<MemoryDisk>(size_bytes);
    const Failure failure = make_volume_on(*disk, "image", size_bytes, "test");
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    return disk;
}

std::unique_ptr<Volume> open_on(Disk& disk, const OpenOptions& options, u64 hash_mask) {
    Failure failure;
    auto volume =
        open_on_test_engine(std::make_unique<FaultDisk>(disk), options, failure, hash_mask);
    EXPECT_TRUE(volume) << failure.message;
    return volume;
}

bool expect_clean(Disk& disk, u64 hash_mask) {
    // If the test masks hashes many names have equal ones, which the quick check may leave to the
    // full check.
    const test::Outcome outcome = test::expect_equal_looks(disk, hash_mask, hash_mask != ~u64{0});
    EXPECT_EQ(outcome.failure.code, Errc::ok) << outcome.failure.message;
    EXPECT_EQ(outcome.result.problems, 0u) << outcome.all().substr(0, 4000);
    return outcome.failure.code == Errc::ok && outcome.result.problems == 0;
}

MemoryVolume::MemoryVolume(u64 size_bytes, const OpenOptions& options, u64 hash_mask)
    : MemoryVolume(make_memory_disk(size_bytes), options, hash_mask) {}

MemoryVolume::MemoryVolume(std::unique_ptr<MemoryDisk> disk, const OpenOptions& options,
                           u64 hash_mask)
    : disk_(std::move(disk)), faults_(*disk_), options_(options), hash_mask_(hash_mask) {
    open();
}

void MemoryVolume::open() {
    volume_ = open_on(faults_, options_, hash_mask_);
}

void MemoryVolume::close() {
    ASSERT_TRUE(volume_);
    EXPECT_EQ(volume_->close(), Errc::ok);
    volume_.reset();
}

void MemoryVolume::close_and_check() {
    close();
    expect_clean(*disk_, hash_mask_);
}

}  // namespace warren

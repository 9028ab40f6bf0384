// SPDX-License-Identifier: Apache-2.0
// A FaultDisk without a plan stands between volume and disk: it passes everything on and owns
// nothing.
#include "tests/support/memory_volume.hpp"

#include <gtest/gtest.h>

#include "fs/volume/check.hpp"
#include "fs/volume/make_volume.hpp"
#include "tests/support/test_engine.hpp"

namespace warren {
std::unique_ptr<MemoryDisk> make_memory_disk(u64 size_bytes) {
    auto disk = std::make_unique<MemoryDisk>(size_bytes);
    const Failure failure =
        make_volume_on(*disk, "image", size_bytes, "test", [&](u64 offset, u64 length) {
            return disk->discard(offset, length);  // a disk in memory reads as zeros then
        });
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
    std::string problems;
    CheckOptions options;
    options.report = [&](const std::string& line) {
        if (problems.size() < 4000) problems += line + "\n";
    };
    CheckResult result;
    const Failure failure = check_disk(disk, "image", options, result, hash_mask);
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    EXPECT_EQ(result.problems, 0u) << problems;
    return failure.code == Errc::ok && result.problems == 0;
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

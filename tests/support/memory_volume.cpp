// SPDX-License-Identifier: Apache-2.0
// A FaultDisk without a plan stands between volume and disk: it passes everything on and owns
// nothing.
#include "tests/support/memory_volume.hpp"

#include <gtest/gtest.h>

#include "fs/volume/check.hpp"
#include "fs/volume/make_volume.hpp"
#include "fs/volume/open_volume.hpp"
#include "fs/volume/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

/// What open_volume() does, with another store: its journal must have been replayed.
std::unique_ptr<Volume> open_with_mask(Disk& disk, const OpenOptions& options, u64 hash_mask) {
    format::Superblock superblock;
    const Failure failure = read_superblock(disk, "image", superblock);
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    auto implementation = std::make_unique<VolumeImplementation>(std::make_unique<FaultDisk>(disk),
                                                                 superblock, options);
    EXPECT_EQ(implementation->start(), Errc::ok);
    const_cast<core::Store&>(implementation->store()).hash_mask = hash_mask;
    EXPECT_EQ(implementation->reclaim_orphans(), Errc::ok);
    return std::make_unique<Volume>(std::move(implementation));
}

}  // namespace

std::unique_ptr<MemoryDisk> make_memory_disk(u64 size_bytes) {
    auto disk = std::make_unique<MemoryDisk>(size_bytes);
    const Failure failure =
        make_volume_on(*disk, "image", size_bytes, "test", [&](u64 offset, u64 length) {
            return disk->discard(offset, length);  // a disk in memory reads as zeros then
        });
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    return disk;
}

std::unique_ptr<Volume> open_on(Disk& disk, const OpenOptions& options) {
    Failure failure;
    auto volume = open_volume(std::make_unique<FaultDisk>(disk), "image", options, failure);
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
    volume_ = hash_mask_ == ~u64{0} ? open_on(faults_, options_)
                                    : open_with_mask(faults_, options_, hash_mask_);
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

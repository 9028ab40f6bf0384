// SPDX-License-Identifier: Apache-2.0
// A volume with the CPU engine and a GPU beside it, and the image in the GPU's memory.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fs/engine/cuda/replica/device_image.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/host_replica.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren {

/// An image on the device that the host can read back.
class TestedDeviceImage final : public cuda_engine::DeviceImage {
 public:
    explicit TestedDeviceImage(const core::Store& of) : copy_(of) {
        EXPECT_EQ(open(of, 0, nullptr), Errc::ok) << gpu::last_failure().message;
    }
    static bool is_there() { return gpu::device_count() != 0; }

    const core::Store& look() {
        const core::Store& from = image();
        const core::Store& to = copy_.look();
        const auto fetch = [](void* target, const void* source, u64 bytes) {
            EXPECT_EQ(cudaMemcpy(target, source, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        };
        constexpr u64 words = format::blocks_per_frame / 64;
        fetch(to.state, from.state, sizeof *to.state);
        fetch(to.frame_table, from.frame_table, ops::table_bytes(from));
        fetch(to.resident, from.resident, from.frame_count * words * sizeof(u64));
        for (u64 frame = 0; frame < from.frame_count; ++frame) {
            const u64 place = frame * format::frame_size;
            for (u64 block = 0; block < format::blocks_per_frame; ++block) {
                const u64 at = place + block * format::block_size;
                if (!core::test_bit(to.resident, at / format::block_size) ||
                    ops::is_table_place(from, at))
                    continue;
                // The whole frame has memory.
                fetch(to.base + place, from.base + place, format::frame_size);
                break;
            }
        }
        return to;
    }

 private:
    HostReplica copy_;
};

/// Calls `run(nth)`, in which call `nth` of the CUDA runtime fails, for each of the calls that
/// run(0), where none fails, counts: more than `calls_min`.
template <class Run>
void fail_each_call(u64 calls_min, const Run& run) {
    const u64 calls = run(0);
    EXPECT_GT(calls, calls_min);
    for (u64 nth = 1; nth <= calls && !testing::Test::HasFailure(); ++nth) {
        SCOPED_TRACE("call " + std::to_string(nth));
        static_cast<void>(run(nth));
    }
}

/// A volume with the CPU engine and a GPU beside it, which is asked for each scan and for lookups.
class VolumeWithGpu {
 public:
    explicit VolumeWithGpu(u64 size_bytes, u64 device_memory_bytes = 4 * gib)
        : VolumeWithGpu(make_memory_disk(size_bytes), device_memory_bytes) {}
    /// Of what is on the disk the GPU gets a copy at once.
    VolumeWithGpu(std::unique_ptr<MemoryDisk> disk, u64 device_memory_bytes)
        : disk_(std::move(disk)) {
        OpenOptions options{.workers = 4};
        options.device_memory_bytes = device_memory_bytes;
        options.warn = [this](const std::string& line) {
            const std::lock_guard lock(mutex_);
            warnings_.push_back(line);
        };
        volume_ = std::make_unique<InsideVolume>(*disk_, options);
        if (ReplicaQueries* const replica = inside().replica()) replica->use_only(Side::replica);
    }

    Volume& operator*() { return **volume_; }
    Volume* operator->() { return &**volume_; }
    InsideVolume& outer() { return *volume_; }
    VolumeImplementation& inside() { return volume_->inside(); }
    void close_and_check() {
        EXPECT_EQ((*volume_)->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*disk_));
    }
    std::vector<std::string> warnings() {
        const std::lock_guard lock(mutex_);
        return warnings_;
    }

 private:
    std::mutex mutex_;
    std::vector<std::string> warnings_;
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<InsideVolume> volume_;
};

}  // namespace warren

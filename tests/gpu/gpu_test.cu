// SPDX-License-Identifier: Apache-2.0
// The door to the CUDA runtime: what it hands out works, and what it cannot do it says in words.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/host_device.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/reserved_range.hpp"
#include "gpu/stream.hpp"

namespace warren::gpu::gpu_test {
namespace {

class Gpu : public testing::Test {
 protected:
    void SetUp() override {
        if (device_count() == 0) GTEST_SKIP() << "there is no GPU";
        ASSERT_EQ(stream.open(), Errc::ok) << last_failure().message;
    }

    Stream stream;
};

__global__ void add_index(u32* values, u32 count) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] += i;
}

void add_index(const Stream& stream, u32* values, u32 count) {
    add_index<<<(count + 255) / 256, 256, 0, stream.get()>>>(values, count);
    ASSERT_EQ(check(cudaGetLastError(), "add_index"), Errc::ok) << last_failure().message;
}

/// What `values` hold after add_index() on an array filled with `start`.
void expect_indices(const u32* values, u32 count, u32 start) {
    for (u32 i = 0; i < count; ++i)
        ASSERT_EQ(values[i], start + i);
}

TEST(GpuDevices, CountingThemNeedsNoDriver) {
    EXPECT_GE(device_count(), 0);
    DeviceInfo info;
    const Errc described = describe_device(device_count(), info);
    EXPECT_EQ(described, Errc::no_device);
    EXPECT_NE(last_failure().message.find("cudaError"), std::string::npos)
        << last_failure().message;
}

TEST_F(Gpu, IsDescribed) {
    DeviceInfo info;
    ASSERT_EQ(describe_device(0, info), Errc::ok) << last_failure().message;
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory_bytes, 256 * mib);
    EXPECT_LE(info.memory_free_bytes, info.memory_bytes);
    EXPECT_GT(info.multiprocessors, 0);
    EXPECT_EQ(*multiprocessors(), static_cast<u32>(info.multiprocessors));
    EXPECT_GE(info.driver_version, info.runtime_version / 1000 * 1000);
}

TEST_F(Gpu, CopiesThroughPinnedAndDeviceMemory) {
    constexpr u32 count = 1'000'000;
    PinnedBuffer<u32> host;
    DeviceBuffer<u32> device;
    ASSERT_EQ(host.allocate(count), Errc::ok);
    ASSERT_EQ(device.allocate(count), Errc::ok);
    std::fill_n(host.data(), count, 7u);
    ASSERT_EQ(stream.copy(device.data(), host.data(), device.bytes()), Errc::ok);
    add_index(stream, device.data(), count);
    ASSERT_EQ(stream.copy(host.data(), device.data(), device.bytes()), Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    expect_indices(host.data(), count, 7);
}

TEST_F(Gpu, KernelsReachPinnedMemory) {
    constexpr u32 count = 10'000;
    PinnedBuffer<u32> host;
    ASSERT_EQ(host.allocate(count), Errc::ok);
    std::fill_n(host.data(), count, 1u);
    add_index(stream, host.data(), count);
    ASSERT_EQ(stream.wait(), Errc::ok);
    expect_indices(host.data(), count, 1);
}

TEST_F(Gpu, PinsMemoryOfOthers) {
    std::vector<u32> values(1 << 20, 3);
    const PinnedRange pinned(values.data(), values.size() * sizeof(u32));
    EXPECT_TRUE(pinned.is_pinned()) << last_failure().message;
    DeviceBuffer<u32> device;
    ASSERT_EQ(device.allocate(values.size()), Errc::ok);
    ASSERT_EQ(stream.copy(device.data(), values.data(), device.bytes()), Errc::ok);
    add_index(stream, device.data(), static_cast<u32>(values.size()));
    ASSERT_EQ(stream.copy(values.data(), device.data(), device.bytes()), Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    expect_indices(values.data(), static_cast<u32>(values.size()), 3);
}

TEST_F(Gpu, BuffersKeepTheirRoom) {
    DeviceBuffer<u64> buffer;
    ASSERT_EQ(buffer.reserve(1000), Errc::ok);
    const u64* first = buffer.data();
    ASSERT_EQ(buffer.reserve(10), Errc::ok);
    EXPECT_EQ(buffer.data(), first);
    ASSERT_EQ(buffer.reserve(1001), Errc::ok);
    EXPECT_GE(buffer.count(), 1500u);
    DeviceBuffer<u64> other = std::move(buffer);
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_GE(other.count(), 1500u);
}

TEST_F(Gpu, EventsMeasure) {
    Event begin;
    Event end;
    ASSERT_EQ(begin.open(), Errc::ok);
    ASSERT_EQ(end.open(), Errc::ok);
    DeviceBuffer<u32> device;
    ASSERT_EQ(device.allocate(64 * mib), Errc::ok);
    ASSERT_EQ(begin.record(stream), Errc::ok);
    ASSERT_EQ(stream.fill(device.data(), 0, device.bytes()), Errc::ok);
    ASSERT_EQ(end.record(stream), Errc::ok);
    ASSERT_EQ(end.wait(), Errc::ok);
    EXPECT_TRUE(end.is_reached());
    const Result<float> passed = end.milliseconds_since(begin);
    ASSERT_TRUE(passed);
    EXPECT_GT(*passed, 0.0f);
    EXPECT_LT(*passed, 10'000.0f);
}

TEST_F(Gpu, RangesHaveMemoryWhereTheyAreMapped) {
    constexpr u64 parts[] = {0, 6 * mib, 1 * tib - 4 * mib};
    constexpr u32 count = 4 * mib / sizeof(u32);
    ReservedRange range;
    ASSERT_EQ(range.reserve(1 * tib), Errc::ok) << last_failure().message;
    for (const u64 part : parts) {
        ASSERT_EQ(range.map(part, 4 * mib), Errc::ok) << last_failure().message;
        ASSERT_EQ(stream.fill(range.data() + part, 0, 4 * mib), Errc::ok);
        add_index(stream, reinterpret_cast<u32*>(range.data() + part), count);
    }
    EXPECT_EQ(range.mapped_bytes(), 12 * mib);
    std::vector<u32> values(count);
    for (const u64 part : parts) {
        ASSERT_EQ(stream.copy(values.data(), range.data() + part, 4 * mib), Errc::ok);
        ASSERT_EQ(stream.wait(), Errc::ok) << last_failure().message;
        expect_indices(values.data(), count, 0);
    }
}

/// Writes to the words for so many cycles.
__global__ void write_on(u32* words, long long cycles) {
    const long long begin = clock64();
    do {
        device_atomic<u32>(words[threadIdx.x]).fetch_add(1, hd::memory_order_relaxed);
    } while (clock64() - begin < cycles);
}

TEST_F(Gpu, RangesStayUntilKernelsThatUseThemEnd) {
    {
        ReservedRange range;
        ASSERT_EQ(range.reserve(2 * mib), Errc::ok) << last_failure().message;
        ASSERT_EQ(range.map(0, 2 * mib), Errc::ok) << last_failure().message;
        write_on<<<1, 32, 0, stream.get()>>>(reinterpret_cast<u32*>(range.data()), 100'000'000);
        ASSERT_EQ(check(cudaGetLastError(), "write_on"), Errc::ok) << last_failure().message;
    }
    EXPECT_EQ(stream.wait(), Errc::ok) << last_failure().message;
}

TEST_F(Gpu, MemoryThatIsNotThereIsAnError) {
    DeviceBuffer<std::byte> buffer;
    EXPECT_EQ(buffer.allocate(64 * tib), Errc::no_memory);
    EXPECT_NE(last_failure().message.find("cudaErrorMemoryAllocation"), std::string::npos);
    ReservedRange range;
    ASSERT_EQ(range.reserve(2 * tib), Errc::ok) << last_failure().message;
    EXPECT_EQ(range.map(0, 2 * tib), Errc::no_memory);
    EXPECT_EQ(range.map(0, 2 * mib), Errc::ok) << last_failure().message;
    // Nothing of that is left for a later call to stumble over.
    EXPECT_EQ(stream.wait(), Errc::ok);
}

}  // namespace
}  // namespace warren::gpu::gpu_test

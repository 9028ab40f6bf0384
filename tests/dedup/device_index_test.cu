// SPDX-License-Identifier: Apache-2.0
// The index in device memory is compared with that of the CPU, batch by batch.
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "dedup/cuda/device_index.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "tests/support/seed.hpp"

namespace warren::dedup::device_index_test {
namespace {

class DeviceIndexTest : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
        ASSERT_EQ(stream.open(), Errc::ok) << gpu::last_failure().message;
    }

    /// Adds a batch to both and compares their answers about its chunks.
    void add(const std::vector<Chunk>& chunks) {
        const u64 count = chunks.size();
        std::vector<Key> keys;
        std::vector<u64> places;
        std::vector<u32> lengths;
        for (const Chunk& chunk : chunks) {
            keys.push_back(chunk.key);
            places.push_back(chunk.place);
            lengths.push_back(chunk.length);
        }
        ASSERT_EQ(device_keys.reserve(count), Errc::ok);
        ASSERT_EQ(device_places.reserve(count), Errc::ok);
        ASSERT_EQ(device_lengths.reserve(count), Errc::ok);
        ASSERT_EQ(device_originals.reserve(count), Errc::ok);
        ASSERT_EQ(stream.copy(device_keys.data(), keys.data(), count * sizeof(Key)), Errc::ok);
        ASSERT_EQ(stream.copy(device_places.data(), places.data(), count * 8), Errc::ok);
        ASSERT_EQ(stream.copy(device_lengths.data(), lengths.data(), count * 4), Errc::ok);
        ASSERT_EQ(
            device.add({device_keys.data(), device_places.data(), device_lengths.data(), count},
                       device_originals.data(), stream),
            Errc::ok)
            << gpu::last_failure().message;
        std::vector<u64> originals(count);
        ASSERT_EQ(stream.copy(originals.data(), device_originals.data(), count * 8), Errc::ok);
        ASSERT_EQ(stream.wait(), Errc::ok) << gpu::last_failure().message;
        std::vector<Entry> found(count);
        ASSERT_EQ(host.add(chunks, found), Errc::ok);
        for (u64 i = 0; i < count; ++i)
            ASSERT_EQ(originals[i], found[i].place) << "chunk " << i;
    }

    gpu::Stream stream;
    cuda::DeviceIndex device;
    Index host;
    gpu::DeviceBuffer<Key> device_keys;
    gpu::DeviceBuffer<u64> device_places;
    gpu::DeviceBuffer<u32> device_lengths;
    gpu::DeviceBuffer<u64> device_originals;
};

TEST_F(DeviceIndexTest, EqualsTheIndexOfTheCpu) {
    const Seed seed;
    for (u64 kinds : {1u, 3u, 1000u, 400'000u}) {
        Random random(seed.part(kinds));
        ASSERT_EQ(host.open({}), Errc::ok);
        ASSERT_EQ(device.open(500'000, stream), Errc::ok);
        u64 place = 0;
        for (int batch = 0; batch < 6; ++batch) {
            std::vector<Chunk> chunks(1 + random.below(80'000));
            for (Chunk& chunk : chunks) {
                Random of_kind(random.below(kinds));
                chunk = {{of_kind.next(), of_kind.next()}, place, 0};
                if (random.one_in(50)) chunk.key = {0, of_kind.below(2)};
                if (random.one_in(50)) chunk.key = {of_kind.below(2), 0};
                chunk.length = static_cast<u32>(random.below(70'000));
                place += 1 + random.below(100);
            }
            add(chunks);
            if (HasFatalFailure()) return;
        }
        std::vector<Entry> entries;
        ASSERT_EQ(device.read(entries, stream), Errc::ok);
        EXPECT_EQ(entries, host.sorted());
    }
}

TEST_F(DeviceIndexTest, FindsWhatIsThereAndSaysWhenItIsFull) {
    ASSERT_EQ(host.open({}), Errc::ok);
    ASSERT_EQ(device.open(10, stream), Errc::ok);
    std::vector<Chunk> chunks;
    for (u64 i = 0; i < 1500; ++i)
        chunks.push_back({{i * 977 + 1, i}, i, 1});
    add({chunks.begin(), chunks.begin() + 700});
    ASSERT_EQ(device.find(device_keys.data(), 700, device_originals.data(), stream), Errc::ok);
    std::vector<u64> originals(700);
    ASSERT_EQ(stream.copy(originals.data(), device_originals.data(), 700 * 8), Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    for (u64 i = 0; i < 700; ++i)
        EXPECT_EQ(originals[i], i);
    const Key absent{5, 5};
    ASSERT_EQ(stream.copy(device_keys.data(), &absent, sizeof absent), Errc::ok);
    ASSERT_EQ(device.find(device_keys.data(), 1, device_originals.data(), stream), Errc::ok);
    ASSERT_EQ(stream.copy(originals.data(), device_originals.data(), 8), Errc::ok);
    std::vector<Entry> entries;
    ASSERT_EQ(device.read(entries, stream), Errc::ok);
    EXPECT_EQ(originals[0], ~u64{0});
    EXPECT_EQ(entries.size(), 700u);
    ASSERT_EQ(device_keys.allocate(1500), Errc::ok);
    std::vector<Key> keys;
    for (const Chunk& chunk : chunks)
        keys.push_back(chunk.key);
    ASSERT_EQ(stream.copy(device_keys.data(), keys.data(), 1500 * sizeof(Key)), Errc::ok);
    ASSERT_EQ(device_places.allocate(1500), Errc::ok);
    ASSERT_EQ(device_lengths.allocate(1500), Errc::ok);
    ASSERT_EQ(device_originals.allocate(1500), Errc::ok);
    ASSERT_EQ(device.add({device_keys.data(), device_places.data(), device_lengths.data(), 1500},
                         device_originals.data(), stream),
              Errc::ok);
    EXPECT_EQ(device.read(entries, stream), Errc::no_space);
}

}  // namespace
}  // namespace warren::dedup::device_index_test

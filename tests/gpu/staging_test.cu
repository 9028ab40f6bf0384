// SPDX-License-Identifier: Apache-2.0
// Staging memory and copies of many pieces: bytes arrive where they belong, whatever their lengths
// and alignments, and in the order of the caller's stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "gpu/gather.hpp"
#include "gpu/staging.hpp"
#include "tests/support/seed.hpp"

namespace warren::gpu::staging_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr u64 unit = Staging::buffer_bytes;

class StagingTest : public testing::Test {
 protected:
    void SetUp() override {
        if (device_count() == 0) GTEST_SKIP() << "there is no GPU";
        ASSERT_EQ(stream.open(), Errc::ok);
    }

    void randomize(std::byte* bytes, u64 count) {
        for (u64 i = 0; i < count; ++i)
            bytes[i] = static_cast<std::byte>(random.below(256));
    }

    const Seed seed;
    Random random{seed.value()};
    Stream stream;
};

TEST_F(StagingTest, CopiesPiecesOfAnyLengthAndPlace) {
    constexpr u64 room = 4 * mib;
    PinnedBuffer<std::byte> source;
    PinnedBuffer<CopyPiece> pieces;
    DeviceBuffer<std::byte> target;
    ASSERT_EQ(source.allocate(room), Errc::ok);
    ASSERT_EQ(pieces.allocate(1000), Errc::ok);
    ASSERT_EQ(target.allocate(room), Errc::ok);
    randomize(source.data(), room);
    for (int round = 0; round < 20; ++round) {
        Bytes model(room, std::byte{7});
        ASSERT_EQ(stream.fill(target.data(), 7, room), Errc::ok);
        const bool gathers = random.one_in(2);
        u64 count = 0;
        const u64 longest = random.one_in(3) ? 100'000 : random.one_in(2) ? 4096 : 40;
        for (u64 at = 0; count < pieces.count(); ++count) {
            const u64 bytes = random.below(longest) + (gathers ? 0 : 1);
            at += random.one_in(2) ? 0 : random.below(5);
            const u64 from = random.below(room - bytes) / gather_alignment * gather_alignment;
            if (at + bytes > room) break;
            pieces.data()[count] = {source.data() + from, target.data() + at, bytes};
            std::memcpy(model.data() + at, source.data() + from, bytes);
            at += bytes;
        }
        const std::span queued(pieces.data(), count);
        ASSERT_EQ(gathers ? gather(queued, stream) : stream.copy_many(queued), Errc::ok);
        Bytes found(room);
        ASSERT_EQ(stream.copy(found.data(), target.data(), room), Errc::ok);
        ASSERT_EQ(stream.wait(), Errc::ok);
        ASSERT_TRUE(found == model) << "round " << round;
    }
}

TEST_F(StagingTest, PutsAndGets) {
    DeviceBuffer<std::byte> device;
    ASSERT_EQ(device.allocate(5 * unit), Errc::ok);
    for (const u64 length : {u64{0}, u64{1}, unit, unit + 1, 5 * unit - 3}) {
        Bytes source(length);
        randomize(source.data(), length);
        Bytes found(length);
        const Errc code = StagingPool::of(0).with([&](Staging& staging) -> Errc {
            WARREN_TRY(staging.put(device.data(), length, [&](u64 at, std::span<std::byte> piece) {
                std::memcpy(piece.data(), source.data() + at, piece.size());
                return Errc::ok;
            }));
            return staging.get(device.data(), length,
                               [&](u64 at, std::span<const std::byte> piece) {
                                   std::memcpy(found.data() + at, piece.data(), piece.size());
                                   return Errc::ok;
                               });
        });
        ASSERT_EQ(code, Errc::ok);
        EXPECT_TRUE(found == source) << length;
    }
}

/// A copy that is queued between two fills of the caller's stream comes between them.
TEST_F(StagingTest, KeepsTheOrderOfTheCallersStream) {
    constexpr u64 bytes = 256 * mib;
    DeviceBuffer<std::byte> device;
    DeviceBuffer<std::byte> copy;
    Event begin;
    Event end;
    ASSERT_EQ(begin.open(), Errc::ok);
    ASSERT_EQ(end.open(), Errc::ok);
    ASSERT_EQ(device.allocate(bytes), Errc::ok);
    ASSERT_EQ(copy.allocate(bytes), Errc::ok);
    for (int round = 0; round < 10; ++round) {
        for (int fill = 0; fill < 20; ++fill)
            ASSERT_EQ(stream.fill(device.data(), fill, bytes), Errc::ok);
        const Errc code = StagingPool::of(0).with([&](Staging& staging) -> Errc {
            WARREN_TRY(begin.record(stream));
            WARREN_TRY(staging.stream().wait_for(begin));
            WARREN_TRY(staging.put(device.data() + 10, mib, [](u64, std::span<std::byte> piece) {
                std::ranges::fill(piece, std::byte{99});
                return Errc::ok;
            }));
            WARREN_TRY(end.record(staging.stream()));
            return stream.wait_for(end);
        });
        ASSERT_EQ(code, Errc::ok);
        ASSERT_EQ(stream.copy(copy.data(), device.data(), bytes), Errc::ok);
        Bytes found(mib + 20);
        ASSERT_EQ(stream.copy(found.data(), copy.data(), found.size()), Errc::ok);
        ASSERT_EQ(stream.wait(), Errc::ok);
        EXPECT_EQ(std::ranges::count(found, std::byte{99}), static_cast<i64>(mib));
        EXPECT_EQ(found[9], std::byte{19});
        EXPECT_EQ(found[mib + 10], std::byte{19});
    }
}

TEST_F(StagingTest, EndsWithTheErrorOfItsCaller) {
    DeviceBuffer<std::byte> device;
    ASSERT_EQ(device.allocate(3 * unit), Errc::ok);
    const Errc code = StagingPool::of(0).with([&](Staging& staging) {
        return staging.put(device.data(), 3 * unit, [](u64 at, std::span<std::byte>) {
            return at < 2 * unit ? Errc::ok : Errc::no_data;
        });
    });
    EXPECT_EQ(code, Errc::no_data);
}

}  // namespace
}  // namespace warren::gpu::staging_test

// SPDX-License-Identifier: Apache-2.0
// Every crash test relies on the memory disk, so its power cuts are compared byte by byte with a
// plain array: all data before the last flush are there, and of later writes only whole sectors
// that were written.
#include "tests/support/memory_disk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.hpp"

namespace warren::memory_disk_test {
namespace {

constexpr u64 disk_bytes = 256 * kib;
using Bytes = std::vector<std::byte>;

Bytes pattern(u64 length, u64 seed) {
    Bytes bytes(length);
    Random random(seed);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random.next());
    return bytes;
}

Bytes contents(Disk& disk, u64 offset, u64 length) {
    Bytes bytes(length);
    EXPECT_EQ(disk.read(offset, bytes), Errc::ok);
    return bytes;
}

TEST(MemoryDisk, readsWhatWasWrittenAndZerosElsewhere) {
    MemoryDisk disk(16 * tib);
    const Bytes bytes = pattern(200 * kib, 1);
    ASSERT_EQ(disk.write(16 * tib - 200 * kib, bytes), Errc::ok);
    EXPECT_EQ(contents(disk, 16 * tib - 200 * kib, 200 * kib), bytes);
    EXPECT_EQ(contents(disk, 5 * tib, 4 * kib), Bytes(4 * kib));
    EXPECT_LE(disk.resident_bytes(), 256 * kib);
    Bytes two(2);
    EXPECT_EQ(disk.read(16 * tib - 1, two), Errc::io);
    EXPECT_EQ(disk.write(~u64{0}, two), Errc::io);
    EXPECT_EQ(disk.discard(16 * tib, 1), Errc::io);
}

TEST(MemoryDisk, discardReadsAsZerosForAnyRange) {
    for (u64 seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        MemoryDisk disk(disk_bytes);
        Bytes model(disk_bytes);
        for (int round = 0; round < 8; ++round) {
            const u64 offset = random.below(disk_bytes);
            const u64 length = random.below(disk_bytes - offset + 1);
            if (random.one_in(2)) {
                const Bytes bytes = pattern(length, random.next());
                ASSERT_EQ(disk.write(offset, bytes), Errc::ok);
                std::ranges::copy(bytes, model.begin() + static_cast<i64>(offset));
            } else {
                ASSERT_EQ(disk.discard(offset, length), Errc::ok);
                std::fill_n(model.begin() + static_cast<i64>(offset), length, std::byte{0});
            }
            ASSERT_EQ(contents(disk, 0, disk_bytes), model);
        }
    }
}

TEST(MemoryDisk, discardsTerabytesAtOnce) {
    MemoryDisk disk(16 * tib);
    for (const u64 place : {u64{4096}, 3 * tib, 16 * tib - 8192}) {
        ASSERT_EQ(disk.write(place, pattern(4096, place)), Errc::ok);
    }
    ASSERT_EQ(disk.discard(8192, 16 * tib - 2 * 8192), Errc::ok);
    EXPECT_EQ(contents(disk, 4096, 4096), pattern(4096, 4096));
    EXPECT_EQ(contents(disk, 3 * tib, 4096), Bytes(4096));
    EXPECT_EQ(contents(disk, 16 * tib - 8192, 4096), pattern(4096, 16 * tib - 8192));
}

TEST(MemoryDisk, imageWithoutOptionsIsThePrefix) {
    MemoryDisk disk(disk_bytes);
    ASSERT_EQ(disk.write(0, pattern(4096, 9)), Errc::ok);
    disk.start_recording();
    std::vector<Bytes> states{contents(disk, 0, disk_bytes)};
    Random random(7);
    for (int i = 0; i < 60; ++i) {
        if (random.one_in(4)) {
            ASSERT_EQ(disk.flush(), Errc::ok);
        } else if (random.one_in(4)) {
            ASSERT_EQ(disk.discard(random.below(60) * 4096, 4096), Errc::ok);
        } else {
            ASSERT_EQ(disk.write(random.below(100) * 512, pattern(3000, random.next())), Errc::ok);
        }
        states.push_back(contents(disk, 0, disk_bytes));
    }
    disk.stop_recording();
    ASSERT_EQ(disk.write(0, pattern(4096, 10)), Errc::ok);
    ASSERT_EQ(disk.event_count(), 60u);
    for (u64 n = 0; n <= 60; ++n) {
        EXPECT_EQ(contents(*disk.image_after(n), 0, disk_bytes), states[n]) << n;
        EXPECT_EQ(contents(*disk.image_after(60 - n), 0, disk_bytes), states[60 - n]) << n;
    }
}

TEST(MemoryDisk, imagesAndCopiesAreIndependent) {
    MemoryDisk disk(disk_bytes);
    ASSERT_EQ(disk.write(0, pattern(4096, 1)), Errc::ok);
    disk.start_recording();
    ASSERT_EQ(disk.write(4096, pattern(4096, 2)), Errc::ok);
    auto image = disk.image_after(1);
    auto copy = disk.copy();
    ASSERT_EQ(disk.write(0, pattern(4096, 3)), Errc::ok);
    ASSERT_EQ(image->write(4096, pattern(4096, 4)), Errc::ok);
    EXPECT_EQ(contents(*image, 0, 4096), pattern(4096, 1));
    EXPECT_EQ(contents(*copy, 4096, 4096), pattern(4096, 2));
    EXPECT_EQ(contents(disk, 4096, 4096), pattern(4096, 2));
    EXPECT_EQ(contents(*disk.image_after(2), 4096, 4096), pattern(4096, 2));
}

/// Each sector of `image` must hold what one of the events wrote there, or the durable contents.
void expect_allowed(const MemoryDisk& disk, MemoryDisk& image, u64 events, const Cut& cut) {
    u64 durable = events;
    while (durable > 0 && disk.event(durable - 1).kind != DiskEventKind::flush)
        --durable;
    const Bytes found = contents(image, 0, disk_bytes);
    const Bytes base = contents(*disk.image_after(durable), 0, disk_bytes);
    for (u64 sector = 0; sector < disk_bytes; sector += 512) {
        const auto at = static_cast<i64>(sector);
        std::set<Bytes> allowed;
        const bool may_lose = cut.drop || cut.tear;
        allowed.insert(Bytes(base.begin() + at, base.begin() + at + 512));
        for (u64 i = durable; i < events; ++i) {
            const DiskEvent event = disk.event(i);
            if (event.offset > sector || event.offset + event.length_bytes < sector + 512) continue;
            const auto from = event.bytes.begin() + static_cast<i64>(sector - event.offset);
            if (!may_lose && !cut.reorder) allowed.clear();
            allowed.insert(Bytes(from, from + 512));
        }
        EXPECT_TRUE(allowed.contains(Bytes(found.begin() + at, found.begin() + at + 512)))
            << "sector at " << sector;
    }
}

TEST(MemoryDisk, cutsLeaveWholeSectorsThatWereWritten) {
    MemoryDisk disk(disk_bytes);
    disk.start_recording();
    Random random(3);
    for (int i = 0; i < 24; ++i) {
        if (random.one_in(6)) {
            ASSERT_EQ(disk.flush(), Errc::ok);
        }
        const Bytes bytes = pattern(512 * (1 + random.below(8)), random.next());
        ASSERT_EQ(disk.write(512 * random.below(20), bytes), Errc::ok);
    }
    u64 different = 0;
    for (u64 seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const Cut cut{(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, seed};
        const u64 events = Random(seed).below(disk.event_count() + 1);
        auto image = disk.image_after(events, cut);
        expect_allowed(disk, *image, events, cut);
        const Bytes plain = contents(*disk.image_after(events), 0, disk_bytes);
        if (contents(*image, 0, disk_bytes) != plain) ++different;
        EXPECT_EQ(contents(*disk.image_after(events, cut), 0, disk_bytes),
                  contents(*image, 0, disk_bytes))
            << "a seed must name one image";
    }
    EXPECT_GT(different, 10u);
}

}  // namespace
}  // namespace warren::memory_disk_test

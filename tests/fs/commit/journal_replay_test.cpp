// SPDX-License-Identifier: Apache-2.0
// What replay accepts as a transaction and what it rejects: flipped bits, garbage, transactions
// with a correct checksum and false contents, and those that the superblock declares as done.
// Replay must write no byte where no block may lie.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/crc32c.hpp"
#include "base/random.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/commit/journal.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/format/check_block.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren::journal_replay_test {
namespace {

using format::Block;
using format::block_size;
using format::Superblock;

constexpr u64 volume_bytes = 16 * mib;
constexpr u64 first_place = 4 * mib;

Superblock load(Disk& disk) {
    Block block{};
    auto& superblock = reinterpret_cast<Superblock&>(block);
    const Failure failure = read_superblock(disk, "image", superblock);
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    return superblock;
}

std::unique_ptr<MemoryDisk> make_disk() {
    auto disk = std::make_unique<MemoryDisk>(volume_bytes);
    EXPECT_EQ(make_volume_on(*disk, "image", volume_bytes, "").code, Errc::ok);
    return disk;
}

TEST(JournalReplay, capacityFillsTheHalfAndNoMore) {
    for (u64 half = 3; half < 20000; ++half) {
        const u64 total = Journal::capacity(half);
        const auto needed = [](u64 blocks) { return blocks + (blocks + 502) / 503 + 1; };
        ASSERT_LE(needed(total), half);
        ASSERT_GT(needed(total + 1), half);
    }
    EXPECT_EQ(Journal::capacity(2), 0u);
}

TEST(JournalReplay, superblockOutsideOfTheJournalIsNotUndone) {
    auto disk = make_disk();
    Superblock superblock = load(*disk);
    Journal journal(*disk, superblock);
    Block block;
    std::memcpy(&block, &superblock, sizeof block);
    reinterpret_cast<Superblock&>(block).clean = 0;
    format::seal_block(block, superblock.header.volume, 0, 5);
    const SealedBlock sealed{0, &block};
    ASSERT_EQ(journal.write(5, std::span(&sealed, 1), FreshData::no), Errc::ok);
    const auto found = [&](u64 transaction, u32 clean) {
        Superblock other = superblock;
        other.header.transaction = transaction;
        other.clean = clean;
        const Result<u64> result = Journal::find_logged(*disk, other, [](u64, u64) {});
        EXPECT_TRUE(result);
        return *result;
    };
    EXPECT_EQ(found(4, 0), 5u);
    EXPECT_EQ(found(4, 1), 5u);
    EXPECT_EQ(found(5, 0), 5u);
    EXPECT_EQ(found(5, 1), 0u);
    EXPECT_EQ(found(6, 0), 0u);
    EXPECT_EQ(found(6, 1), 0u);
}

/// Replays whatever `image` holds and checks that it writes only where blocks may lie.
u64 replay_garbage(MemoryDisk& image, const Superblock& superblock) {
    image.start_recording();
    const Result<u64> result = Journal::replay(image, superblock);
    EXPECT_TRUE(result);
    const u64 journal_end = superblock.journal_offset + superblock.journal_blocks * block_size;
    for (u64 i = 0; i < image.event_count(); ++i) {
        const DiskEvent event = image.event(i);
        if (event.kind != DiskEventKind::write) continue;
        EXPECT_LE(event.offset + event.length_bytes, superblock.size_bytes);
        EXPECT_TRUE(event.offset + event.length_bytes <= superblock.journal_offset ||
                    event.offset >= journal_end);
    }
    return *result;
}

TEST(JournalReplay, anyFlippedBitIsNoTransaction) {
    auto disk = make_disk();
    const Superblock superblock = load(*disk);
    {
        Journal journal(*disk, superblock);
        std::vector<Block> blocks(3);
        std::vector<SealedBlock> sealed;
        for (u64 i = 0; i < 3; ++i) {
            std::memset(&blocks[i], static_cast<int>(i + 1), block_size);
            sealed.push_back({first_place + 2 * i * block_size, &blocks[i]});
        }
        ASSERT_EQ(journal.write(2, sealed, FreshData::no), Errc::ok);
    }
    ASSERT_EQ(replay_garbage(*disk->copy(), superblock), 2u);
    for (u64 seed = 1; seed <= 3000; ++seed) {
        Random random(seed);
        auto image = disk->copy();
        const u64 at = superblock.journal_offset + random.below(5 * block_size);
        std::byte byte;
        ASSERT_EQ(image->read(at, std::span(&byte, 1)), Errc::ok);
        byte ^= static_cast<std::byte>(1u << random.below(8));
        ASSERT_EQ(image->write(at, std::span(&byte, 1)), Errc::ok);
        ASSERT_EQ(replay_garbage(*image, superblock), 0u) << "seed " << seed << ", byte " << at;
    }
}

TEST(JournalReplay, garbageIsNoTransaction) {
    for (u64 seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        auto disk = make_disk();
        const Superblock superblock = load(*disk);
        std::vector<Block> blocks(superblock.journal_blocks);
        for (Block& block : blocks) {
            for (u64& word : block.words)
                word = random.next();
        }
        ASSERT_EQ(disk->write(superblock.journal_offset, std::as_bytes(std::span(blocks))),
                  Errc::ok);
        ASSERT_EQ(replay_garbage(*disk, superblock), 0u) << "seed " << seed;
    }
}

/// A transaction of one block, valid except for what `change` does before it is sealed.
template <class Change>
u64 replay_crafted(const Change& change) {
    auto disk = make_disk();
    Superblock superblock = load(*disk);
    Block blocks[3] = {};
    auto& descriptor = reinterpret_cast<format::JournalDescriptor&>(blocks[0]);
    auto& commit = reinterpret_cast<format::JournalCommit&>(blocks[2]);
    descriptor.header.kind = static_cast<u16>(format::BlockKind::journal_descriptor);
    descriptor.count = 1;
    descriptor.total = 1;
    descriptor.places[0] = first_place;
    commit.header.kind = static_cast<u16>(format::BlockKind::journal_commit);
    commit.total = 1;
    u64 numbers[2] = {2, 2};
    u64 volume = superblock.header.volume;
    change(superblock, descriptor, commit, numbers, volume);
    const u64 place = superblock.journal_offset;
    format::seal_block(blocks[0], volume, place, numbers[0]);
    commit.crc_of_blocks += crc32c(std::as_bytes(std::span(blocks, 2)));
    format::seal_block(blocks[2], volume, place + 2 * block_size, numbers[1]);
    EXPECT_EQ(disk->write(place, std::as_bytes(std::span(blocks))), Errc::ok);
    return replay_garbage(*disk, superblock);
}

TEST(JournalReplay, soundBytesThatLieAreNoTransaction) {
    using S = Superblock;
    using D = format::JournalDescriptor;
    using C = format::JournalCommit;
    EXPECT_EQ(replay_crafted([](S&, D&, C&, u64*, u64&) {}), 2u);
    const auto at = [](u64 place) {
        return replay_crafted([=](S&, D& d, C&, u64*, u64&) { d.places[0] = place; });
    };
    EXPECT_EQ(at(first_place + 1), 0u);
    EXPECT_EQ(at(volume_bytes), 0u);
    EXPECT_EQ(at(~u64{0} - block_size + 1), 0u);
    EXPECT_EQ(at(255 * block_size), 0u);
    EXPECT_EQ(at(510 * block_size), 0u);
    EXPECT_EQ(at(volume_bytes - block_size), 2u);
    EXPECT_EQ(at(254 * block_size), 2u);
    EXPECT_EQ(replay_crafted([](S&, D& d, C&, u64*, u64&) { d.count = 2; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D& d, C&, u64*, u64&) { d.count = 0; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D& d, C&, u64*, u64&) { d.count = ~0u; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D& d, C&, u64*, u64&) { d.index = 1; }), 0u);
    for (const u64 total : {u64{0}, u64{2}, u64{127}, u64{504}, ~u64{0}, ~u64{0} - 502}) {
        EXPECT_EQ(replay_crafted([=](S&, D& d, C& c, u64*, u64&) { d.total = c.total = total; }),
                  0u);
    }
    EXPECT_EQ(replay_crafted([](S&, D&, C& c, u64*, u64&) { c.total = 2; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D&, C& c, u64*, u64&) { c.crc_of_blocks = 1; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D&, C&, u64* numbers, u64&) { numbers[1] = 3; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D&, C&, u64* n, u64&) { n[0] = n[1] = 0; }), 0u);
    EXPECT_EQ(replay_crafted([](S&, D&, C&, u64*, u64& volume) { ++volume; }), 0u);
}

}  // namespace
}  // namespace warren::journal_replay_test

// SPDX-License-Identifier: Apache-2.0
// The file buffer at its smallest size against an array of bytes, by one thread and by many, on a
// disk that fails; read-ahead, eviction, what a journal takes from it; and that a reader with a
// cache hit does not wait for a disk that another thread waits for.
#include "fs/cache/file_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/fs/cache/file_buffer_model.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_disk.hpp"
#include "tests/support/passing_disk.hpp"
#include "tests/support/seed.hpp"

namespace warren::file_buffer_test {
namespace {

using namespace file_buffer_model;

TEST(FileBuffer, holdsWhatAModelHolds) {
    expect_as_model(smallest());
}

TEST(FileBuffer, concurrentUsersSeeTheirOwnBytes) {
    const Seed seed;
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    constexpr u64 threads = 8;
    constexpr u64 own = disk_bytes / threads;
    std::vector<std::thread> executor;
    for (u64 t = 0; t < threads; ++t) {
        executor.emplace_back([&, t] {
            Random random(seed.part(t));
            Bytes model(own);
            for (u64 i = 0; i < 200 * test_load() && !testing::Test::HasFailure(); ++i) {
                step(buffer, t * own, model, random);
                EXPECT_EQ(random.one_in(40) ? buffer.write_back() : Errc::ok, Errc::ok);
            }
        });
    }
    for (std::thread& one : executor)
        one.join();
}

TEST(FileBuffer, loadsTwiceAsMuchWhileTheReaderGoesOn) {
    MemoryDisk disk(disk_bytes);
    FileBufferShape shape;
    shape.size_bytes = 4 * mib;
    shape.first_load_blocks = 2;
    shape.load_blocks_max = 64;
    FileBuffer buffer(disk, shape);
    Bytes one(block);
    std::vector<u64> loads;
    for (u64 i = 0; i < 254; ++i) {
        const u64 before = buffer.figures().loaded_blocks;
        ASSERT_EQ(buffer.read(i * block, one, disk_bytes), Errc::ok);
        const u64 more = buffer.figures().loaded_blocks - before;
        if (more != 0) loads.push_back(more);
    }
    EXPECT_EQ(loads, (std::vector<u64>{2, 4, 8, 16, 32, 64, 64, 64}));
    // A read elsewhere starts the read-ahead anew, and read-ahead never passes the end of the run.
    ASSERT_EQ(buffer.read(1000 * block, one, 1001 * block), Errc::ok);
    EXPECT_EQ(buffer.figures().loaded_blocks, 254u + 1);
}

TEST(FileBuffer, loadsOneLengthIfThatIsAskedFor) {
    MemoryDisk disk(disk_bytes);
    FileBufferShape shape;
    shape.size_bytes = 4 * mib;
    shape.first_load_blocks = 16;
    shape.load_blocks_max = 16;
    FileBuffer buffer(disk, shape);
    Bytes many(64 * block);
    ASSERT_EQ(buffer.read(0, many, disk_bytes), Errc::ok);
    EXPECT_EQ(buffer.figures().loads, 4u);
    EXPECT_EQ(buffer.figures().loaded_blocks, 64u);
}

TEST(FileBuffer, keepsWhatIsUsedAndWhatIsDearToLose) {
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());  // 64 blocks, extents of up to 8
    Bytes bytes(block);
    // A dirty block, then clean ones that are used less often.
    ASSERT_EQ(buffer.write(0, bytes), Errc::ok);
    for (u64 i = 1; i < 40; ++i)
        ASSERT_EQ(buffer.read(i * 8 * block, bytes, disk_bytes), Errc::ok);
    EXPECT_EQ(buffer.figures().dirty_blocks, 1u) << "a clean extent is cheaper to lose";
    const u64 loads = buffer.figures().loads;
    ASSERT_EQ(buffer.read(39 * 8 * block, bytes, disk_bytes), Errc::ok);
    EXPECT_EQ(buffer.figures().loads, loads) << "what was used last is gone";
}

TEST(FileBuffer, keepsWhatIsReadAgainAndAgain) {
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    Bytes bytes(block);
    for (u64 i = 0; i < 200; ++i) {
        ASSERT_EQ(buffer.read(0, bytes, disk_bytes), Errc::ok);
        ASSERT_EQ(buffer.read((i + 1) * 8 * block, bytes, disk_bytes), Errc::ok);
    }
    EXPECT_EQ(buffer.figures().loads, 201u) << "what is used all the time went";
}

TEST(FileBuffer, dropsNothingWhenTheDiskFails) {
    const Seed seed;
    Random random(seed.value());
    MemoryDisk disk(disk_bytes);
    FaultDisk faults(disk);
    FileBuffer buffer(faults, smallest());
    Bytes source(20 * block), found(source.size());
    fill(source, random);
    ASSERT_EQ(buffer.write(block, source), Errc::ok);
    for (u64 nth = 1; nth < 4; ++nth) {
        faults.set_plan({.reads = false, .nth = nth});
        const Errc told = buffer.write_back();
        EXPECT_EQ(told, faults.failed_count() > 0 ? Errc::io : Errc::ok);
        faults.set_plan({});
        ASSERT_EQ(buffer.read(block, found, disk_bytes), Errc::ok);
        EXPECT_EQ(found, source);
    }
    faults.set_plan({.writes = false, .nth = 1});
    EXPECT_EQ(buffer.read(4 * mib, found, disk_bytes), Errc::io);
    faults.set_plan({});
    ASSERT_EQ(buffer.read(4 * mib, found, disk_bytes), Errc::ok) << "an error must not stay";
    ASSERT_EQ(buffer.write_back(), Errc::ok);
    ASSERT_EQ(disk.read(block, found), Errc::ok);
    EXPECT_EQ(found, source);
}

TEST(FileBuffer, writesWholeBlocksToTheDiskIfThereIsNoMemory) {
    const Bytes source(20 * block, std::byte{9});
    u64 past = 0;
    bool has_failed = true;
    for (u64 nth = 1; has_failed; ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth << " fails");
        MemoryDisk disk(disk_bytes);
        FileBuffer buffer(disk, smallest());
        Bytes found(source.size());
        ASSERT_EQ(buffer.read(8 * block, std::span(found).first(block), 9 * block), Errc::ok);
        {
            const FailingAllocation failing(nth);
            ASSERT_EQ(buffer.write(block, source), Errc::ok);
            has_failed = failing.has_failed();
        }
        past += 20 - buffer.figures().dirty_blocks;
        ASSERT_EQ(buffer.read(block, found, disk_bytes), Errc::ok);
        EXPECT_EQ(found, source);
        ASSERT_EQ(buffer.write_back(), Errc::ok);
        ASSERT_EQ(disk.read(block, found), Errc::ok);
        EXPECT_EQ(found, source);
    }
    EXPECT_GT(past, 20u);
}

/// Lets the buffer load old bytes of a block just before that block is written.
class LateWriteDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc write(u64 offset, std::span<const std::byte> source) override {
        Bytes old(block);
        EXPECT_EQ(buffer->read(4 * block, old, 5 * block), Errc::ok);
        return below().write(offset, source);
    }
    FileBuffer* buffer = nullptr;
};

TEST(FileBuffer, keepsNoOldBytesThatAReaderLoadsMeanwhile) {
    MemoryDisk disk(disk_bytes);
    LateWriteDisk late(disk);
    FileBuffer buffer(late, smallest());
    late.buffer = &buffer;
    const Bytes source(6 * block, std::byte{9});
    {
        const FailingAllocation failing(1);
        ASSERT_EQ(buffer.write(block, source), Errc::ok);
        ASSERT_TRUE(failing.has_failed());
    }
    EXPECT_EQ(buffer.figures().loaded_blocks, 1u) << "nothing was written to the disk at once";
    Bytes found(source.size());
    ASSERT_EQ(buffer.read(block, found, disk_bytes), Errc::ok);
    EXPECT_EQ(found, source);
}

TEST(FileBuffer, tellsWhoWritesThatNothingCanMakeRoom) {
    MemoryDisk disk(disk_bytes);
    FaultDisk faults(disk);
    FileBuffer buffer(faults, smallest());
    faults.set_plan({.reads = false, .nth = 1});
    Bytes source(block, std::byte{9});
    Errc told = Errc::ok;
    u64 kept = 0;
    for (; told == Errc::ok && kept < 200; ++kept)
        told = buffer.write(kept * 2 * block, source);
    EXPECT_EQ(told, Errc::io);
    faults.set_plan({});
    ASSERT_EQ(buffer.write_back(), Errc::ok);
    Bytes found(block);
    for (u64 i = 0; i < kept; ++i) {
        ASSERT_EQ(disk.read(i * 2 * block, found), Errc::ok);
        EXPECT_EQ(found, source) << "block " << i << " was dropped";
    }
}

TEST(FileBuffer, readersGoOnAndNothingIsLostWhileTheDiskTakesNothing) {
    MemoryDisk disk(disk_bytes);
    const Bytes behind(4 * mib, std::byte{3});
    ASSERT_EQ(disk.write(4 * mib, behind), Errc::ok);
    FaultDisk faults(disk);
    FileBuffer buffer(faults, smallest());
    faults.set_plan({.reads = false, .nth = 1});
    const Bytes source(block, std::byte{9});
    u64 kept = 0;
    while (kept < 200 && buffer.write(kept * 2 * block, source) == Errc::ok)
        ++kept;
    ASSERT_LT(kept, 200u);
    Bytes found(4 * block);
    u64 most_blocks = 0;
    for (u64 at = 0; at < behind.size(); at += found.size()) {
        ASSERT_EQ(buffer.read(4 * mib + at, found, disk_bytes), Errc::ok);
        ASSERT_EQ(found, Bytes(found.size(), std::byte{3}));
        most_blocks = std::max(most_blocks, buffer.figures().blocks);
    }
    // Only dirty blocks and blocks that a reader is using may exceed the limit.
    EXPECT_LE(most_blocks, 2 * FileBuffer::size_bytes_min / block);
    found.resize(block);
    for (u64 i = 0; i < kept; ++i) {
        ASSERT_EQ(buffer.read(i * 2 * block, found, disk_bytes), Errc::ok);
        EXPECT_EQ(found, source) << "block " << i;
    }
    faults.set_plan({});
    ASSERT_EQ(buffer.write_back(), Errc::ok);
    for (u64 i = 0; i < kept; ++i) {
        ASSERT_EQ(disk.read(i * 2 * block, found), Errc::ok);
        EXPECT_EQ(found, source) << "block " << i << " was dropped";
    }
}

TEST(FileBuffer, givesAJournalWhatIsDirtyAndKeepsItUntilItIsOnTheDisk) {
    MemoryDisk disk(disk_bytes);
    FileBufferShape shape = smallest();
    shape.writes_itself = false;
    shape.room_blocks = 10;
    FileBuffer buffer(disk, shape);
    ASSERT_EQ(buffer.take_room(10), Errc::ok);
    EXPECT_EQ(buffer.take_room(1), Errc::need_commit);
    Bytes bytes(3 * block, std::byte{5});
    ASSERT_EQ(buffer.write(100, bytes), Errc::ok);  // four blocks in part
    buffer.give_back_room(10);
    EXPECT_EQ(buffer.take_room(7), Errc::need_commit);
    std::vector<u64> places;
    buffer.log_dirty([&](u64 place, const format::Block& content) {
        places.push_back(place / block);
        EXPECT_EQ(content.words[place == 0 ? 100 : 5], 0x0505050505050505u);
        return place != 2 * block;
    });
    EXPECT_EQ(places, (std::vector<u64>{0, 1, 2, 3}));
    EXPECT_EQ(buffer.take_room(10), Errc::ok);
    // Readers cannot evict blocks that are logged.
    Bytes one(block);
    for (u64 i = 100; i < 300; i += 2)
        ASSERT_EQ(buffer.read(i * block, one, (i + 1) * block), Errc::ok);
    ASSERT_EQ(buffer.read(block, one, 2 * block), Errc::ok);
    EXPECT_EQ(one[7], std::byte{5}) << "the disk has no such bytes: it came from memory";
    buffer.end_logged();
    for (u64 i = 100; i < 300; i += 2)
        ASSERT_EQ(buffer.read(i * block, one, (i + 1) * block), Errc::ok);
    ASSERT_EQ(buffer.read(block, one, 2 * block), Errc::ok);
    EXPECT_EQ(one[7], std::byte{0}) << "nobody wrote it to the disk, and it went";
}

TEST(FileBuffer, forgetsBlocksThatAreFree) {
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    Bytes bytes(6 * block, std::byte{5});
    ASSERT_EQ(buffer.write(0, bytes), Errc::ok);
    buffer.forget(block, 2 * block);
    EXPECT_EQ(buffer.figures().dirty_blocks, 4u);
    buffer.forget(0, 100 * block);
    EXPECT_EQ(buffer.figures().dirty_blocks, 0u);
    EXPECT_EQ(buffer.figures().blocks, 0u);
}

TEST(FileBuffer, writesNothingThatNobodyWants) {
    MemoryDisk disk(disk_bytes);
    u64 wanted_from = 0;
    FileBufferShape shape = smallest();
    shape.is_wanted = [&](u64 place) { return place >= wanted_from; };
    FileBuffer buffer(disk, shape);
    ASSERT_EQ(buffer.write(0, Bytes(4 * block, std::byte{5})), Errc::ok);
    wanted_from = 2 * block;
    buffer.keep_all();
    EXPECT_EQ(buffer.figures().dropped_blocks, 2u);
    EXPECT_EQ(buffer.figures().dirty_blocks, 2u);
    // Until let_drop() all is written, here by a writer that exceeds the dirty and memory limits.
    wanted_from = disk_bytes;
    const Bytes much(2 * FileBuffer::size_bytes_min, std::byte{6});
    ASSERT_EQ(buffer.write(4 * block, much), Errc::ok);
    ASSERT_EQ(buffer.write_back(), Errc::ok);
    EXPECT_EQ(buffer.figures().dropped_blocks, 2u);
    Bytes found(4 * block);
    ASSERT_EQ(disk.read(0, found), Errc::ok);
    Bytes expected(4 * block, std::byte{5});
    std::ranges::fill(std::span(expected).first(2 * block), std::byte{0});
    EXPECT_TRUE(found == expected);
    buffer.let_drop();
    // From here on nothing is.
    const u64 written = buffer.figures().written_blocks;
    ASSERT_EQ(buffer.write(0, much), Errc::ok);
    EXPECT_EQ(buffer.figures().written_blocks, written);
    // Another file takes the block addresses again.
    wanted_from = 0;
    const Bytes other(2 * FileBuffer::size_bytes_min, std::byte{7});
    ASSERT_EQ(buffer.write(0, other), Errc::ok);
    ASSERT_EQ(buffer.write_back(), Errc::ok);
    found.resize(other.size());
    ASSERT_EQ(disk.read(0, found), Errc::ok);
    EXPECT_TRUE(found == other);
}

TEST(FileBuffer, concurrentReadersUseWhatTheyLoad) {
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    constexpr u64 threads = 16;
    constexpr u64 own = disk_bytes / threads;  // of each as much as the buffer takes, and more
    std::vector<std::thread> executor;
    for (u64 t = 0; t < threads; ++t) {
        executor.emplace_back([&, t] {
            Bytes bytes(own);
            EXPECT_EQ(buffer.read(t * own, bytes, disk_bytes), Errc::ok);
        });
    }
    for (std::thread& one : executor)
        one.join();
    // The last load of a thread may reach into the range of the next thread.
    EXPECT_LE(buffer.figures().loaded_blocks, disk_bytes / block + threads * 8);
}

using Words = std::array<u64, block / sizeof(u64)>;

TEST(FileBuffer, concurrentReadersSeeNothingOlderThanWhatWasWritten) {
    const Seed seed;
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    constexpr u64 blocks = 160;  // more than the buffer takes
    constexpr u64 readers_count = 4;
    // All five callers may exceed the limit by an extent.
    constexpr u64 most_blocks = FileBuffer::size_bytes_min / block + (readers_count + 1) * 8;
    std::array<std::atomic<u64>, blocks> written{};
    std::atomic<u64> reads{0};
    std::atomic<bool> is_over{false};
    std::vector<std::thread> readers;
    for (u64 t = 0; t < readers_count; ++t) {
        readers.emplace_back([&, t] {
            Random random(seed.part(t));
            Words words{};
            while (!is_over.load() && !testing::Test::HasFailure()) {
                const u64 at = random.one_in(4) ? random.below(blocks) : t;
                const u64 before = written[at].load();
                ASSERT_EQ(buffer.read(at * block, std::as_writable_bytes(std::span(words)),
                                      blocks * block),
                          Errc::ok);
                ASSERT_TRUE(std::ranges::all_of(words, [&](u64 one) { return one == words[0]; }));
                ASSERT_GE(words[0], before) << "block " << at;
                ASSERT_LE(words[0], written[at].load() + 1) << "block " << at;
                // Not on each access: it takes the lock that a hit must do without.
                if (reads.fetch_add(1) % 64 == 0) {
                    ASSERT_LE(buffer.figures().blocks, most_blocks);
                }
            }
        });
    }
    Random random(seed.part(readers_count));
    Words words{};
    for (u64 version = 1; reads < 20'000 * test_load() && !testing::Test::HasFailure(); ++version) {
        words.fill(version);
        for (u64 at = 0; at < blocks; ++at) {
            EXPECT_EQ(buffer.write(at * block, std::as_bytes(std::span(words))), Errc::ok);
            written[at].store(version);
        }
        EXPECT_EQ(random.one_in(8) ? buffer.write_back() : Errc::ok, Errc::ok);
    }
    is_over.store(true);
    for (std::thread& one : readers)
        one.join();
}

TEST(FileBuffer, concurrentReadersMayFindWhatIsForgotten) {
    const Seed seed;
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    constexpr u64 blocks = 64;
    for (u64 at = 0; at < blocks; ++at)
        ASSERT_EQ(disk.write(at * block, Bytes(block, static_cast<std::byte>(at))), Errc::ok);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> readers;
    for (u64 t = 0; t < 4; ++t) {
        readers.emplace_back([&, t] {
            Random random(seed.part(t));
            Bytes bytes(block);
            while (!is_over.load() && !testing::Test::HasFailure()) {
                const u64 at = random.below(blocks);
                ASSERT_EQ(buffer.read(at * block, bytes, blocks * block), Errc::ok);
                ASSERT_EQ(bytes, Bytes(block, static_cast<std::byte>(at)));
            }
        });
    }
    Random random(seed.part(4));
    while (buffer.figures().loads < 300 * test_load() && !testing::Test::HasFailure()) {
        // The contents stay the same: the block is loaded anew, elsewhere in memory.
        const u64 at = random.below(blocks);
        buffer.forget(at * block, random.below(24) * block);
    }
    is_over.store(true);
    for (std::thread& one : readers)
        one.join();
}

TEST(FileBuffer, aHitDoesNotWaitForTheTable) {
    MemoryDisk disk(disk_bytes);
    std::binary_semaphore is_asked(0);
    std::binary_semaphore may_answer(0);
    FileBufferShape shape = smallest();
    shape.is_wanted = [&](u64) {  // with the table locked
        is_asked.release();
        may_answer.acquire();
        return true;
    };
    FileBuffer buffer(disk, shape);
    Bytes bytes(block);
    ASSERT_EQ(buffer.read(0, bytes, block), Errc::ok);
    ASSERT_EQ(buffer.write(1 * mib, Bytes(block, std::byte{5})), Errc::ok);
    std::thread keeper([&] { buffer.keep_all(); });
    is_asked.acquire();
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(buffer.read(0, bytes, block), Errc::ok);
    may_answer.release();
    keeper.join();
    EXPECT_EQ(buffer.figures().loads, 1u);
}

/// A disk on which every read waits until the test releases it.
class SlowDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc read(u64 offset, std::span<std::byte> target) override {
        if (is_slow.load()) {
            began.release();
            goes_on.acquire();
        }
        return below().read(offset, target);
    }

    std::atomic<bool> is_slow{false};
    std::counting_semaphore<> began{0};
    std::counting_semaphore<> goes_on{0};
};

TEST(FileBuffer, aHitDoesNotWaitForAMiss) {
    MemoryDisk memory(disk_bytes);
    SlowDisk disk(memory);
    FileBuffer buffer(disk, smallest());
    Bytes bytes(block);
    ASSERT_EQ(buffer.read(0, bytes, block), Errc::ok);
    disk.is_slow = true;
    std::thread misser([&] {
        Bytes own(block);
        EXPECT_EQ(buffer.read(1 * mib, own, 1 * mib + block), Errc::ok);
    });
    std::thread second([&] {  // for the same block: waits for that one load
        disk.began.acquire();
        disk.began.release();
        Bytes own(block);
        EXPECT_EQ(buffer.read(1 * mib, own, 1 * mib + block), Errc::ok);
    });
    disk.began.acquire();
    disk.began.release();
    // The disk is blocked. Hits and writes return all the same.
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(buffer.read(0, bytes, block), Errc::ok);
        ASSERT_EQ(buffer.write(block * 4, bytes), Errc::ok);
    }
    EXPECT_EQ(buffer.figures().loads, 1u);
    disk.is_slow = false;
    disk.goes_on.release(2);
    misser.join();
    second.join();
    EXPECT_EQ(buffer.figures().loads, 2u) << "one load serves all who wait for it";
}

}  // namespace
}  // namespace warren::file_buffer_test

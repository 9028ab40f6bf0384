// SPDX-License-Identifier: Apache-2.0
// What a commit frees, beside operations that take something new.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"
#include "tests/support/watched_disk.hpp"

namespace warren::reuse_test {
namespace {

std::vector<std::byte> bytes_of(char letter) {
    return std::vector<std::byte>(256 * kib, static_cast<std::byte>(letter));
}

/// Blocks that are freed during a commit. On disk that commit still has them in use, so nothing may
/// write to them before the next commit has freed them: after a power cut the old file would show
/// the new one's bytes, and the blocks freed by a commit are discarded when it is durable, whatever
/// has been written there.
TEST(Reuse, whatIsFreedDuringItsCommitWaitsForTheNext) {
    const std::unique_ptr<MemoryDisk> disk = make_memory_disk(64 * mib);
    WatchedDisk watched(*disk);
    // The commit of another engine waits until data in flight have been written.
    const std::unique_ptr<Volume> volume = open_on(watched, {.engine = EngineChoice::cpu});
    const Handle root = volume->root();
    const Handle old_file = volume->create(anybody, root, "old", {.open = true})->handle;
    ASSERT_TRUE(volume->write(old_file, 0, bytes_of('o')));
    ASSERT_EQ(volume->release(old_file), Errc::ok);
    const Handle new_file = volume->create(anybody, root, "new", {.open = true})->handle;

    std::promise<void> written;
    std::promise<void> committed;
    std::thread writer;
    std::atomic<bool> is_first{true};
    watched.after_write = [&](std::span<const std::byte> source) {
        const bool is_new_data = source.front() == std::byte{'n'} && source.size() == 256 * kib;
        if (is_new_data) {
            written.set_value();
            committed.get_future().wait();
        } else if (is_first.exchange(false)) {
            EXPECT_EQ(volume->unlink(anybody, root, "old"), Errc::ok);
            writer = std::thread([&] { EXPECT_TRUE(volume->write(new_file, 0, bytes_of('n'))); });
            written.get_future().wait();
        }
    };
    EXPECT_EQ(volume->sync(), Errc::ok);  // holds what "old" used
    EXPECT_EQ(volume->sync(), Errc::ok);  // frees it
    committed.set_value();
    writer.join();

    std::vector<std::byte> found(256 * kib);
    ASSERT_TRUE(volume->read(new_file, 0, found));
    EXPECT_EQ(found, bytes_of('n'));
    EXPECT_EQ(volume->release(new_file), Errc::ok);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

/// Creates files 0 to count - 1 in `directory` by one call.
std::vector<Handle> create_files(Volume& volume, Handle directory, u64 count) {
    std::vector<std::string> names;
    for (u64 i = 0; i < count; ++i)
        names.push_back("file" + std::to_string(i));
    std::vector<Creation> creations;
    for (const std::string& name : names)
        creations.push_back({directory, name, {}});
    std::vector<Result<Attributes>> made(count);
    volume.create_many(anybody, creations, made);
    std::vector<Handle> files;
    for (const Result<Attributes>& one : made) {
        EXPECT_TRUE(one);
        if (one) files.push_back(one->handle);
    }
    return files;
}

/// The first frame of inodes is full, and a search has found it so; the second is freed.
TEST(Reuse, aBatchFindsThatNoFrameHasRoomForInodes) {
    const std::unique_ptr<MemoryDisk> disk = make_memory_disk(64 * mib);
    Failure failure;
    const std::unique_ptr<Volume> volume =
        open_on_engine(std::make_unique<FaultDisk>(*disk), engine_of_its_own(), {}, failure);
    ASSERT_TRUE(volume) << failure.message;
    const Handle full = make_directory(*volume, volume->root(), "full");
    const Handle directory = make_directory(*volume, volume->root(), "directory");
    constexpr u64 in_frame = format::inodes_per_frame - format::inodes_per_block;
    create_files(*volume, full, in_frame - volume->statistics().inodes_used);
    const Result<Attributes> second = volume->create(anybody, directory, "second", {});
    ASSERT_TRUE(second);
    ASSERT_NE(second->handle.inode / format::inodes_per_frame,
              full.inode / format::inodes_per_frame);
    ASSERT_EQ(volume->unlink(anybody, directory, "second"), Errc::ok);
    ASSERT_EQ(volume->sync(), Errc::ok);
    ASSERT_EQ(volume->sync(), Errc::ok);

    for (const Handle file : create_files(*volume, directory, 20))
        EXPECT_TRUE(volume->attributes(file)) << file.inode;
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

/// One thread creates and removes files whose numbers lie in the second frame of inodes; another
/// commits all the time, which frees that frame whenever it is empty.
TEST(Reuse, aFrameInWhichABatchTakesNumbersIsNotFreed) {
    const Seed seed;
    MemoryVolume volume(256 * mib);
    const Handle full = make_directory(*volume, volume->root(), "full");
    const std::vector<Handle> first =
        create_files(*volume, full, format::inodes_per_frame - format::inodes_per_block - 4);
    const Deadline deadline(std::chrono::milliseconds(2000 * test_load()));
    std::atomic<u64> commits{0};
    std::atomic<u64> frames_freed{0};
    const Handle directory = make_directory(*volume, volume->root(), "replaced");
    const auto replace_files = [&](Random& random) {
        for (u64 round = 0; !deadline.is_over() && !testing::Test::HasFailure(); ++round) {
            if (round % 4 == 1) {
                for (const u64 seen = commits; commits < seen + 2 && !deadline.is_over();)
                    std::this_thread::yield();
            } else {
                std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
            }
            const u64 count = round % 4 == 3 ? 2000 : 20;
            for (const Handle file : create_files(*volume, directory, count))
                EXPECT_TRUE(volume->attributes(file)) << file.inode;
            for (u64 i = 0; i < count; ++i)
                EXPECT_EQ(volume->unlink(anybody, directory, "file" + std::to_string(i)), Errc::ok);
        }
    };
    const auto commit = [&](Random&) {
        while (!deadline.is_over()) {
            const u64 before = volume->statistics().blocks_free;
            EXPECT_EQ(volume->sync(), Errc::ok);
            const u64 after = volume->statistics().blocks_free;
            ++commits;
            if (after >= before + format::blocks_per_frame / 2) ++frames_freed;
        }
    };
    run_executor(seed.value(), {replace_files, commit});
    EXPECT_GT(frames_freed, 0u);
    for (const Handle file : first)
        EXPECT_TRUE(volume->attributes(file)) << file.inode;
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::reuse_test

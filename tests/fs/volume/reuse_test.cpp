// SPDX-License-Identifier: Apache-2.0
// Blocks that are freed during a commit. On disk that commit still has them in use, so nothing may
// write to them before the next commit has freed them: after a power cut the old file would show
// the new one's bytes, and the blocks freed by a commit are discarded when it is durable, whatever
// has been written there.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"
#include "tests/support/watched_disk.hpp"

namespace warren::reuse_test {
namespace {

std::vector<std::byte> bytes_of(char letter) {
    return std::vector<std::byte>(256 * kib, static_cast<std::byte>(letter));
}

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

}  // namespace
}  // namespace warren::reuse_test

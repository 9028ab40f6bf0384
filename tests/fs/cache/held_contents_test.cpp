// SPDX-License-Identifier: Apache-2.0
// A file buffer in pinned memory, and contents that a caller holds where they are.
#include "warren/held_contents.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "fs/cache/file_buffer.hpp"
#include "tests/fs/cache/file_buffer_model.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren::held_contents_test {
namespace {

using namespace file_buffer_model;

/// Memory that counts as pinned.
PinRange pin_nothing() {
    return [](void* at, u64) -> std::shared_ptr<void> { return {at, [](void*) {}}; };
}

TEST(HeldContents, agreeWithAModelInPinnedMemory) {
    FileBufferShape shape = smallest();
    shape.pin = pin_nothing();
    shape.hint_blocks = 1;
    expect_as_model(shape);
}

TEST(HeldContents, stayAsTheyAre) {
    MemoryDisk disk(disk_bytes);
    ASSERT_EQ(disk.write(0, Bytes(64 * block, std::byte{1})), Errc::ok);
    FileBufferShape shape = smallest();
    shape.pin = pin_nothing();
    FileBuffer buffer(disk, shape);
    HeldContents held;
    ASSERT_EQ(buffer.hold(3 * block + 16, 100, 8 * block, held), Errc::ok);
    EXPECT_TRUE(held.is_pinned());
    const Bytes ones(100, std::byte{1});
    const auto is_as_before = [&] { return std::ranges::equal(held.bytes(), ones); };
    ASSERT_TRUE(is_as_before());
    std::atomic<bool> is_written{false};
    std::thread writer([&] {
        EXPECT_EQ(buffer.write(3 * block, Bytes(block, std::byte{2})), Errc::ok);
        is_written = true;
    });
    // Whatever else is read, it is not evicted.
    Bytes bytes(block);
    for (u64 at = 8; at < disk_bytes / block; ++at)
        ASSERT_EQ(buffer.read(at * block, bytes, (at + 1) * block), Errc::ok);
    EXPECT_TRUE(is_as_before());
    EXPECT_FALSE(is_written);
    held.release();
    writer.join();
    ASSERT_EQ(buffer.hold(3 * block, block, 8 * block, held), Errc::ok);
    EXPECT_EQ(held.bytes().front(), std::byte{2});
    HeldContents moved = std::move(held);
    EXPECT_EQ(moved.bytes().size(), block);
}

TEST(HeldContents, areGivenWithoutWaiting) {
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, smallest());
    std::vector<HeldContents> held;
    Errc code = Errc::ok;
    for (u64 at = 0; code == Errc::ok; ++at) {
        ASSERT_LT(at, 2 * FileBuffer::size_bytes_min / block);
        held.emplace_back();
        code = buffer.hold(at * block, block, (at + 1) * block, held.back());
    }
    EXPECT_EQ(code, Errc::busy);  // it is the only user of all extents
    EXPECT_FALSE(held.front().is_pinned());
    held.clear();
    Bytes bytes(block);
    EXPECT_EQ(buffer.read(100 * block, bytes, 101 * block), Errc::ok);
}

/// Where each block has a hint, those of a run do not share them: nothing that was found once is
/// looked up in the table, which a thread has locked here.
TEST(HeldContents, areFoundByHints) {
    constexpr u64 blocks = 512;
    MemoryDisk disk(disk_bytes);
    std::binary_semaphore is_asked(0);
    std::binary_semaphore may_answer(0);
    FileBufferShape shape;
    shape.size_bytes = 2 * blocks * block;
    shape.hint_blocks = 1;
    shape.is_wanted = [&](u64) {  // with the table locked
        is_asked.release();
        may_answer.acquire();
        return true;
    };
    FileBuffer buffer(disk, shape);
    const auto find_all = [&] {
        HeldContents held;
        for (u64 at = 0; at < blocks; ++at)
            EXPECT_EQ(buffer.hold(at * block, block, blocks * block, held), Errc::ok);
    };
    find_all();
    ASSERT_EQ(buffer.write(4 * mib + block, Bytes(block, std::byte{5})), Errc::ok);
    std::thread keeper([&] { buffer.keep_all(); });
    is_asked.acquire();
    std::promise<void> found;
    std::thread reader([&] {
        find_all();
        found.set_value();
    });
    const auto status = found.get_future().wait_for(std::chrono::seconds(20));
    may_answer.release();
    keeper.join();
    reader.join();
    EXPECT_EQ(status, std::future_status::ready);
}

}  // namespace
}  // namespace warren::held_contents_test

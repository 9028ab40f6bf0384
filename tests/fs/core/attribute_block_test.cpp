// SPDX-License-Identifier: Apache-2.0
// Readers of an attribute block hold no lock: whatever a concurrent writer does, a read of the
// block terminates and stays within the block.
#include "fs/core/attribute_block.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/watchdog.hpp"

namespace warren::core::attribute_block_test {
namespace {

void append(AttributeBlock& block, const std::string& name, u32 value_length) {
    const std::byte value[64]{};
    append_record(block, name.data(), static_cast<u32>(name.size()), value, value_length);
}

TEST(AttributeBlock, IsLookedAtInAWritersWay) {
    Watchdog watchdog;
    watchdog.begin("a look at an attribute block that is written meanwhile");
    const auto block = std::make_unique<AttributeBlock>();
    append(*block, "first", 3);
    append(*block, "second", 40);
    append(*block, "third", 0);
    EXPECT_TRUE(records_are_sound(*block));
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
        for (u32 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
            erase_record(*block, record_at(*block, 0));
            append(*block, "name" + std::to_string(i), i % 41);
        }
    });
    u32 sound = 0;
    for (u32 looks = 0; looks < 1'000'000; ++looks)
        sound += records_are_sound(*block) ? 1 : 0;
    is_over.store(true, std::memory_order_relaxed);
    writer.join();
    EXPECT_GT(sound, 0u);
    EXPECT_TRUE(records_are_sound(*block));
}

}  // namespace
}  // namespace warren::core::attribute_block_test

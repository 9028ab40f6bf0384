// SPDX-License-Identifier: Apache-2.0
// A directory whose names are removed in the order of its tree keeps its keys in order: whole nodes
// are freed, the first child of an inner node among them, and new names may use their key ranges.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::prune_order_test {
namespace {

constexpr u64 names_count = is_sanitized ? 25'000 : 60'000;  // several nodes below the root

/// The names of the root in the order of its tree.
std::vector<std::string> in_order(Volume& volume) {
    std::vector<std::string> names;
    const Errc code = volume.read_directory(volume.root(), 0, [&](const DirectoryEntry& entry) {
        names.emplace_back(entry.name);
        return true;
    });
    EXPECT_EQ(code, Errc::ok);
    return names;
}

TEST(PruneOrder, namesThatGoAndComeInTheOrderOfTheirKeysKeepATreeInOrder) {
    MemoryVolume volume(64 * mib, {.workers = 2});
    const u64 free_blocks = volume->statistics().blocks_free;
    for (u64 i = 0; i < names_count; ++i)
        ASSERT_TRUE(volume->create(anybody, volume->root(), std::to_string(i), {}));
    const std::vector<std::string> names = in_order(*volume);
    ASSERT_EQ(names.size(), names_count);
    for (const u64 percent : {20, 50, 80, 99}) {
        SCOPED_TRACE(percent);
        const u64 gone = names_count * percent / 100;
        for (u64 i = 0; i < gone; ++i)
            ASSERT_EQ(volume->unlink(anybody, volume->root(), names[i]), Errc::ok);
        volume.close_and_check();
        volume.open();
        EXPECT_EQ(in_order(*volume).size(), names_count - gone);
        // The same keys again: they lie before all remaining ones.
        for (u64 i = gone; i-- > 0;)
            ASSERT_TRUE(volume->create(anybody, volume->root(), names[i], {}));
        EXPECT_EQ(in_order(*volume), names);
        for (const std::string& name : names)
            ASSERT_TRUE(volume->lookup(anybody, volume->root(), name)) << name;
        volume.close_and_check();
        volume.open();
    }
    for (const std::string& name : names)
        ASSERT_EQ(volume->unlink(anybody, volume->root(), name), Errc::ok);
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(volume->statistics().blocks_free, free_blocks);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::prune_order_test

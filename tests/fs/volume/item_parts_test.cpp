// SPDX-License-Identifier: Apache-2.0
// The rows and parts in which many items are executed, checked with random items.
#include "fs/volume/item_parts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/support/seed.hpp"

namespace warren::item_parts_test {
namespace {

using Name = std::pair<u64, std::string_view>;

std::set<Name> names_of(const Move& one) {
    return {{one.from.inode, one.name}, {one.to.inode, one.new_name}};
}

TEST(ItemParts, ARowEndsWhereANameComesAgain) {
    const Seed seed;
    std::mt19937_64 random(seed.value());
    std::vector<std::string> names;
    for (u32 i = 0; i < 60; ++i)
        names.push_back("name-" + std::to_string(i));
    for (const u64 count : {0u, 1u, 7u, 1000u, 150'000u}) {
        std::vector<Move> moves(count);
        for (Move& one : moves) {
            one.from.inode = 1 + random() % 300;
            one.to.inode = 1 + random() % 300;
            one.name = names[random() % names.size()];
            one.new_name = names[random() % names.size()];
        }
        u64 at = 0;
        for_each_distinct(std::span<const Move>(moves), [&](u64 begin, u64 length) {
            ASSERT_EQ(begin, at);
            std::set<Name> taken;
            for (; at < begin + length; ++at) {
                for (const Name& name : names_of(moves[at]))
                    ASSERT_TRUE(taken.insert(name).second) << "item " << at;
            }
            if (at == count || at % 65536 == 0) return;
            bool comes_again = false;
            for (const Name& name : names_of(moves[at]))
                comes_again = comes_again || taken.contains(name);
            EXPECT_TRUE(comes_again) << "row of " << length << " before item " << at;
        });
        EXPECT_EQ(at, count);
    }
}

/// One directory, with enough items for each worker.
TEST(ItemParts, ItemsOfOneNameRunInTheirOrder) {
    const Seed seed;
    std::mt19937_64 random(seed.value());
    ThreadPool thread_pool(4);
    std::vector<std::string> names;
    for (u32 i = 0; i < 500; ++i)
        names.push_back("name-" + std::to_string(i));
    for (const u64 directories : {1u, 1000u}) {
        std::vector<Unlink> items(20'000);
        for (Unlink& one : items) {
            one.directory.inode = 1 + random() % directories;
            one.name = names[random() % names.size()];
        }
        std::atomic<u64> clock{0};
        std::vector<u64> times(items.size());
        run_in_parts(thread_pool, std::span<const Unlink>(items), [&](u64 i) {
            EXPECT_EQ(times[i], 0u) << "item " << i << " runs twice";
            times[i] = ++clock;
        });
        EXPECT_EQ(clock, items.size());
        std::map<Name, u64> last;
        for (u64 i = 0; i < items.size(); ++i) {
            u64& before = last[{items[i].directory.inode, items[i].name}];
            EXPECT_LT(before, times[i]) << "item " << i;
            before = times[i];
        }
    }
}

}  // namespace
}  // namespace warren::item_parts_test

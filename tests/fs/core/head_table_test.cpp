// SPDX-License-Identifier: Apache-2.0
// The heads of the meta buffer in isolation: a block is found by its address, counted while a
// thread uses it, and evicted only if no thread and no commit needs it, under any interleaving.
#include "fs/core/head_table.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/seed.hpp"

namespace warren::core::head_table_test {
namespace {

constexpr u64 block = format::block_size;

/// A table with few buckets, so that chains are long.
class Heads {
 public:
    explicit Heads(u32 count) : heads_(count), buckets_(4), dirty_(64) {
        for (Head& head : heads_)
            head.place = place_none;
        for (Bucket& bucket : buckets_)
            bucket.first = head_none;
        table_ = {count, 3, heads_.data(), buckets_.data(), nullptr};
    }
    const HeadTable& operator*() const { return table_; }
    const Head& at(u32 index) const { return heads_[index]; }
    bool evict(u32 index) { return evict_head(table_, index, dirty_.data()); }
    void set_dirty(u64 place, bool value) {
        const u64 bit = u64{1} << place / block % 64;
        u64& word = dirty_[place / block / 64];
        word = value ? word | bit : word & ~bit;
    }

 private:
    std::vector<Head> heads_;
    std::vector<Bucket> buckets_;
    std::vector<u64> dirty_;
    HeadTable table_{};
};

TEST(HeadTable, findsByPlaceAndCountsUsers) {
    Heads heads(16);
    for (u32 i = 0; i < 16; ++i) {
        EXPECT_EQ(link_head(*heads, i * block), head_none);
        insert_head(*heads, i, i * block);
        EXPECT_EQ(heads.at(i).links, 1u);
    }
    for (u32 i = 0; i < 16; ++i) {
        EXPECT_EQ(link_head(*heads, i * block), i);
        EXPECT_EQ(heads.at(i).links, 2u);
        unlink_head(*heads, i);
        unlink_head(*heads, i);
        EXPECT_EQ(heads.at(i).links, 0u);
    }
}

TEST(HeadTable, keepsWhatIsUsedAndWhatIsDirty) {
    Heads heads(16);
    for (u32 i = 0; i < 16; ++i)
        insert_head(*heads, i, i * block);
    EXPECT_FALSE(heads.evict(5)) << "it is linked";
    EXPECT_EQ(link_head(*heads, 5 * block), 5u);
    unlink_head(*heads, 5);
    EXPECT_FALSE(heads.evict(5)) << "it is linked once more";
    unlink_head(*heads, 5);
    heads.set_dirty(5 * block, true);
    EXPECT_FALSE(heads.evict(5)) << "a commit needs it";
    heads.set_dirty(5 * block, false);
    EXPECT_TRUE(heads.evict(5));
    EXPECT_EQ(link_head(*heads, 5 * block), head_none);
    EXPECT_EQ(heads.at(5).place, place_none);
    insert_head(*heads, 5, 77 * block);
    EXPECT_EQ(link_head(*heads, 77 * block), 5u);
    for (u32 i = 0; i < 16; ++i)
        EXPECT_EQ(i == 5 ? 5u : link_head(*heads, i * block), i) << "others lost their chain";
}

TEST(HeadTable, concurrentUsersNeverSeeAnotherPlace) {
    const Seed seed;
    constexpr u32 count = 8;
    constexpr u64 places = 32;
    Heads heads(count);
    std::mutex loading;  // as in MetaLoader: one block is put in at a time
    std::vector<std::thread> executor;
    for (u64 t = 0; t < 4; ++t) {
        executor.emplace_back([&, t] {
            Random random(seed.part(t));
            for (u64 i = 0; i < 3000 * test_load(); ++i) {
                const u64 place = random.below(places) * block;
                u32 index = link_head(*heads, place);
                if (index == head_none) {
                    const std::lock_guard lock(loading);
                    index = link_head(*heads, place);
                    for (u32 h = 0; index == head_none && h < count; ++h) {
                        if (heads.at(h).place != place_none && !heads.evict(h)) continue;
                        insert_head(*heads, h, place);
                        index = h;
                    }
                    if (index == head_none) continue;  // all are in use
                }
                EXPECT_EQ(heads.at(index).place, place) << "it was evicted under its user";
                unlink_head(*heads, index);
            }
        });
    }
    for (std::thread& one : executor)
        one.join();
    for (u32 h = 0; h < count; ++h)
        EXPECT_EQ(heads.at(h).links, 0u);
}

}  // namespace
}  // namespace warren::core::head_table_test

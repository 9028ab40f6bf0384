// SPDX-License-Identifier: Apache-2.0
// The worker pool that hashing and chunking share: every item is done once, whichever threads are
// awake.
#include "base/workers.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace warren::workers_test {
namespace {

TEST(Workers, ThreadsDoEveryItemOnce) {
    for (const u32 threads : {1u, 2u, 5u}) {
        Workers workers(threads);
        EXPECT_EQ(workers.threads(), threads);
        for (const u64 count : {0u, 1u, 7u, 1000u}) {
            std::vector<std::atomic<u32>> done(count);
            workers.run_ranges(count, 3, [&](u64 first, u64 last, u32 worker) {
                ASSERT_LT(worker, threads);
                for (u64 item = first; item < last; ++item)
                    done[item].fetch_add(1, std::memory_order_relaxed);
            });
            for (u64 item = 0; item < count; ++item)
                ASSERT_EQ(done[item].load(), 1u) << item << " of " << count;
        }
    }
}

TEST(Workers, ThreadsThatComeTooLateDoNotEnter) {
    Workers workers(4);
    for (int round = 0; round < 2000; ++round) {
        // The call's own variables: a thread that came later would access destroyed ones.
        std::atomic<u32> inside{0};
        std::vector<u32> entered(4);
        workers.run([&](u32 worker) {
            inside.fetch_add(1);
            ++entered[worker];
            inside.fetch_sub(1);
        });
        ASSERT_EQ(inside.load(), 0u);
        ASSERT_EQ(entered[0], 1u);
        for (const u32 times : entered)
            ASSERT_LE(times, 1u);
    }
}

TEST(Workers, ThreadsWorkAtTheSameTime) {
    for (const bool keeps : {false, true}) {
        std::atomic<u32> here{0};
        const auto meet = [&](u32) {
            here.fetch_add(1);
            const auto start = std::chrono::steady_clock::now();
            while (here.load() < 3 &&
                   std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
                std::this_thread::yield();
        };
        if (keeps) {
            Workers(3).run(meet);
        } else {
            run_once(3, meet);
        }
        EXPECT_EQ(here.load(), 3u);
    }
}

TEST(Workers, WhatOneThrowsComesOutWhenAllAreBack) {
    for (const bool keeps : {false, true}) {
        for (u32 thrower = 0; thrower < 3; ++thrower) {
            std::atomic<u32> inside{0};
            // All wait for each other, so that the thread that throws is among those awake.
            std::atomic<u32> here{0};
            const auto meet_and_throw = [&](u32 worker) {
                inside.fetch_add(1);
                here.fetch_add(1);
                while (here.load() < 3)
                    std::this_thread::yield();
                inside.fetch_sub(1);
                if (worker == thrower) throw std::bad_alloc();
            };
            Workers workers(3);
            if (keeps) {
                EXPECT_THROW(workers.run(meet_and_throw), std::bad_alloc);
            } else {
                EXPECT_THROW(run_once(3, meet_and_throw), std::bad_alloc);
            }
            EXPECT_EQ(inside.load(), 0u);
            std::atomic<u32> items{0};
            workers.run_ranges(10, 1, [&](u64, u64, u32) { items.fetch_add(1); });
            EXPECT_EQ(items.load(), 10u) << "the next call is as if nothing had been";
        }
    }
}

TEST(Workers, NoProcessorsNamedMeansAllUsable) {
    EXPECT_EQ(Workers(0).threads(), usable_processors());
}

}  // namespace
}  // namespace warren::workers_test

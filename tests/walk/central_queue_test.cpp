// SPDX-License-Identifier: Apache-2.0
// The queue of rank 0 against a stack of strings: whatever the limit, the youngest work batch comes
// first, and each is unchanged. Wherever the file fails, the queue names the leases that wait for a
// lost work batch.
#include "walk/central_queue.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <map>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "walk/failing_store.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk::central_queue_test {

namespace {

/// A work batch, and the number of results due for it to each lease.
struct Known {
    std::string batch;
    std::map<u64, u64> due;
    u64 items = 0;
};

void add_due(std::map<u64, u64>& all, const std::vector<CentralQueue::Due>& due) {
    for (const CentralQueue::Due& one : due)
        all[one.owner.lease] += one.results;
}

Known random_batch(Random& random) {
    Node* const root = Node::make(nullptr, "root", 0);
    WorkBatch batch;
    Known known;
    std::vector<Node*> nodes;
    const u64 leases = 1 + random.below(3);
    known.items = 1 + random.below(random.one_in(5) ? 400 : 6);
    for (u64 item = 0; item < known.items; ++item) {
        const u64 lease = u64{1} << lease_rank_shift | (1 + random.below(leases));
        Node* const node = Node::make(root, "name " + std::to_string(item), 0);
        EXPECT_TRUE(batch.begin_item(*node, 0));
        batch.add_item(*node, {Work::directory, {1, lease}, {}, {}, {}});
        ++known.due[lease];
        nodes.push_back(node);
    }
    known.batch = batch.take();
    for (Node* const node : nodes)
        Node::destroy(node);
    Node::destroy(root);
    return known;
}

std::vector<std::string> all_of(const CentralQueue& queue) {
    std::vector<std::string> all;
    EXPECT_EQ(queue.visit([&](std::string_view batch) { all.emplace_back(batch); }), Errc::ok);
    return all;
}

}  // namespace

TEST(CentralQueue, IsAStackWhateverTheLimit) {
    const Seed seed;
    for (const u64 limit : {u64{0}, u64{3000}, u64{30000}, 64 * mib}) {
        Random random(seed.part(limit));
        CentralQueue queue(limit);
        std::vector<Known> stack;
        u64 items = 0;
        bool has_spilled = false;
        // Alternates between mostly pushes and mostly pops.
        for (u32 step = 0; step < 3000 || !stack.empty(); ++step) {
            const bool grows = step < 3000 && (step / 300) % 2 == 0;
            if (step < 3000 && random.below(10) < (grows ? 8u : 3u)) {
                stack.push_back(random_batch(random));
                items += stack.back().items;
                ASSERT_EQ(queue.push(stack.back().batch), Errc::ok);
            } else if (!stack.empty()) {
                std::string batch;
                std::vector<CentralQueue::Due> lost;
                ASSERT_EQ(queue.pop(batch, lost), Errc::ok);
                ASSERT_EQ(batch, stack.back().batch);
                ASSERT_TRUE(lost.empty());
                items -= stack.back().items;
                stack.pop_back();
            }
            ASSERT_EQ(queue.items(), items);
            ASSERT_EQ(queue.work_batches(), stack.size());
            ASSERT_EQ(queue.is_empty(), stack.empty());
            has_spilled = has_spilled || queue.spilled_bytes() != 0;
            if (step % 500 != 0) continue;
            std::vector<std::string> expected;
            for (const Known& known : stack)
                expected.push_back(known.batch);
            ASSERT_EQ(all_of(queue), expected);
        }
        EXPECT_EQ(has_spilled, limit < 64 * mib);
        EXPECT_EQ(queue.spilled_bytes(), 0u);
    }
}

TEST(CentralQueue, TakesNoMoreMemoryThanItMay) {
    Random random(1);
    CentralQueue queue(256 * kib);
    const size_t before = ::mallinfo2().uordblks;
    u64 pushed = 0;
    u64 work_batches = 0;
    while (pushed < 8 * mib) {
        const std::string batch(random_batch(random).batch);
        pushed += batch.size();
        if (batch.size() < 2000) continue;
        ++work_batches;
        ASSERT_EQ(queue.push(batch), Errc::ok);
    }
    // A work batch in the file takes a few words of memory.
    EXPECT_LT(::mallinfo2().uordblks, before + 512 * kib + work_batches * 256);
    EXPECT_GT(queue.spilled_bytes(), 4 * mib);
}

TEST(CentralQueue, GivesBackTheRoomOfWhatItHasRead) {
    Random random(1);
    u64 calls = 0;
    auto owned = std::make_unique<FailingStore>(calls, 0);
    FailingStore& store = *owned;
    CentralQueue queue(0, std::move(owned));
    while (store.bytes().size() < 3 * mib)
        ASSERT_EQ(queue.push(random_batch(random).batch), Errc::ok);
    std::string batch;
    std::vector<CentralQueue::Due> lost;
    while (!queue.is_empty()) {
        ASSERT_EQ(queue.pop(batch, lost), Errc::ok);
        ASSERT_LE(store.bytes().size(), queue.spilled_bytes() + mib);
    }
}

TEST(CentralQueue, EveryFailureOfItsFileIsAnError) {
    const Seed seed;
    for (u64 failing = 1;; ++failing) {
        Random random(seed.value());
        u64 calls = 0;
        CentralQueue queue(1000, std::make_unique<FailingStore>(calls, failing));
        std::vector<Known> stack;
        u32 errors = 0;
        const auto pop = [&] {
            std::string batch;
            std::vector<CentralQueue::Due> lost;
            if (queue.pop(batch, lost) == Errc::ok) {
                EXPECT_EQ(batch, stack.back().batch);
                EXPECT_TRUE(lost.empty());
            } else {
                ++errors;
                std::map<u64, u64> due;
                add_due(due, lost);
                EXPECT_EQ(due, stack.back().due);
            }
            stack.pop_back();
        };
        for (u32 step = 0; step < 60; ++step) {
            if (step % 3 == 2) {
                pop();
                continue;
            }
            stack.push_back(random_batch(random));
            // The work batch is accepted all the same.
            if (queue.push(stack.back().batch) != Errc::ok) ++errors;
        }
        while (!queue.is_empty())
            pop();
        EXPECT_TRUE(stack.empty());
        EXPECT_EQ(queue.items(), 0u);
        if (calls < failing) {  // the first that meets no failure is the last
            EXPECT_EQ(errors, 0u);
            EXPECT_GT(failing, 20u);
            break;
        }
        EXPECT_EQ(errors, 1u) << "call " << failing;
        if (HasFailure()) return;
    }
}

TEST(CentralQueue, BytesThatHaveChangedAreAnError) {
    Random random(1);
    u64 calls = 0;
    auto owned = std::make_unique<FailingStore>(calls, 0);
    FailingStore& store = *owned;
    CentralQueue queue(0, std::move(owned));
    const Known known = random_batch(random);
    ASSERT_EQ(queue.push(known.batch), Errc::ok);
    store.bytes()[known.batch.size() / 2] ^= 1;
    EXPECT_EQ(queue.visit([](std::string_view) { ADD_FAILURE(); }), Errc::io);
    std::string batch;
    std::vector<CentralQueue::Due> lost;
    EXPECT_EQ(queue.pop(batch, lost), Errc::io);
    std::map<u64, u64> due;
    add_due(due, lost);
    EXPECT_EQ(due, known.due);
    EXPECT_TRUE(queue.is_empty());
}

}  // namespace warren::walk::central_queue_test

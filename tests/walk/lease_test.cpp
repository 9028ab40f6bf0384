// SPDX-License-Identifier: Apache-2.0
// Leases and results between ranks: all interleavings of small worlds (walk/lease_world.hpp), and
// very many random schedules of larger ones.
#include <gtest/gtest.h>

#include "support/seed.hpp"
#include "walk/explorer.hpp"
#include "walk/lease_world.hpp"

namespace warren::walk::lease_test {

namespace {

LeaseRules rules_named(const char* name) {
    LeaseRules rules;
    rules.scheduler = scheduler_named(name)->scheduler;
    return rules;
}

LeaseRules random_rules(Random& random) {
    LeaseRules rules;
    const SchedulerName& name = scheduler_names()[random.below(scheduler_names().size())];
    rules.scheduler = name.scheduler;
    rules.split = random.one_in(2) ? Split::half : Split::random;
    rules.node_of.resize(2 + random.below(4));
    for (u32& node : rules.node_of)
        node = static_cast<u32>(random.below(2));
    rules.level = static_cast<u32>(random.below(4));
    rules.parts = 1 + static_cast<u32>(random.below(3));
    rules.fanout = 1 + static_cast<u32>(random.below(rules.parts == 1 ? 3 : 2));
    return rules;
}

void run_schedules(u64 count) {
    const Seed seed;
    for (u64 part = 0; part < count; ++part) {
        Random random(seed.part(part));
        LeaseWorld world(random_rules(random));
        const bool may_abort = random.one_in(4);
        ASSERT_EQ(run_schedule(world, random.next(), may_abort), "") << "schedule " << part;
    }
}

}  // namespace

TEST(Lease, ADirectoryHasOneHoweverMuchOfItIsElsewhere) {
    Leases<u32> leases;
    const Owner first = leases.issue(3, 7);
    for (u32 piece = 1; piece < 1000; ++piece)
        EXPECT_EQ(leases.issue(3, 7), first);
    const Owner other = leases.issue(3, 8);
    EXPECT_NE(other, first);
    EXPECT_EQ(leases.out().size(), 2u);
    for (u32 piece = 0; piece < 1000; ++piece)
        EXPECT_EQ(leases.take_back(first.lease), 7u);
    EXPECT_EQ(leases.out().size(), 1u);
    EXPECT_NE(leases.issue(3, 7), first) << "that number is a thing of the past";
    // The lease of a resumed walk stands beside a new one of the same directory.
    leases.set(first.lease, {7, 1});
    EXPECT_EQ(leases.take_back(first.lease), 7u);
    EXPECT_EQ(leases.take_back(other.lease), 8u);
    EXPECT_EQ(leases.out().size(), 1u);
}

TEST(Lease, AllInterleavingsOfTwo) {
    for (const char* name : {"drqs", "cp", "cp-keep-one"}) {
        for (const bool aborts : {false, true}) {
            LeaseRules rules = rules_named(name);
            rules.node_of = {0, 0};
            rules.parts = 2;
            EXPECT_EQ(explore(LeaseWorld(rules), aborts).fault, "") << name;
        }
    }
}

TEST(Lease, AllInterleavingsOfThree) {
    for (const char* name : {"drqs", "cp", "h-drqs-batches"}) {
        LeaseRules rules = rules_named(name);
        rules.parts = 2;
        EXPECT_EQ(explore(LeaseWorld(rules), false).fault, "") << name;
    }
}

// Without the rank's debt in "passive" the walk ends before a result is back; with a new lease, the
// result of work that was passed on as a whole never returns to its owner.
TEST(Lease, TheExplorerSeesAForgottenDebt) {
    for (const Fault fault : {Fault::keeps_no_debt, Fault::issues_anew}) {
        LeaseRules rules = rules_named(fault == Fault::issues_anew ? "cp" : "drqs");
        rules.node_of = {0, 0};
        rules.parts = 2;
        rules.fault = fault;
        const std::string found = explore(LeaseWorld(rules), false).fault;
        EXPECT_NE(found, "");
        EXPECT_NE(found, "too many states");
    }
}

TEST(Lease, RandomSchedules) {
    run_schedules(1500 * test_load());
}

TEST(Lease, LongAllInterleavingsOfThree) {
    for (const char* name : {"drqs", "pa-drqs", "cp", "cp-keep-one"}) {
        LeaseRules rules = rules_named(name);
        EXPECT_EQ(explore(LeaseWorld(rules), true).fault, "") << name;
        rules.level = 2;
        EXPECT_EQ(explore(LeaseWorld(rules), false).fault, "") << name;
        rules.level = 1;
        rules.fanout = 2;
        EXPECT_EQ(explore(LeaseWorld(rules), false).fault, "") << name;
        rules.parts = 2;
        EXPECT_EQ(explore(LeaseWorld(rules), false).fault, "") << name;
    }
}

TEST(Lease, LongAllInterleavingsOfTwoNodesWithTwo) {
    for (const char* name : {"pa-drqs", "drqs", "cp"}) {
        LeaseRules rules = rules_named(name);
        rules.node_of = {0, 0, 1, 1};
        EXPECT_EQ(explore(LeaseWorld(rules), false).fault, "") << name;
        rules.parts = 2;
        EXPECT_EQ(explore(LeaseWorld(rules), false).fault, "") << name;
    }
}

TEST(Lease, LongAMillionSchedules) {
    run_schedules(1'000'000);
}

}  // namespace warren::walk::lease_test

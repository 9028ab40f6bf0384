// SPDX-License-Identifier: Apache-2.0
// Loans and results between ranks: all interleavings of small worlds (walk/loan_world.hpp), and
// very many random schedules of larger ones.
#include <gtest/gtest.h>

#include "support/seed.hpp"
#include "walk/explorer.hpp"
#include "walk/loan_world.hpp"

namespace warren::walk {

namespace {

LoanRules rules_named(const char* name) {
    LoanRules rules;
    rules.scheduler = scheduler_named(name)->scheduler;
    return rules;
}

LoanRules random_rules(Random& random) {
    LoanRules rules;
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
        LoanWorld world(random_rules(random));
        const bool may_abort = random.one_in(4);
        ASSERT_EQ(run_schedule(world, random.next(), may_abort), "") << "schedule " << part;
    }
}

}  // namespace

TEST(Loan, ADirectoryHasOneHoweverMuchOfItIsElsewhere) {
    Loans<u32> loans;
    const Home first = loans.lend(3, 7);
    for (u32 piece = 1; piece < 1000; ++piece)
        EXPECT_EQ(loans.lend(3, 7), first);
    const Home other = loans.lend(3, 8);
    EXPECT_NE(other, first);
    EXPECT_EQ(loans.out().size(), 2u);
    for (u32 piece = 0; piece < 1000; ++piece)
        EXPECT_EQ(loans.take_back(first.loan), 7u);
    EXPECT_EQ(loans.out().size(), 1u);
    EXPECT_NE(loans.lend(3, 7), first) << "that number is a thing of the past";
    // One of a walk that goes on stands beside a new one of the same directory.
    loans.set(first.loan, {7, 1});
    EXPECT_EQ(loans.take_back(first.loan), 7u);
    EXPECT_EQ(loans.take_back(other.loan), 8u);
    EXPECT_EQ(loans.out().size(), 1u);
}

TEST(Loan, AllInterleavingsOfTwo) {
    for (const char* name : {"drqs", "cp", "cp-keep-one"}) {
        for (const bool aborts : {false, true}) {
            LoanRules rules = rules_named(name);
            rules.node_of = {0, 0};
            rules.parts = 2;
            EXPECT_EQ(explore(LoanWorld(rules), aborts).fault, "") << name;
        }
    }
}

TEST(Loan, AllInterleavingsOfThree) {
    for (const char* name : {"drqs", "cp", "h-drqs-batches"}) {
        LoanRules rules = rules_named(name);
        rules.parts = 2;
        EXPECT_EQ(explore(LoanWorld(rules), false).fault, "") << name;
    }
}

// Without what a rank owes in "passive" the walk ends before a result is back; lent anew, the
// result of what went on as a whole never comes home.
TEST(Loan, TheExplorerSeesAForgottenDebt) {
    for (const Fault fault : {Fault::keeps_no_debt, Fault::lends_anew}) {
        LoanRules rules = rules_named(fault == Fault::lends_anew ? "cp" : "drqs");
        rules.node_of = {0, 0};
        rules.parts = 2;
        rules.fault = fault;
        const std::string found = explore(LoanWorld(rules), false).fault;
        EXPECT_NE(found, "");
        EXPECT_NE(found, "too many states");
    }
}

TEST(Loan, RandomSchedules) {
    run_schedules(1500 * test_load());
}

TEST(Loan, LongAllInterleavingsOfThree) {
    for (const char* name : {"drqs", "pa-drqs", "cp", "cp-keep-one"}) {
        LoanRules rules = rules_named(name);
        EXPECT_EQ(explore(LoanWorld(rules), true).fault, "") << name;
        rules.level = 2;
        EXPECT_EQ(explore(LoanWorld(rules), false).fault, "") << name;
        rules.level = 1;
        rules.fanout = 2;
        EXPECT_EQ(explore(LoanWorld(rules), false).fault, "") << name;
        rules.parts = 2;
        EXPECT_EQ(explore(LoanWorld(rules), false).fault, "") << name;
    }
}

TEST(Loan, LongAllInterleavingsOfTwoNodesWithTwo) {
    for (const char* name : {"pa-drqs", "drqs", "cp"}) {
        LoanRules rules = rules_named(name);
        rules.node_of = {0, 0, 1, 1};
        EXPECT_EQ(explore(LoanWorld(rules), false).fault, "") << name;
        rules.parts = 2;
        EXPECT_EQ(explore(LoanWorld(rules), false).fault, "") << name;
    }
}

TEST(Loan, LongAMillionSchedules) {
    run_schedules(1'000'000);
}

}  // namespace warren::walk

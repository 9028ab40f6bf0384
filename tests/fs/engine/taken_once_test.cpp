// SPDX-License-Identifier: Apache-2.0
// Memory that is taken once: by whom, how often, and what a refusal is worth.
#include "fs/engine/taken_once.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/support/thread_crowd.hpp"

namespace warren {
namespace {

using Clock = TakenOnce::Clock;

TEST(TakenOnce, TakesNoMoreOnceItHasIt) {
    TakenOnce room;
    int takings = 0;
    const auto take = [&] {
        ++takings;
        return Errc::ok;
    };
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(room.ensure(Clock::now(), take), Errc::ok);
    EXPECT_EQ(takings, 1);
}

TEST(TakenOnce, AsksAgainOnlyAfterAWhileWhereMemoryWasRefused) {
    TakenOnce room;
    int takings = 0;
    Errc answer = Errc::no_memory;
    const auto take = [&] {
        ++takings;
        return answer;
    };
    const Clock::time_point then = Clock::now();
    EXPECT_EQ(room.ensure(then, take), Errc::no_memory);
    answer = Errc::ok;
    using std::chrono::milliseconds;
    static_assert(TakenOnce::refusal == milliseconds(1000));
    for (const milliseconds later : {milliseconds(0), milliseconds(500), milliseconds(999)}) {
        EXPECT_EQ(room.ensure(then + later, take), Errc::no_memory);
    }
    EXPECT_EQ(takings, 1);
    EXPECT_EQ(room.ensure(then + TakenOnce::refusal, take), Errc::ok);
    EXPECT_EQ(room.ensure(then, take), Errc::ok);
    EXPECT_EQ(takings, 2);
}

TEST(TakenOnce, AsksAgainAtOnceAfterAnotherFailure) {
    TakenOnce room;
    const Clock::time_point then = Clock::now();
    EXPECT_EQ(room.ensure(then, [] { return Errc::canceled; }), Errc::canceled);
    EXPECT_EQ(room.ensure(then, [] { return Errc::io; }), Errc::io);
    EXPECT_EQ(room.ensure(then, [] { return Errc::ok; }), Errc::ok);
}

/// The first taking is refused; each thread sees what the one that succeeds has taken.
TEST(TakenOnce, IsTakenByOneOfMany) {
    TakenOnce room;
    int takings = 0;
    std::vector<int> memory;
    const auto take = [&] {
        if (++takings == 1) return Errc::canceled;
        memory.assign(1000, 7);
        return Errc::ok;
    };
    const auto use = [&](Random&) {
        while (room.ensure(Clock::now(), take) != Errc::ok) {
        }
        EXPECT_EQ(memory.at(999), 7);
    };
    run_crowd(1, {use, use, use, use});
    EXPECT_EQ(takings, 2);
}

}  // namespace
}  // namespace warren

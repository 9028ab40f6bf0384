// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated once: by which thread, how often, and the effect of a failed allocation.
#include "fs/engine/taken_once.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/support/thread_executor.hpp"

namespace warren::taken_once_test {
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
        EXPECT_EQ(room.ensure(Clock::now, take), Errc::ok);
    EXPECT_EQ(takings, 1);
}

TEST(TakenOnce, AsksAgainOnlyAfterAWhileWhereMemoryWasRefused) {
    using std::chrono::milliseconds;
    TakenOnce room;
    int takings = 0;
    Errc answer = Errc::no_memory;
    Clock::time_point time = Clock::now();
    const auto now = [&] { return time; };
    const auto take = [&] {
        ++takings;
        time += milliseconds(5000);  // to be refused takes longer than that holds
        return answer;
    };
    EXPECT_EQ(room.ensure(now, take), Errc::no_memory);
    answer = Errc::ok;
    static_assert(TakenOnce::refusal == milliseconds(1000));
    for (const milliseconds passed : {milliseconds(0), milliseconds(500), milliseconds(499)}) {
        time += passed;
        EXPECT_EQ(room.ensure(now, take), Errc::no_memory);
    }
    EXPECT_EQ(takings, 1);
    time += milliseconds(1);
    EXPECT_EQ(room.ensure(now, take), Errc::ok);
    EXPECT_EQ(room.ensure(now, take), Errc::ok);
    EXPECT_EQ(takings, 2);
}

TEST(TakenOnce, AsksAgainAtOnceAfterAnotherFailure) {
    TakenOnce room;
    EXPECT_EQ(room.ensure(Clock::now, [] { return Errc::canceled; }), Errc::canceled);
    EXPECT_EQ(room.ensure(Clock::now, [] { return Errc::io; }), Errc::io);
    EXPECT_EQ(room.ensure(Clock::now, [] { return Errc::ok; }), Errc::ok);
}

/// The first allocation fails; each thread sees the memory of the one that succeeds.
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
        while (room.ensure(Clock::now, take) != Errc::ok) {
        }
        EXPECT_EQ(memory.at(999), 7);
    };
    run_executor(1, {use, use, use, use});
    EXPECT_EQ(takings, 2);
}

}  // namespace
}  // namespace warren::taken_once_test

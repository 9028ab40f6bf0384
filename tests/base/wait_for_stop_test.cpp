// SPDX-License-Identifier: Apache-2.0
// The wait ends when its time is over, and at once when a stop is or has been requested.
#include "base/wait_for_stop.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace warren::wait_for_stop_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto for_ever = 24h;  // a wait that misses the stop meets the test's time limit

TEST(WaitForStop, LastsForTheTimeItIsTold) {
    const std::stop_source source;
    const auto start = Clock::now();
    EXPECT_FALSE(wait_for_stop(source.get_token(), 20ms));
    EXPECT_GE(Clock::now() - start, 20ms);
}

TEST(WaitForStop, EndsWithAStop) {
    for (const auto before_stop : {0us, 10us, 100us, 1000us, 10'000us}) {
        bool is_stopped = false;
        std::jthread thread([&](const std::stop_token& stop) {
            is_stopped = wait_for_stop(stop, for_ever) && wait_for_stop(stop, for_ever);
        });
        std::this_thread::sleep_for(before_stop);
        thread.request_stop();
        thread.join();
        EXPECT_TRUE(is_stopped);
    }
}

}  // namespace
}  // namespace warren::wait_for_stop_test

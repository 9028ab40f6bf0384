// SPDX-License-Identifier: Apache-2.0
// Engines have threads of their own that make calls periodically, so the number of calls varies.
#include "tests/support/engine_faults.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

EngineFaults::Outcome EngineFaults::run(const OperationCase& operation, u64 nth) {
    const auto disk = base_.copy();
    std::string told;
    OpenOptions options = options_;
    options.report = [&told](const std::string& line) { told = line; };
    Outcome outcome;
    auto volume = calls_.open(*disk, options);
    OperationPlace at = open_operation_place(*volume);
    static_cast<void>(calls_.fail(nth));
    outcome.code = operation.run(at);
    outcome.synced = volume->sync();
    outcome.calls = calls_.fail(0);
    outcome.has_failed = nth != 0 && outcome.calls >= nth;

    for (const Handle file : {at.file, at.small, at.shared})
        static_cast<void>(volume->release(file));
    const Errc later = volume->create(anybody, at.root, "later", {}).code();
    EXPECT_EQ(later == Errc::ok, told.empty()) << static_cast<int>(later) << " " << told;
    const Errc gone = volume->unlink(anybody, at.root, "later");
    EXPECT_EQ(gone == Errc::ok, told.empty()) << static_cast<int>(gone) << " " << told;
    EXPECT_EQ(volume->close() == Errc::ok, told.empty()) << told;
    volume.reset();
    EXPECT_TRUE(expect_clean(*disk));
    outcome.shown = base_.shown(*disk);
    return outcome;
}

void EngineFaults::fail_each(const OperationCase& operation, u64 odds, Random& random) {
    SCOPED_TRACE(operation.name);
    const Outcome whole = run(operation, 0);
    EXPECT_EQ(whole.code, Errc::ok);
    EXPECT_EQ(whole.synced, Errc::ok);
    for (u64 nth = 1; nth <= whole.calls && !testing::Test::HasFailure(); ++nth) {
        if (!random.one_in(odds)) continue;
        SCOPED_TRACE(testing::Message() << "call " << nth << " of " << whole.calls << " fails");
        const Outcome outcome = run(operation, nth);
        if (!outcome.has_failed) continue;
        ++runs_;
        if (!operation.is_whole) continue;
        const bool is_told = outcome.code != Errc::ok || outcome.synced != Errc::ok;
        EXPECT_TRUE(outcome.shown == base_.before() || outcome.shown == whole.shown)
            << "neither as before nor as after, but:\n"
            << outcome.shown.substr(0, 300);
        EXPECT_TRUE(is_told || outcome.shown == whole.shown);
    }
}

void EngineFaults::fail_all(u64 odds, u64 many_odds) {
    const Seed seed;
    Random random(seed.value());
    for (const OperationCase& operation : operation_cases())
        fail_each(operation, operation.is_many ? many_odds : odds, random);
    EXPECT_GT(runs_, 0u);
    std::printf("%llu calls failed\n", static_cast<unsigned long long>(runs_));
}

}  // namespace warren

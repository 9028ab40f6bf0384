// SPDX-License-Identifier: Apache-2.0
// A mount uses the access method with the best measured figures: never one that is refused, and the
// plain one unless another is faster by at least a tenth. (UringDisk measures.)
#include "fs/disk/choose_access.hpp"

#include <gtest/gtest.h>

namespace warren::choose_access_test {
namespace {

/// Figures of the three methods: ns for reads and ns for writes each; 0: the method is refused.
std::array<AccessMeasure, 3> measures(u64 plain_ns, u64 ring_ns, u64 direct_ns) {
    std::array<AccessMeasure, 3> all;
    const DiskAccess ways[] = {DiskAccess::plain, DiskAccess::ring, DiskAccess::direct};
    const u64 times[] = {plain_ns, ring_ns, direct_ns};
    for (u32 i = 0; i < 3; ++i) {
        all[i].access = ways[i];
        all[i].read_ns = all[i].durable_ns = times[i];
        if (times[i] == 0) all[i].refusal = "refused";
    }
    return all;
}

TEST(AccessFigures, SpeakForTheFastestWay) {
    EXPECT_EQ(fastest_of(measures(1000, 500, 400)), DiskAccess::direct);
    EXPECT_EQ(fastest_of(measures(1000, 400, 500)), DiskAccess::ring);
    EXPECT_EQ(fastest_of(measures(1000, 2000, 3000)), DiskAccess::plain);
    // Of two methods that are both faster than the plain one, the faster one, by however little.
    EXPECT_EQ(fastest_of(measures(1000, 400, 399)), DiskAccess::direct);
}

TEST(AccessFigures, SpeakForThePlainWayIfOthersAreHardlyFaster) {
    EXPECT_EQ(fastest_of(measures(1000, 950, 901)), DiskAccess::plain);
    EXPECT_EQ(fastest_of(measures(1000, 950, 899)), DiskAccess::direct);
}

TEST(AccessFigures, NeverSpeakForAWayThatIsRefused) {
    EXPECT_EQ(fastest_of(measures(1000, 0, 0)), DiskAccess::plain);
    EXPECT_EQ(fastest_of(measures(1000, 0, 500)), DiskAccess::direct);
    EXPECT_EQ(fastest_of(measures(1000, 500, 0)), DiskAccess::ring);
}

}  // namespace
}  // namespace warren::choose_access_test

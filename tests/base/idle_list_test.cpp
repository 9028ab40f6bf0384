// SPDX-License-Identifier: Apache-2.0
// What a list keeps is taken out again, freed on request, and freed if the list cannot grow.
#include <gtest/gtest.h>

#include "base/idle_list.hpp"
#include "tests/support/failing_allocations.hpp"

namespace warren::idle_list_test {
namespace {

TEST(IdleList, GivesBackWhatItKeepsAndFreesTheRest) {
    IdleList<std::shared_ptr<int>> list;
    EXPECT_EQ(list.take(), nullptr);
    const auto one = std::make_shared<int>(1);
    const auto two = std::make_shared<int>(2);
    list.keep(std::make_unique<std::shared_ptr<int>>(one));
    list.keep(std::make_unique<std::shared_ptr<int>>(two));
    list.keep(nullptr);
    EXPECT_EQ(*list.take(), two) << "what was kept last comes first";
    EXPECT_EQ(one.use_count(), 2);
    list.drop();
    EXPECT_EQ(one.use_count(), 1);
    EXPECT_EQ(list.take(), nullptr);
}

TEST(IdleList, FreesWhatItHasNoMemoryToKeep) {
    IdleList<std::shared_ptr<int>> list;
    const auto held = std::make_shared<int>(1);
    auto idle = std::make_unique<std::shared_ptr<int>>(held);
    {
        const FailingAllocation failing(1);
        list.keep(std::move(idle));
        EXPECT_TRUE(failing.has_failed());
    }
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_EQ(list.take(), nullptr);
}

}  // namespace
}  // namespace warren::idle_list_test

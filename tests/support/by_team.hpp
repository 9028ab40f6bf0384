// SPDX-License-Identifier: Apache-2.0
// One test body on a thread's team and on lanes in lockstep, as the two types of a typed test.
//
// Invariant: both call the body once a team; what it answers is lane 0's.
#pragma once

#include "team/team.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren {

struct ByThread {
    template <class Body>
    auto operator()(const Body& body) {
        return body(ThreadTeam{});
    }
};

struct ByLanes {
    Lockstep<4> lanes;
    template <class Body>
    auto operator()(const Body& body) {
        return lanes.run([&](const LockstepTeam<4>& team) { return body(team); });
    }
};

}  // namespace warren

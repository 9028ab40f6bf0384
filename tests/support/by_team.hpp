// SPDX-License-Identifier: Apache-2.0
// Runs a test body on a thread's team and on lanes in lockstep, as the two types of a typed test.
//
// Invariant: each calls the body once for each lane of the team; the result is that of lane 0.
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

// SPDX-License-Identifier: Apache-2.0
// The process at the other end of a control connection.
//
// Invariant: the ids are those that the kernel reported when the peer connected. They do not change
// if the process changes its ids or passes the descriptor on.
#pragma once

#include <vector>

#include "warren/volume.hpp"

namespace warren::fuse {

struct Peer {
    u32 user = 0;
    u32 group = 0;
    std::vector<u32> groups;
    u32 process = 0;  // its pid when it connected; 0: not visible to this process

    Caller caller() const { return {user, group, groups, 0, true}; }
};

}  // namespace warren::fuse

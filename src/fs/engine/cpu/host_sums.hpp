// SPDX-License-Identifier: Apache-2.0
// Checks CRCs on the host for a quick check. One lane of the team computes; all get the result.
#pragma once

#include "fs/format/check_block.hpp"
#include "fs/format/inode.hpp"
#include "team/team.hpp"

namespace warren {

struct HostSums {
    template <class Team>
    bool is_right(const Team& team, const format::Block& block) const {
        return once(team, [&] { return format::block_is_right(block); });
    }

    template <class Team>
    u32 right_inodes(const Team& team, const format::Block& block, u32 wanted, u64 volume,
                     u64 first) const {
        return once(team, [&] {
            const auto* inodes = reinterpret_cast<const format::Inode*>(&block);
            u32 right = 0;
            for (u32 i = 0; i < format::inodes_per_block; ++i) {
                if ((wanted >> i & 1) == 0 || inodes[i].generation == 0) continue;
                if (format::inode_is_sound(inodes[i], volume, first + i)) right |= 1u << i;
            }
            return right;
        });
    }
};

}  // namespace warren

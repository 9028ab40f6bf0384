// SPDX-License-Identifier: Apache-2.0
// Whose block it is. The loader has checked the checksum and that the block belongs where it lies;
// only the reader that follows a pointer knows whose block must be there. A metadata write that the
// disk has lost leaves an earlier content in its place, which may be of another inode, or of the
// one that had the number before.
//
// Invariant: nothing of a block of kinds 4 to 8, 11 and 12 is used before it was found to be its
// owner's.
#pragma once

#include "fs/core/inode_table.hpp"

namespace warren::core {

using format::BlockIdentity;
using format::BlockKind;

/// What a block of `kind` must be that `owner` points to.
WARREN_HD inline BlockIdentity identity_of(BlockKind kind, const InodeRef& owner) {
    return {kind, owner.generation, owner.number};
}

/// Whether a block that others may change is what `expected` says. One lane.
WARREN_HD inline bool is_own_block(const format::BlockHeader& header,
                                   const BlockIdentity& expected) {
    // All three are under way together.
    format::BlockHeader found{};
    found.kind = relaxed_load(header.kind);
    found.owner = relaxed_load(header.owner);
    found.owner_generation = relaxed_load(header.owner_generation);
    return expected.agrees(found);
}

/// Says in a new block's header what it is. One lane; the block is not published yet.
WARREN_HD inline void start_header(format::BlockHeader& header, const BlockIdentity& identity) {
    relaxed_store(header.kind, static_cast<u16>(identity.kind));
    relaxed_store(header.owner, identity.owner);
    relaxed_store(header.owner_generation, identity.generation);
}

/// Errc::corrupt unless the block, read from under `seen`, is what `expected` says.
template <class Team>
WARREN_HD Errc require_own_block(Operation<Team>& op, const Block* block, const Seen& seen,
                                 const BlockIdentity& expected) {
    const auto& header = *reinterpret_cast<const format::BlockHeader*>(block);
    const bool is_own = once(op.team, [&] { return is_own_block(header, expected); });
    WARREN_TRY(op.confirm(seen));
    return is_own ? Errc::ok : Errc::corrupt;
}

}  // namespace warren::core

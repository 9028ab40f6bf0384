// SPDX-License-Identifier: Apache-2.0
// The owner of a block. The loader has checked the checksum of a block and that it belongs where it
// lies, but only a reader that follows a pointer knows which inode must own it. If the disk has
// lost a write, the block has older contents, which may belong to another inode or to an earlier
// inode of the same number.
//
// Invariant: the contents of a block of kinds 4 to 8, 11 and 12 are not used before its owner is
// verified.
#pragma once

#include "fs/core/inode_table.hpp"

namespace warren::core {

using format::BlockIdentity;
using format::BlockKind;

/// The identity that a block of `kind` must have if `owner` points to it.
WARREN_HD inline BlockIdentity identity_of(BlockKind kind, const InodeRef& owner) {
    return {kind, owner.generation, owner.number};
}

/// Whether a block, which other threads may change meanwhile, has the identity `expected`. One
/// lane.
WARREN_HD inline bool is_own_block(const format::BlockHeader& header,
                                   const BlockIdentity& expected) {
    // Three independent loads, so that they overlap.
    format::BlockHeader found{};
    found.kind = relaxed_load(header.kind);
    found.owner = relaxed_load(header.owner);
    found.owner_generation = relaxed_load(header.owner_generation);
    return expected.agrees(found);
}

/// Writes `identity` into a new block's header. One lane; no other thread can reach the block yet.
WARREN_HD inline void start_header(format::BlockHeader& header, const BlockIdentity& identity) {
    relaxed_store(header.kind, static_cast<u16>(identity.kind));
    relaxed_store(header.owner, identity.owner);
    relaxed_store(header.owner_generation, identity.generation);
}

/// Errc::corrupt unless the block, read under version `seen`, has the identity `expected`.
template <class Team>
WARREN_HD Errc require_own_block(Operation<Team>& op, const Block* block, const Seen& seen,
                                 const BlockIdentity& expected) {
    const auto& header = *reinterpret_cast<const format::BlockHeader*>(block);
    const bool is_own = once(op.team, [&] { return is_own_block(header, expected); });
    WARREN_TRY(op.confirm(seen));
    return is_own ? Errc::ok : Errc::corrupt;
}

}  // namespace warren::core

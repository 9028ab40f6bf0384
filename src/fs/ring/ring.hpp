// SPDX-License-Identifier: Apache-2.0
// The layout of a ring's memory, and the doorbell with which a client wakes the engine.
//
// Invariant: only the client writes command cells, and only the engine writes completion cells. The
// block and the buffer of a command belong to the engine from submission to completion, and else to
// the client. A client learns from completions which cells are free, so no counter is shared.
#pragma once

#include "fs/ring/arguments.hpp"
#include "fs/ring/cell.hpp"

namespace warren::ring {

struct RingShape {
    u32 cells = 1024;  // a power of two
    u64 arena_bytes = mib;

    constexpr bool is_valid() const {
        return cells != 0 && (cells & (cells - 1)) == 0 && arena_bytes % arena_granule == 0 &&
               arena_bytes <= arena_bytes_max;
    }
    constexpr u64 bytes() const {
        return u64{cells} * (sizeof(CommandCell) + sizeof(CompletionCell)) + arena_bytes;
    }
};

/// A ring as mapped by one of its users.
struct RingMemory {
    CommandCell* commands = nullptr;
    CompletionCell* completions = nullptr;
    Arena arena;
    u32 cells = 0;
};

/// Finds the parts of the ring whose memory begins at `base`.
inline RingMemory ring_at(std::byte* base, const RingShape& shape) {
    RingMemory ring;
    ring.cells = shape.cells;
    ring.commands = reinterpret_cast<CommandCell*>(base);
    ring.completions = reinterpret_cast<CompletionCell*>(base + shape.cells * sizeof(CommandCell));
    ring.arena.base = base + shape.cells * (sizeof(CommandCell) + sizeof(CompletionCell));
    ring.arena.bytes = shape.arena_bytes;
    return ring;
}

inline constexpr u32 cells_max = 32768;

/// Written by the client, read by the engine.
struct Doorbell {
    u32 wakes;  // incremented by a client that finds the engine parked
};

/// Written by the daemon, read by the client.
struct ServerStatus {
    u32 parked;  // the engine does not poll the ring: wake it
    u32 lost;    // the engine has stopped for good
};

}  // namespace warren::ring

// SPDX-License-Identifier: Apache-2.0
// The engine's end of a ring where the engine is a CPU: takes commands out of one ring, copies and
// checks them, and writes their completions. A GPU does the same in fs/engine/cuda/server.cu.
//
// Invariant: cell and block are copied once; whatever happens in the ring afterwards, the command
// stays as checked.
#pragma once

#include <memory>

#include "fs/ring/command_code.hpp"
#include "fs/ring/ring.hpp"

namespace warren::ring {

/// A command with the copies that it points into.
struct Received {
    u64 ticket = 0;
    Errc verdict = Errc::ok;  // else the command must not be run and this is its result
    ops::Command command;
    alignas(16) char name[inline_name_max] = {};
    std::unique_ptr<std::byte[]> block;
    u64 block_bytes = 0;  // of the copy in `block`
};

class RingReader {
 public:
    /// Reads from ticket `next_ticket` on.
    RingReader(const RingMemory& ring, const Stamp& stamp, u64 next_ticket = 0)
        : ring_(ring), stamp_(stamp), next_ticket_(next_ticket) {}

    /// Whether take() would find a command.
    bool has_command() const;
    /// Takes the next command, if one has arrived whole. Its buffer is in the arena.
    bool take(Received& received);
    /// Writes the completion of a command: once for each, in any order.
    void complete(const Received& received, const ops::Reply& reply);

    u64 next_ticket() const { return next_ticket_; }

 private:
    bool copy_next(CommandCell& copy) const;

    const RingMemory ring_;
    const Stamp stamp_;
    u64 next_ticket_;
};

}  // namespace warren::ring

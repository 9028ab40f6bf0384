// SPDX-License-Identifier: Apache-2.0
// The CPU engine's end of a ring: takes commands out of one ring, copies and checks them, and
// writes their completions. The GPU's counterpart is fs/engine/cuda/server/server_poller.cu.
//
// Invariant: cell and block are copied once, before they are checked, so a client that writes to
// them afterwards does not change the command.
#pragma once

#include <memory>

#include "fs/ring/command_code.hpp"
#include "fs/ring/ring.hpp"

namespace warren::ring {

/// A command with the copies that it points into.
struct Received {
    u64 ticket = 0;
    Errc verdict = Errc::ok;  // any other value is the result, and the command must not be run
    ops::Command command;
    alignas(16) char name[inline_name_max] = {};
    std::unique_ptr<std::byte[]> block;
    u64 block_bytes = 0;  // of the copy in `block`
};

class RingReader {
 public:
    /// The first command that take() returns is that of ticket `next_ticket`.
    RingReader(const RingMemory& ring, const Stamp& stamp, u64 next_ticket = 0)
        : ring_(ring), stamp_(stamp), next_ticket_(next_ticket) {}

    /// Whether take() would find a command.
    bool has_command() const;
    /// Takes the next command; false if none has arrived completely. The command's buffer is in the
    /// arena.
    bool take(Received& received);
    /// Writes the completion of a command. Call it once for each command, in any order.
    void complete(const Received& received, const ops::Reply& reply);

    u64 next_ticket() const { return next_ticket_; }

 private:
    bool copy_next(CommandCell& copy) const;

    const RingMemory ring_;
    const Stamp stamp_;
    u64 next_ticket_;
};

}  // namespace warren::ring

// SPDX-License-Identifier: Apache-2.0
// The client's end of a ring: submits commands, one or thousands at a time, and takes their
// replies in any order. Any number of threads may share one client.
//
// Invariant: the client reuses a cell only after it has taken the completion of its last command,
// so no cell is overwritten before it was read. A full ring is an error (Errc::busy), never a wait.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "fs/ops/command.hpp"
#include "fs/ring/ring.hpp"

namespace warren::ring {

/// Allocates ranges of an arena. Its own memory is allocated in the constructor, so that giving a
/// range back, as poll() does, cannot fail.
class ArenaSpace {
 public:
    /// For an arena of `bytes` of which at most `parts` ranges are in use at once.
    ArenaSpace(u64 bytes, u64 parts);

    /// Allocates `bytes`, rounded up to arena_granule; Errc::no_space if no free range is that
    /// long.
    Result<ArenaRange> take(u64 bytes);
    void give_back(const ArenaRange& range);

 private:
    std::vector<ArenaRange> free_;  // by offset, merged: at most one more than ranges in use
};

class RingClient {
 public:
    /// `names_caller`: the ring is trusted and each command carries its caller's credentials.
    RingClient(const RingMemory& ring, Doorbell& doorbell, const ServerStatus& status,
               bool names_caller);

    /// Submits a command; returns its ticket. Errc::busy if the ring or the arena is full,
    /// Errc::invalid if the command cannot be encoded. Names and texts are copied; the command's
    /// buffer must live until the reply is taken.
    Result<u64> submit(const ops::Command& command);
    /// Submits commands in order until one fails, ringing the doorbell once; returns how many were
    /// submitted. `failure`: the error of the first one that was not, as for submit().
    u32 submit_many(std::span<const ops::Command> commands, std::span<u64> tickets, Errc& failure);

    /// Takes the reply of a ticket; false if it has not arrived. Each ticket is taken once.
    bool poll(u64 ticket, ops::Reply& reply);
    /// Waits for the reply: polls without a pause for a while, then sleeps between polls. Errc::io
    /// if the engine is lost; Errc::busy after `milliseconds`: the ticket can be waited for again.
    Errc wait(u64 ticket, ops::Reply& reply, u32 milliseconds);

 private:
    /// What the client needs of a command until its reply is taken.
    struct Pending {
        bool is_taken = true;
        ops::Verb verb{};
        void* buffer = nullptr;
        u64 buffer_bytes = 0;
        ArenaRange block;
        ArenaRange arena_buffer;
    };

    Result<u64> place(const ops::Command& command);
    bool is_lost() const;

    const RingMemory ring_;
    Doorbell& doorbell_;
    const ServerStatus& status_;
    const bool names_caller_;

    std::mutex mutex_;  // guards all below
    u64 next_ticket_ = 0;
    std::vector<Pending> pending_;
    ArenaSpace space_;
};

/// How many bytes a command has written to its buffer.
WARREN_HD inline u64 output_bytes(ops::Verb verb, const ops::Reply& reply, u64 buffer_bytes) {
    if (reply.code != Errc::ok || buffer_bytes == 0) return 0;
    switch (verb) {
        case ops::Verb::read_leaf:
            return buffer_bytes < sizeof(format::DirectoryLeaf) ? buffer_bytes
                                                                : sizeof(format::DirectoryLeaf);
        case ops::Verb::read_link:
        case ops::Verb::get_attribute:
        case ops::Verb::list_attributes:
            return reply.value < buffer_bytes ? reply.value : buffer_bytes;
        default:
            return 0;
    }
}

}  // namespace warren::ring

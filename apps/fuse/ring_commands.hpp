// SPDX-License-Identifier: Apache-2.0
// Executes commands from a client's ring on a mounted volume. Consecutive commands of one kind
// become one call with many items, which the engine runs in parallel; then the kernel is told of
// all changes, and after that the client.
//
// Invariant: the effect is that of running the commands one after the other, on behalf of the
// ring's owner, on inodes that were granted to it.
#pragma once

#include <span>
#include <vector>

#include "apps/fuse/invalidator.hpp"
#include "apps/fuse/mount_state.hpp"
#include "apps/fuse/peer.hpp"
#include "apps/fuse/ring_grants.hpp"
#include "fs/ring/reader.hpp"

namespace warren::fuse {

class RingCommands {
 public:
    RingCommands(MountState& mount, Invalidator& invalidator, Peer peer,
                 RingGrants::Limits limits = {})
        : mount_(mount), queue_(invalidator), peer_(std::move(peer)), grants_(limits) {}
    /// Waits, without limit, until the kernel has been told of all changes.
    ~RingCommands() { queue_.finish(); }
    RingCommands(const RingCommands&) = delete;
    RingCommands& operator=(const RingCommands&) = delete;

    RingGrants& grants() { return grants_; }

    /// Runs the commands; `replies` gets the result of each, Errc::no_memory if it could not be run
    /// for lack of memory. Requires: equal sizes.
    void run(std::span<ring::Received> commands, std::span<ops::Reply> replies);

 private:
    using Commands = std::span<ring::Received>;
    using Replies = std::span<ops::Reply>;

    Errc admit(const ring::Received& received);
    bool may_change(Handle handle) { return grants_.check(handle, true) == Errc::ok; }
    Caller caller_of(const ops::Command& command) const;
    void run_alike(Volume& volume, Commands commands, Replies replies);
    void run_or_tell(Volume& volume, Commands commands, Replies replies);
    void look_up(Volume& volume, Commands commands, Replies replies);
    void create(Volume& volume, Commands commands, Replies replies);
    void remove(Volume& volume, Commands commands, Replies replies);
    void rename(Volume& volume, Commands commands, Replies replies);
    void run_one(Volume& volume, const ops::Command& command, ops::Reply& reply);
    Result<Attributes> link(Volume& volume, const ops::Command& command);
    void take_found(const ops::Command& command, const Result<Attributes>& found,
                    ops::Reply& reply);
    void note_name(Handle directory, std::string_view name);
    void note_inode(u64 inode);
    void note_named(Volume& volume, const Caller& caller, const std::vector<Lookup>& names);

    MountState& mount_;
    Invalidator::Queue queue_;
    const Peer peer_;
    RingGrants grants_;
    std::vector<StaleName> stale_;  // what the running commands may have changed
};

}  // namespace warren::fuse

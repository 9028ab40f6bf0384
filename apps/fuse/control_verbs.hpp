// SPDX-License-Identifier: Apache-2.0
// Executes the requests of a connection of the control socket on the volume.
//
// Invariant: a request runs on behalf of the peer, whose ids come from the kernel, and the volume
// checks its permission. A descriptor from the peer identifies a directory or file on this mount,
// whatever mode it is open with. No call here accesses the mount, which this process serves: the
// peer makes the kernel write back dirty pages before it sends the request (ControlConnection).
#pragma once

#include <string>
#include <vector>

#include "apps/fuse/control_protocol.hpp"
#include "apps/fuse/invalidator.hpp"
#include "apps/fuse/mount_state.hpp"
#include "apps/fuse/mount_table.hpp"
#include "apps/fuse/part_stream.hpp"
#include "apps/fuse/peer.hpp"
#include "apps/fuse/ring_grants.hpp"

namespace warren::fuse {

class ControlVerbs {
 public:
    ControlVerbs(MountState& mount, Invalidator& invalidator, u32 device_major, u32 device_minor)
        : mount_(mount),
          queue_(invalidator),
          device_major_(device_major),
          device_minor_(device_minor) {}

    /// Waits, without limit, until the kernel has been told of all changes.
    ~ControlVerbs() { queue_.finish(); }
    ControlVerbs(const ControlVerbs&) = delete;
    ControlVerbs& operator=(const ControlVerbs&) = delete;

    /// Executes the request and returns the payload of the last answer; `sink` takes the parts
    /// before it.
    std::string serve(const Peer& peer, Frame& frame, const PartSink& sink);

    /// Grants the directories behind the frame's descriptors to a ring; returns the payload of the
    /// answer.
    std::string attach(const Peer& peer, const Frame& frame, RingGrants& grants);

 private:
    Errc remove_tree(const Peer& peer, const Frame& frame, Encoder& answer);
    Errc move(const Peer& peer, const Frame& frame, Encoder& answer);
    Errc clone(const Peer& peer, const Frame& frame, Encoder& answer);
    Errc rebuild(const Peer& peer, const Frame& frame, Encoder& answer);
    Errc scan(const Peer& peer, Frame& frame, const PartSink& sink);
    Errc usage(const Peer& peer, Frame& frame, const PartSink& sink);
    Errc dedupe(const Peer& peer, const Frame& frame, Encoder& answer);
    Errc remount(const Peer& peer, const Frame& frame);
    Errc release_device(const Peer& peer);
    Errc sync();
    void describe(Encoder& answer);

    static constexpr u32 any_type = 0;
    /// The inode behind a descriptor of the peer, which must be of type S_IFDIR, S_IFREG or any.
    /// Refuses what is not on this mount and, for a change, what the peer can access only
    /// read-only.
    Errc find(PeerMounts& mounts, const Descriptor& descriptor, u32 type, bool to_change,
              Handle& handle);
    Errc find_directory(PeerMounts& mounts, const Descriptor& descriptor, bool to_change,
                        Handle& directory);
    Errc take_start(const Peer& peer, Frame& frame, Handle& start);
    void drop_cached(std::vector<StaleName> stale);
    u64 node(Handle handle) const { return mount_.nodes.node_of(handle.inode); }

    MountState& mount_;
    Invalidator::Queue queue_;
    u32 device_major_;
    u32 device_minor_;
};

}  // namespace warren::fuse

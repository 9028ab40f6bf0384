// SPDX-License-Identifier: Apache-2.0
// What a request over the control socket does to the volume.
//
// Invariant: done in the name of the peer, whose ids the kernel vouches for and whose permission
// the volume checks; a directory or file is only what a descriptor from the peer leads to on our
// mount, whatever that is open for. No
// call here asks the mount, which is served by this process: what the kernel holds back of files is
// written out by the peer before it asks (ControlConnection).
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
          invalidator_(invalidator),
          device_major_(device_major),
          device_minor_(device_minor) {}

    /// Does what the frame asks for and answers the payload of the last answer; `sink` takes what
    /// comes before that.
    std::string serve(const Peer& peer, Frame& frame, const PartSink& sink);

    /// Grants the directories behind the frame's descriptors to a ring; the payload of the answer.
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
    Errc sync();
    void describe(Encoder& answer);

    static constexpr u32 any_type = 0;
    /// What is behind a descriptor of the peer, of type S_IFDIR, S_IFREG or any; refuses what is
    /// not on this mount, and, to change something, what the peer sees as read-only.
    Errc find(PeerMounts& mounts, const Descriptor& descriptor, u32 type, bool to_change,
              Handle& handle);
    Errc find_directory(PeerMounts& mounts, const Descriptor& descriptor, bool to_change,
                        Handle& directory);
    Errc take_start(const Peer& peer, Frame& frame, Handle& start);
    void drop_cached(std::vector<StaleName> stale);
    u64 node(Handle handle) const { return mount_.nodes.node_of(handle.inode); }

    MountState& mount_;
    Invalidator& invalidator_;
    u32 device_major_;
    u32 device_minor_;
};

}  // namespace warren::fuse

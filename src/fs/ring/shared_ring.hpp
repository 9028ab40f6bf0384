// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a ring: a sealed memory file. A process that requests a ring over a Unix
// socket receives the descriptors of the ring, of its doorbell and of its status page, which only
// the daemon can write. The daemon stamps the ring with the process's credentials, which the kernel
// reports.
//
// Invariant: the stamp is in the daemon's own memory. A ring's memory is never given to a second
// process, because the first may still have it mapped.
#pragma once

#include <span>
#include <vector>

#include "base/descriptor.hpp"
#include "base/mapping.hpp"
#include "fs/ring/command_code.hpp"
#include "fs/ring/ring.hpp"

namespace warren::ring {

/// A memory file and its mapping. The size is sealed: no other process can shrink the file, which
/// would make accesses here fault.
class SharedMemory {
 public:
    /// Whether a process that receives the file can write to it, however it opens or maps it.
    enum class Others : u8 { read, write };

    /// Makes a file of zeros with all pages allocated, which this process can write through data().
    /// Errc::no_memory; Errc::not_supported if the kernel lacks a seal (before Linux 5.1).
    Errc create(const char* name, u64 bytes, Others others);
    /// Maps a file received from another process, and owns the descriptor. Errc::invalid unless the
    /// file is sealed against shrinking and has at least `bytes`.
    Errc adopt(int descriptor, u64 bytes, bool may_write);

    std::byte* data() const { return memory_.get(); }
    u64 bytes() const { return bytes_of(memory_); }
    int descriptor() const { return descriptor_.get(); }

 private:
    Descriptor descriptor_;
    Mapping memory_;
};

/// The credentials of the process at the other end of a Unix socket.
struct Peer {
    u32 user = 0;
    u32 group = 0;
    std::vector<u32> groups;
};

class SharedRing {
 public:
    /// Makes a ring for `peer`. `is_trusted`: see Stamp. Errc::invalid for an invalid shape or more
    /// than core::groups_max groups, else as SharedMemory::create().
    Errc create(const RingShape& shape, Peer peer, bool is_trusted);

    RingMemory ring() const { return ring_at(ring_.data(), shape_); }
    Doorbell& doorbell() const { return *reinterpret_cast<Doorbell*>(doorbell_.data()); }
    ServerStatus& status() const { return *reinterpret_cast<ServerStatus*>(status_.data()); }
    /// The memory of the ring, to be registered with a GPU.
    std::span<std::byte> bytes() const { return {ring_.data(), ring_.bytes()}; }
    /// Its pointer to the groups is valid until the next create().
    Stamp stamp() const;

    /// Sends the ring's descriptors over a connected Unix socket.
    Errc hand_over(int socket) const;

 private:
    RingShape shape_;
    SharedMemory ring_;
    SharedMemory doorbell_;
    SharedMemory status_;
    Peer peer_;
    bool is_trusted_ = false;
};

/// A ring that another process handed over.
class RemoteRing {
 public:
    /// Receives a ring that SharedRing::hand_over() sent. Errc::invalid for any other message.
    Errc receive(int socket);

    RingMemory ring() const { return ring_at(ring_.data(), shape_); }
    Doorbell& doorbell() const { return *reinterpret_cast<Doorbell*>(doorbell_.data()); }
    const ServerStatus& status() const {
        return *reinterpret_cast<const ServerStatus*>(status_.data());
    }

 private:
    RingShape shape_;
    SharedMemory ring_;
    SharedMemory doorbell_;
    SharedMemory status_;
};

}  // namespace warren::ring

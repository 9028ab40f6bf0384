// SPDX-License-Identifier: Apache-2.0
// The daemon's rings. Each is a sealed memory file, made and registered with the GPU at the start.
// A process that requests a ring over a Unix socket receives the descriptors of its ring, of the
// doorbell and of the status page, which only the daemon can write. The daemon stamps the ring with
// the process's credentials, which the kernel reports.
//
// Invariant: stamps are in the daemon's own memory. A ring is opened once: its memory is never
// given to a second process, because the first may still have it mapped.
#pragma once

#include <mutex>
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

class RingPool {
 public:
    /// Makes `rings` rings, at most rings_max. Errc::invalid for an invalid shape, else as
    /// SharedMemory::create().
    Errc create(u32 rings, const RingShape& shape);

    u32 rings() const { return static_cast<u32>(rings_.size()); }
    const RingShape& shape() const { return shape_; }
    Doorbell& doorbell() const { return *reinterpret_cast<Doorbell*>(doorbell_.data()); }
    ServerStatus& status() const { return *reinterpret_cast<ServerStatus*>(status_.data()); }
    RingMemory ring(u32 index) const { return ring_at(rings_[index].memory.data(), shape_); }
    /// The memory of a ring and of the doorbell, to be registered with a GPU.
    std::span<std::byte> ring_bytes(u32 index) const;
    std::span<std::byte> doorbell_bytes() const { return {doorbell_.data(), doorbell_.bytes()}; }

    /// Assigns the next ring to `peer`; returns its number. Errc::busy if all are open. The caller
    /// must tell the engine before it hands the ring over.
    Result<u32> open_ring(Peer peer, bool is_trusted);
    /// How many rings are open: the first ones.
    u32 open_rings() const;
    /// The stamp of an open ring. Its pointer to the groups is valid until the next create().
    Stamp stamp(u32 index) const;

    /// Sends the ring's descriptors over a connected Unix socket.
    Errc hand_over(int socket, u32 index) const;

 private:
    struct Ring {
        SharedMemory memory;
        Peer peer;
        bool is_trusted = false;
    };

    RingShape shape_;
    SharedMemory doorbell_;
    SharedMemory status_;
    std::vector<Ring> rings_;
    u32 open_ = 0;
    mutable std::mutex mutex_;
};

/// A ring that another process handed over.
class RemoteRing {
 public:
    /// Receives a ring that RingPool::hand_over() sent. Errc::invalid for any other message.
    Errc receive(int socket);

    RingMemory ring() const { return ring_at(ring_.data(), shape_); }
    Doorbell& doorbell() const { return *reinterpret_cast<Doorbell*>(doorbell_.data()); }
    const ServerStatus& status() const {
        return *reinterpret_cast<const ServerStatus*>(status_.data());
    }
    u32 index() const { return index_; }

 private:
    RingShape shape_;
    u32 index_ = 0;
    SharedMemory ring_;
    SharedMemory doorbell_;
    SharedMemory status_;
};

}  // namespace warren::ring

// SPDX-License-Identifier: Apache-2.0
// The daemon's side of one client's ring: its sealed memory, and a thread that takes commands from
// it in turns, runs them and completes them. When there are none, the thread polls briefly and then
// parks until the client wakes it.
//
// Invariant: the cost of a ring to others, its turns and its memory, is bounded. Whatever its
// client writes into its memory is copied once and then checked (fs/ring/reader.hpp). Doorbell and
// status belong to this ring alone, so a client cannot disturb other rings. No turn begins after
// RingTurn::begin refused one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "apps/fuse/ring_commands.hpp"
#include "base/check.hpp"
#include "base/reserved_range.hpp"
#include "fs/ring/shared_ring.hpp"

namespace warren::fuse {

/// Called around each turn: if `begin` returns false the ring ends. `gone` is called when the ring
/// has ended.
struct RingTurn {
    std::function<bool()> begin;
    std::function<void()> end;
    std::function<void()> gone;
};

/// An array that allocates as it grows, never moves, and returns its memory to the system at the
/// end: malloc would keep as much for each thread that ever served a ring.
template <class T>
class GrowingArray {
 public:
    explicit GrowingArray(std::size_t most) : range_(most * sizeof(T)), most_(most) {}
    ~GrowingArray() {
        if (size_ != 0) std::destroy_n(data(), size_);
    }
    GrowingArray(const GrowingArray&) = delete;
    GrowingArray& operator=(const GrowingArray&) = delete;

    /// Null if the memory could not be reserved.
    T* data() const { return range_.as<T>(); }
    /// Element `index`; constructs it if it is the first after the existing ones.
    T& reach(std::size_t index) {
        WARREN_CHECK(index <= size_ && index < most_);
        if (index == size_) std::construct_at(data() + size_++);
        return data()[index];
    }

 private:
    ReservedRange range_;
    const std::size_t most_;
    std::size_t size_ = 0;
};

class RingServer {
 public:
    static constexpr ring::RingShape shape{4096, mib};
    /// A turn takes at most this many commands, and ends after one that reaches this many bytes of
    /// arguments.
    static constexpr u32 turn_commands_max = 4096;
    static constexpr u64 turn_bytes_max = mib;

    RingServer(MountState& mount, Invalidator& invalidator, Peer peer, RingTurn turn);
    ~RingServer();  // lets the current turn finish
    RingServer(const RingServer&) = delete;
    RingServer& operator=(const RingServer&) = delete;

    /// Creates the ring. May fail with Errc::no_memory.
    Errc open();
    /// Passes the ring to the process at the other end of a Unix socket, and starts to serve it.
    /// Errc::no_memory if no thread can be started.
    Errc hand_over(int socket);

    RingGrants& grants() { return commands_.grants(); }

 private:
    void serve();
    u32 take_turn();
    bool park();
    void lose();

    const Peer peer_;
    const RingTurn turn_;
    RingCommands commands_;
    ring::SharedRing ring_;
    std::unique_ptr<ring::RingReader> reader_;
    GrowingArray<ring::Received> received_{turn_commands_max};  // commands point into them
    GrowingArray<ops::Reply> replies_{turn_commands_max};
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// The daemon's side of one client's ring: a sealed pool of one ring, and a thread that takes
// commands from it in turns, runs them and completes them. The thread looks for the next command
// for a moment and then parks, until the client wakes it.
//
// Invariant: a ring costs others its turns and its memory, both bounded. Whatever its client writes
// into its memory is copied once and checked (fs/ring/reader.hpp); doorbell and status are this
// ring's own, so nobody else's ring hears of them. No turn begins after Turn::begin refused one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "apps/fuse/ring_commands.hpp"
#include "base/check.hpp"
#include "fs/engine/cpu/store_memory.hpp"
#include "fs/ring/pool.hpp"

namespace warren::fuse {

/// What surrounds each turn: `begin` may refuse, and then the ring has come to its end. `gone` is
/// called when the ring is.
struct RingTurn {
    std::function<bool()> begin;
    std::function<void()> end;
    std::function<void()> gone;
};

/// An array that takes memory as it grows, never moves, and gives it back to the system at the end:
/// malloc would keep as much for each thread that has ever served a ring.
template <class T>
class GrowingArray {
 public:
    explicit GrowingArray(std::size_t most) : range_(most * sizeof(T)), most_(most) {}
    ~GrowingArray() {
        if (size_ != 0) std::destroy_n(data(), size_);
    }
    GrowingArray(const GrowingArray&) = delete;
    GrowingArray& operator=(const GrowingArray&) = delete;

    /// Null if there is no memory.
    T* data() const { return range_.as<T>(); }
    /// Element `index`, a new one if it is the first behind those that there are.
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
    /// A turn takes at most so many commands, and ends behind one with so many bytes of arguments.
    static constexpr u32 turn_commands_max = 4096;
    static constexpr u64 turn_bytes_max = mib;

    RingServer(MountState& mount, Invalidator& invalidator, Peer peer, RingTurn turn);
    ~RingServer();  // lets the turn under way end
    RingServer(const RingServer&) = delete;
    RingServer& operator=(const RingServer&) = delete;

    /// Makes the ring. Errc::no_memory.
    Errc open();
    /// Gives it to the process at the other end of a Unix socket, and begins to serve it.
    /// Errc::no_memory if there is no thread for it.
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
    ring::RingPool pool_;
    std::unique_ptr<ring::RingReader> reader_;
    GrowingArray<ring::Received> received_{turn_commands_max};  // commands point into them
    GrowingArray<ops::Reply> replies_{turn_commands_max};
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// The client wakes a parked thread by a futex in shared memory. A client that forgets to, or that
// corrupts the word, waits until the thread next wakes by itself, and delays nothing else.
#include "apps/fuse/ring_server.hpp"

#include <chrono>

#include "base/out_of_memory.hpp"
#include "base/processors.hpp"
#include "fs/ring/parking.hpp"

namespace warren::fuse {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds longest_look{100};  // same as for requests of the kernel
constexpr u32 longest_sleep_ms = 100;
constexpr std::chrono::microseconds shortest_sleep{100};  // if no command had arrived

}  // namespace

RingServer::RingServer(MountState& mount, Invalidator& invalidator, Peer peer, RingTurn turn)
    : peer_(peer), turn_(std::move(turn)), commands_(mount, invalidator, std::move(peer)) {}

RingServer::~RingServer() {
    if (thread_.joinable()) {
        lose();
        ring::wake(ring_.doorbell());
        thread_.join();
    }
    turn_.gone();
}

/// Ends the service and wakes clients that wait for a completion.
void RingServer::lose() {
    system_atomic<u32>(ring_.status().lost).store(1, hd::memory_order_relaxed);
    // Only a request to stop; join() provides the ordering.
    ending_.store(true, std::memory_order_relaxed);
}

Errc RingServer::open() {
    WARREN_TRY(ring_.create(shape, {peer_.user, peer_.group, peer_.groups}, false));
    reader_ = std::make_unique<ring::RingReader>(ring_.ring(), ring_.stamp());
    return received_.data() != nullptr && replies_.data() != nullptr ? Errc::ok : Errc::no_memory;
}

Errc RingServer::hand_over(int socket) {
    WARREN_TRY(ring_.hand_over(socket));
    return or_no_memory([this] {  // on failure the connection ends, and with it the ring
        thread_ = std::thread([this] { serve(); });
    });
}

/// Runs the commands that have arrived; returns their number.
u32 RingServer::take_turn() {
    u32 count = 0;
    u64 bytes = 0;
    while (count < turn_commands_max && bytes < turn_bytes_max) {
        ring::Received& next = received_.reach(count);
        if (!reader_->take(next)) break;
        replies_.reach(count);
        bytes += next.block_bytes;
        ++count;
    }
    if (count == 0) return 0;
    const std::span<ring::Received> received(received_.data(), count);
    const std::span<ops::Reply> replies(replies_.data(), count);
    if (!turn_.begin()) {
        lose();
        return 0;
    }
    commands_.run(received, replies);
    turn_.end();
    for (u32 i = 0; i < count; ++i) {
        reader_->complete(received[i], replies[i]);
        received[i].block.reset();  // a client must not make us keep one for each cell
    }
    return count;
}

/// Sleeps until the client rings, or for longest_sleep_ms.
bool RingServer::park() {
    const u32 seen = ring::wakes_seen(ring_.doorbell());
    ring::begin_parking(ring_.status());
    const bool has_command = reader_->has_command();
    if (!has_command && !ending_.load(std::memory_order_relaxed)) {
        ring::wait_for_wake(ring_.doorbell(), seen, longest_sleep_ms);
        // A client rings after writing a command. One that rings without a command must not cause
        // busy polling.
        if (!reader_->has_command()) std::this_thread::sleep_for(shortest_sleep);
    }
    ring::end_parking(ring_.status());
    return has_command;
}

void RingServer::serve() {
    const bool may_look = usable_processors() > 1;
    Clock::time_point last = Clock::now();
    bool had_some = false;  // since the last sleep
    while (!ending_.load(std::memory_order_relaxed)) {
        if (take_turn() != 0) {
            last = Clock::now();
            had_some = true;
        } else if (!may_look || !had_some || Clock::now() - last > longest_look) {
            had_some = park();
        }
    }
}

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// Sends the parts of a long answer to a peer that may be slow, stopped or hostile. Worker threads
// add items; a thread of this stream sends them.
//
// Invariant: put() and is_full() never wait for the peer, and no lock is held while sending. Memory
// stays bounded if nothing is added once the stream is full.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "apps/fuse/control_protocol.hpp"

namespace warren::fuse {

/// How a connection sends parts.
struct PartSink {
    std::function<bool(std::string_view)> send;  // blocks; false if the peer is gone
    std::function<void()> give_up;               // ends the connection, including a blocked send()
};

class PartStream {
 public:
    static constexpr std::size_t part_bytes = 256 * 1024;
    static constexpr std::size_t queue_bytes_max = 4 * 1024 * 1024;
    /// A peer that reads less than half a queue in this time is disconnected.
    static constexpr std::chrono::seconds patience{60};

    explicit PartStream(const PartSink& sink) : sink_(sink) {}
    ~PartStream();
    PartStream(const PartStream&) = delete;
    PartStream& operator=(const PartStream&) = delete;

    /// Adds an item. Returns false if the peer is gone. Throws if memory or a thread is
    /// unavailable.
    bool put(const Encoder& item);
    /// Whether to wait before adding more, because the queue is full or the peer is gone.
    bool is_full() const { return is_full_.load(std::memory_order_relaxed); }
    /// Waits until there is room. Errc::canceled if the peer is gone or too slow.
    Errc wait_for_room();
    /// Sends what is left; Errc::canceled if the peer did not receive everything.
    Errc finish();

 private:
    void queue_part();
    void note_fill();
    void send_queued();
    void break_off();

    const PartSink& sink_;
    std::mutex mutex_;  // guards the members below, except is_full_
    std::condition_variable changed_;
    Encoder part_;
    std::deque<std::string> queue_;
    std::size_t queued_bytes_ = 0;  // including what is being sent
    bool is_ending_ = false;
    bool is_broken_ = false;
    std::atomic<bool> is_full_{false};
    std::thread sender_;  // started with the first full part
};

}  // namespace warren::fuse

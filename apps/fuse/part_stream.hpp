// SPDX-License-Identifier: Apache-2.0
// The parts of a long answer on their way to a peer that may be slow, stopped or hostile. Workers
// put items in; a thread of this stream sends them.
//
// Invariant: put() and is_full() never wait for the peer, and no lock is held while something is
// sent. Memory stays bounded if no more is put in once the stream is full.
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

/// How a connection takes parts.
struct PartSink {
    std::function<bool(std::string_view)> send;  // waits; false if the peer is gone
    std::function<void()> give_up;               // ends the connection, send() under way included
};

class PartStream {
 public:
    static constexpr std::size_t part_bytes = 256 * 1024;
    static constexpr std::size_t queue_bytes_max = 4 * 1024 * 1024;
    /// A peer that takes less than half a queue in this time is let go.
    static constexpr std::chrono::seconds patience{60};

    explicit PartStream(const PartSink& sink) : sink_(sink) {}
    ~PartStream();
    PartStream(const PartStream&) = delete;
    PartStream& operator=(const PartStream&) = delete;

    /// Adds an item. False if the peer is gone. Throws where there is no memory or thread.
    bool put(const Encoder& item);
    /// Whether the peer should be waited for before more is put in, or is gone.
    bool is_full() const { return is_full_.load(std::memory_order_relaxed); }
    /// Waits until there is room for more. Errc::canceled if the peer is gone or too slow.
    Errc wait_for_room();
    /// Sends what is left; Errc::canceled if the peer has not got all of it.
    Errc finish();

 private:
    void queue_part();
    void note_fill();
    void send_queued();
    void break_off();

    const PartSink& sink_;
    std::mutex mutex_;  // guards what follows, but for is_full_
    std::condition_variable changed_;
    Encoder part_;
    std::deque<std::string> queue_;
    std::size_t queued_bytes_ = 0;  // what is being sent included
    bool is_ending_ = false;
    bool is_broken_ = false;
    std::atomic<bool> is_full_{false};
    std::thread sender_;  // started with the first part that is full
};

}  // namespace warren::fuse

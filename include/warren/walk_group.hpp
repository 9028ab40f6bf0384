// SPDX-License-Identifier: Apache-2.0
// The processes (ranks) that perform one walk together: how they exchange messages during it, and
// what they agree on before and after it.
//
// Invariant: send() and receive() never wait. Messages between two ranks arrive in the order in
// which they were sent, and a message of send_to_rank_0() arrives as one message.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warren/types.hpp"

namespace warren::walk {

class Group {
 public:
    virtual ~Group() = default;

    virtual u32 rank() const = 0;
    /// For each rank an arbitrary number that identifies its node.
    virtual const std::vector<u32>& nodes() const = 0;
    u32 ranks() const { return static_cast<u32>(nodes().size()); }

    /// All ranks call both, around each walk. A message never arrives in a later walk.
    virtual void begin_walk() = 0;
    virtual void end_walk() = 0;
    /// Both only during a walk, on the thread that called walk(). Requires: `to` is another rank.
    virtual void send(u32 to, std::string message) = 0;
    virtual bool receive(u32& from, std::string& message) = 0;
    /// Waits for wake(), for at most `microseconds`. Returns whether wake() was called since the
    /// last wait. Called on the thread that called walk().
    virtual bool wait(u32 microseconds) {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::chrono::microseconds(microseconds), [this] { return is_woken_; });
        return std::exchange(is_woken_, false);
    }
    /// Ends this rank's wait(). Can be called from any thread.
    virtual void wake() {
        std::lock_guard lock(mutex_);
        is_woken_ = true;
        wake_.notify_one();
    }
    /// Whether every message to this rank also wakes it.
    virtual bool messages_wake() const { return false; }
    /// Returns the bytes of all ranks, indexed by rank. All ranks call it, outside of a walk.
    virtual std::vector<std::string> gather(std::string_view own) = 0;

    /// Returns the bytes passed by rank 0 on all ranks. All ranks call it, outside of a walk.
    std::string share(std::string_view of_rank_0);

    /// What this rank has sent to each rank in all walks: the numbers of messages and bytes,
    /// alternating.
    const std::vector<u64>& traffic() const { return traffic_; }

    /// Sends a message of the caller to rank 0, during a walk or at the next flush(). Can be called
    /// from any thread. Waits while too many bytes are in transit. Requires: this is not rank 0.
    void send_to_rank_0(u8 kind, std::string_view bytes);
    /// Sets what rank 0 calls with each of these messages, on one thread at a time.
    void set_receiver(std::function<void(u32 from, u8 kind, std::string_view bytes)> receiver);
    /// Delivers to rank 0 the messages that were sent outside of walks. All ranks call it.
    void flush();

 private:
    friend class Courier;
    struct CallerMessage {
        u8 kind;
        std::string bytes;
    };
    void enter_walk();
    void leave_walk();
    bool has_caller_messages();
    bool has_under_way();
    std::vector<CallerMessage> take_caller_messages();
    void caller_message_arrived(u64 bytes);
    void receive_at_rank_0(u32 from, u8 kind, std::string_view bytes);

    std::vector<u64> traffic_;
    std::function<void(u32, u8, std::string_view)> receiver_;
    std::mutex mutex_;  // guards the members below
    std::condition_variable arrived_;
    std::condition_variable wake_;
    bool is_woken_ = false;
    std::vector<CallerMessage> caller_messages_;
    u64 under_way_bytes_ = 0;  // of caller messages that rank 0 has not received yet
    bool in_walk_ = false;
};

/// The ranks of the MPI job to which this process belongs. The first call loads the MPI that
/// started the process, Open MPI or MPICH; it is finalized when the process ends. Returns null with
/// an empty `problem` if there is no such job or it has only one rank. Returns null with the reason
/// in `problem` after an error, and also if another launcher has started several processes, each of
/// which would do all of the work. For tests `WARREN_WALK_NODE` (a name) or
/// `WARREN_WALK_RANKS_PER_NODE` replace the actual nodes of the ranks.
Group* mpi_group(std::string& problem);

}  // namespace warren::walk

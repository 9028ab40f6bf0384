// SPDX-License-Identifier: Apache-2.0
// The resident server: a few warps that stay on the GPU and take commands from rings in the host's
// memory, so that one command costs a round trip over the bus and no launch.
//
// It lives in bounded epochs: a call of the host program that waits for all kernels (cudaFree,
// loading a module) waits for the end of one at most. It parks: after some time without commands
// the epoch ends, and the next command starts another one.
//
// Invariant: between pause() and resume() no command runs. A command in a ring stays there.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fs/engine/cuda/server/server_protocol.hpp"
#include "fs/ring/client.hpp"
#include "fs/ring/pool.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

struct ServerOptions {
    int device = 0;
    u32 blocks = 8;             // each takes a multiprocessor while the server is awake
    u32 epoch_us = 5'000;       // at most so long waits a cudaFree elsewhere in the program
    u32 idle_us = 2'000;        // without a command until the server parks
    u32 watchdog_ms = 5'000;    // longer than this no command should run
    bool tells_of_loss = true;  // of a lost device too; else it stands in the statistics alone
    /// Told of what takes too long and of what broke; else it goes to the standard error stream.
    std::function<void(const std::string&)> report = {};
};

struct ServerStatistics {
    u64 epochs = 0;
    u64 parks = 0;
    u64 wakes = 0;     // epochs started because a command found the server parked
    u64 polls = 0;     // looks at the host's memory, up to the last epoch's end
    u64 commands = 0;  // likewise
    u64 late = 0;      // commands that the watchdog reported
    bool is_parked = false;
    bool is_lost = false;
    std::string loss;  // why
};

class ResidentServer {
 public:
    ResidentServer() = default;
    ~ResidentServer();  // stops
    ResidentServer(const ResidentServer&) = delete;
    ResidentServer& operator=(const ResidentServer&) = delete;

    /// Shows the rings of `pool` to the GPU and starts serving the open ones. `pool` outlives this.
    Errc start(const core::Store& store, ring::RingPool& pool, const ServerOptions& options);
    /// Ends the epoch and stays down. Errc::io if the device was lost meanwhile.
    Errc stop();

    /// Waits until nothing is running: a command can be answered a moment before it has applied all
    /// that it does. Errc::busy if the server has not said so after some milliseconds, Errc::io if
    /// the device was lost. Requires: every command that was given is answered, and no other is
    /// given meanwhile; one caller at a time.
    Errc settle();
    /// Ends the epoch and lets no other begin until resume(). What was begun is completed.
    Errc pause();
    /// Goes on, with what the pool's rings and `store` are now.
    Errc resume(const core::Store& store);

    /// Calls `body` while nothing is running, and answers what it answers. A server that does not
    /// settle soon is paused meanwhile. Requires: as settle(); `store` outlives `body`, which may
    /// change it.
    template <class Body>
    Errc while_at_rest(const core::Store& store, const Body& body) {
        Errc code = settle();
        const bool is_paused = code == Errc::busy;
        if (is_paused) code = pause();
        if (code == Errc::ok) code = body();
        if (is_paused && code != Errc::io && resume(store) != Errc::ok) code = Errc::io;
        return code;
    }

    ServerStatistics statistics() const;

 private:
    enum class Request : u8 { run, pause, stop };

    Errc show_rings();
    void keep();
    bool keep_once();
    bool start_epoch();
    bool wait_for_end();
    void watch(u64& reported);
    bool epoch_has_ended() const;
    void park();
    bool any_ring_has_command() const;
    void lose();
    void tell(const std::string& line) const;
    Errc change(Request request);

    ring::RingPool* pool_ = nullptr;
    ServerOptions options_;
    core::Store store_{};
    gpu::Stream stream_;
    gpu::PinnedBuffer<ServerControl> control_;
    gpu::PinnedBuffer<ServerReport> report_;
    gpu::DeviceBuffer<ServerMemory> memory_;
    gpu::DeviceBuffer<Staging> staging_;
    gpu::DeviceBuffer<RingEntry> entries_;
    gpu::DeviceBuffer<u32> groups_;
    gpu::PinnedRange doorbell_;
    std::vector<gpu::PinnedRange> rings_;
    std::vector<u32> generations_;  // of the pool's rings when they were shown
    // What show_rings() copies to the device. Kept, so that resume() asks for no memory as long as
    // the rings stay as they are.
    struct {
        std::vector<RingEntry> entries;
        std::vector<u64> group_begins;
        std::vector<u32> groups;
    } shown_;

    u64 settles_ = 0;
    std::thread keeper_;
    mutable std::mutex mutex_;  // guards all below
    std::condition_variable changed_;
    Request request_ = Request::run;
    bool is_running_ = false;  // an epoch was started and its end not yet seen
    u64 epoch_ = 0;
    ServerStatistics statistics_;
};

}  // namespace warren::cuda_engine

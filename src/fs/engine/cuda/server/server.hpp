// SPDX-License-Identifier: Apache-2.0
// The resident server: a few warps that stay on the GPU and take commands from a ring in host
// memory, so that a command costs a round trip over the bus instead of a launch.
//
// The server's kernel runs in epochs of bounded length, so a CUDA call that waits for all kernels
// (cudaFree, loading a module) waits for the end of one epoch at most. After some time without
// commands the epoch ends and the server parks; the next command starts another epoch.
//
// Invariant: between pause() and resume() no command runs; commands in the ring stay there.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fs/engine/cuda/server/server_protocol.hpp"
#include "fs/ring/client.hpp"
#include "fs/ring/shared_ring.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

struct ServerOptions {
    int device = 0;
    u32 blocks = 8;           // each occupies a multiprocessor while the server is awake
    u32 epoch_us = 5'000;     // the longest that a cudaFree elsewhere in the program waits
    u32 idle_us = 2'000;      // time without commands after which the server parks
    u32 watchdog_ms = 5'000;  // epochs that end later by this are reported by notice()
};

struct ServerStatistics {
    u64 epochs = 0;
    u64 parks = 0;
    u64 wakes = 0;  // epochs started because of a command to the parked server
    u64 late = 0;   // epochs that were reported because they did not end
    bool is_parked = false;
    bool is_lost = false;
    std::string loss;  // why the device was lost
};

class ResidentServer {
 public:
    ResidentServer() = default;
    ~ResidentServer();  // calls stop()
    ResidentServer(const ResidentServer&) = delete;
    ResidentServer& operator=(const ResidentServer&) = delete;

    /// Registers the ring with the GPU and starts serving it. Requires: `ring` outlives this, and
    /// its peer has no groups, because the GPU could not read them.
    Errc start(const core::Store& store, ring::SharedRing& ring, const ServerOptions& options);
    /// Ends the epoch and stops the server for good. Errc::io if the device was lost meanwhile.
    Errc stop();

    /// Waits until no command is running: a command may still be applying when its answer has
    /// arrived. Errc::busy if that is not confirmed within a few milliseconds, Errc::io if the
    /// device was lost. Requires: all submitted commands are answered, and none is submitted
    /// meanwhile; one caller at a time.
    Errc settle();
    /// Ends the epoch and starts no other until resume(). Running commands are completed first.
    Errc pause();
    /// Continues, with `store`.
    Errc resume(const core::Store& store);

    /// Ends the epoch as soon as no command is running, and parks until the next one: a kernel that
    /// needs all multiprocessors would wait for the end of the idle time. Does not wait.
    void make_way();

    /// Calls `body` while no command is running, and returns its result. A server that does not
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

    void keep();
    bool keep_once();
    bool start_epoch();
    bool wait_for_end();
    bool epoch_has_ended() const;
    void park();
    void lose();
    void ask_for_end();
    Errc change(Request request);

    ring::SharedRing* ring_ = nullptr;
    RingEntry entry_{};
    ServerOptions options_;
    core::Store store_{};
    gpu::Stream stream_;
    gpu::PinnedBuffer<ServerControl> control_;
    gpu::PinnedBuffer<ServerReport> report_;
    gpu::DeviceBuffer<ServerMemory> memory_;
    gpu::DeviceBuffer<Staging> staging_;
    gpu::PinnedRange pinned_;  // the ring's memory

    u64 settles_ = 0;
    std::thread keeper_;
    mutable std::mutex mutex_;  // guards all below
    std::condition_variable changed_;
    Request request_ = Request::run;
    bool is_running_ = false;  // an epoch was started, and its end was not noticed yet
    bool ends_soon_ = false;   // its end was requested, and keep() has not seen that
    u64 epoch_ = 0;
    ServerStatistics statistics_;
};

}  // namespace warren::cuda_engine

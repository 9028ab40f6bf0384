// SPDX-License-Identifier: Apache-2.0
// The host's side of the resident server: one thread, the keeper, starts epochs, waits for their
// ends, reports those that come too late, and sleeps while the server is parked.
#include "fs/engine/cuda/server/server.hpp"

#include <chrono>
#include <utility>

#include "base/check.hpp"
#include "base/notice.hpp"
#include "fs/engine/cuda/server/server_fault.hpp"
#include "fs/ring/parking.hpp"
#include "fs/ring/reader.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto look_interval = microseconds(200);  // between checks whether the epoch has ended
constexpr auto last_stretch = microseconds(500);   // within this of its due end, without sleep
constexpr auto settle_patience = milliseconds(5);
constexpr u32 park_ms = 100;  // the parked keeper looks for commands at least this often

}  // namespace

ResidentServer::~ResidentServer() {
    static_cast<void>(stop());
}

Errc ResidentServer::start(const core::Store& store, ring::SharedRing& ring,
                           const ServerOptions& options) {
    options_ = options;
    if (options_.blocks == 0 || options_.blocks > server_blocks_max) return Errc::invalid;
    const gpu::DeviceScope device(options_.device);
    WARREN_TRY(device.code());
    ring_ = &ring;
    entry_ = {ring.ring(), ring.stamp()};
    WARREN_CHECK(entry_.stamp.caller.group_count == 0);
    store_ = store;
    const u32 workers = options_.blocks * warps_per_server_block;
    WARREN_TRY(prepare_fault_record());
    WARREN_TRY(stream_.open(true));
    WARREN_TRY(control_.allocate(1));
    WARREN_TRY(report_.allocate(1));
    *control_.data() = ServerControl{};
    *report_.data() = ServerReport{};
    WARREN_TRY(memory_.allocate(1));
    WARREN_TRY(staging_.allocate(workers));
    WARREN_TRY(stream_.fill(memory_.data(), 0, memory_.bytes()));
    pinned_ = gpu::PinnedRange(ring.bytes().data(), ring.bytes().size());
    if (!pinned_.is_pinned()) return Errc::no_memory;
    request_ = Request::run;
    keeper_ = std::thread([this] { keep(); });
    return Errc::ok;
}

bool ResidentServer::epoch_has_ended() const {
    // Acquire: pairs with the release in close_epoch().
    return system_atomic<u64>(report_.data()->ended_epoch).load(hd::memory_order_acquire) == epoch_;
}

/// Starts an epoch, unless a pause or stop was requested. False if the launch failed.
bool ResidentServer::start_epoch() {
    const std::lock_guard lock(mutex_);
    if (request_ != Request::run) return true;
    ServerArguments arguments{};
    arguments.store = store_;
    arguments.ring = entry_;
    arguments.next = report_.data()->next;
    arguments.control = control_.data();
    arguments.report = report_.data();
    arguments.memory = memory_.data();
    arguments.staging = staging_.data();
    arguments.epoch = ++epoch_;
    arguments.epoch_ns = u64{options_.epoch_us} * 1000;
    arguments.idle_ns = u64{options_.idle_us} * 1000;
    is_running_ = true;
    ends_soon_ = false;
    ++statistics_.epochs;
    return launch_epoch(arguments, options_.blocks, stream_.get()) == Errc::ok;
}

/// Waits for the end of the epoch, and reports one that does not end, as happens while a
/// command runs. False if the device was lost.
bool ResidentServer::wait_for_end() {
    const auto begin = Clock::now();
    auto due = begin + microseconds(options_.epoch_us);
    const auto overdue = due + milliseconds(options_.watchdog_ms);
    bool told = false;
    auto queried = begin;
    while (!epoch_has_ended()) {
        const auto now = Clock::now();
        // A failed device writes no report, so query the runtime every 10 ms.
        if (now - queried > milliseconds(10)) {
            queried = now;
            const cudaError_t state = cudaStreamQuery(stream_.get());
            if (state != cudaErrorNotReady && gpu::check(state, "cudaStreamQuery") != Errc::ok)
                return false;
            static_cast<void>(cudaGetLastError());  // or the next launch reports cudaErrorNotReady
        }
        if (now > overdue && !told) {
            told = true;
            notice("the server on the GPU has not ended its epoch for " +
                   std::to_string(options_.watchdog_ms) +
                   " ms: a command runs for that long, or other kernels keep the GPU busy");
            const std::lock_guard lock(mutex_);
            ++statistics_.late;
        }
        if (now + last_stretch < due || now > due + last_stretch) {
            std::unique_lock lock(mutex_);
            changed_.wait_for(lock, look_interval, [&] { return ends_soon_; });
            if (std::exchange(ends_soon_, false)) due = Clock::now();
        } else {
            std::this_thread::yield();
        }
    }
    return stream_.wait() == Errc::ok;
}

/// Sleeps until the ring has a command, or until a pause or stop is requested.
void ResidentServer::park() {
    {
        const std::lock_guard lock(mutex_);
        if (request_ != Request::run) return;
        ++statistics_.parks;
        statistics_.is_parked = true;
    }
    const ring::RingReader reader(entry_.memory, entry_.stamp, report_.data()->next);
    bool was_woken = false;
    for (;;) {
        const u32 seen = ring::wakes_seen(ring_->doorbell());
        ring::begin_parking(ring_->status());
        was_woken = reader.has_command();
        const bool goes_on = [&] {
            const std::lock_guard lock(mutex_);
            return request_ == Request::run;
        }();
        if (was_woken || !goes_on) break;
        ring::wait_for_wake(ring_->doorbell(), seen, park_ms);
    }
    ring::end_parking(ring_->status());
    const std::lock_guard lock(mutex_);
    statistics_.is_parked = false;
    changed_.notify_all();
    if (was_woken) ++statistics_.wakes;
}

void ResidentServer::lose() {
    std::string reason = loss_reason();
    static_cast<void>(stream_.wait());  // a launch that a test lets fail was made all the same
    const std::lock_guard lock(mutex_);
    statistics_.is_lost = true;
    statistics_.loss = std::move(reason);
    is_running_ = false;
    // Release: a thread that sees `lost` also sees the writes before it.
    system_atomic<u32>(ring_->status().lost).store(1, hd::memory_order_release);
    changed_.notify_all();
}

/// Runs one epoch, and parks unless its time was up. False if the device was lost.
bool ResidentServer::keep_once() {
    if (!start_epoch()) return false;
    bool runs;
    {
        const std::lock_guard lock(mutex_);
        runs = is_running_;
    }
    if (!runs) return true;
    if (!wait_for_end()) return false;
    const ServerReport& report = *report_.data();
    {
        const std::lock_guard lock(mutex_);
        is_running_ = false;
        changed_.notify_all();
    }
    if (report.end != EpochEnd::time) park();
    return true;
}

void ResidentServer::keep() {
    if (gpu::use_device(options_.device) != Errc::ok) return lose();
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return request_ != Request::pause; });
            if (request_ == Request::stop) return;
        }
        if (!keep_once()) return lose();
    }
}

/// Requires: mutex_ is held.
void ResidentServer::ask_for_end() {
    // Release, though quiet_turn() reads it relaxed: the word is only a request.
    system_atomic<u64>(control_.data()->end_epoch).store(epoch_, hd::memory_order_release);
    ends_soon_ = true;
    changed_.notify_all();
}

void ResidentServer::make_way() {
    if (!keeper_.joinable()) return;
    const std::lock_guard lock(mutex_);
    ask_for_end();
}

/// Requests a pause or the stop of the server, and waits until no epoch runs and keep() does not
/// look at the ring.
Errc ResidentServer::change(Request request) {
    if (!keeper_.joinable()) return Errc::ok;
    std::unique_lock lock(mutex_);
    request_ = request;
    ask_for_end();
    ring::wake(ring_->doorbell());
    changed_.wait(lock, [&] { return !is_running_ && !statistics_.is_parked; });
    return statistics_.is_lost ? Errc::io : Errc::ok;
}

Errc ResidentServer::settle() {
    if (!keeper_.joinable()) return Errc::ok;
    const u64 asked = ++settles_;
    // Release: passes on what this thread acquired from the completions of the answered commands.
    system_atomic<u64>(control_.data()->settle).store(asked, hd::memory_order_release);
    const auto begin = Clock::now();
    for (;;) {
        for (u32 look = 0; look < 64; ++look) {
            // Acquire: pairs with the release in answer_settle().
            if (system_atomic<u64>(report_.data()->settled).load(hd::memory_order_acquire) == asked)
                return Errc::ok;
        }
        const std::lock_guard lock(mutex_);
        if (statistics_.is_lost) return Errc::io;
        // An epoch ends only when no command is running. keep() may notice its end later.
        if (!is_running_ || epoch_has_ended()) return Errc::ok;
        if (Clock::now() - begin > settle_patience) return Errc::busy;
    }
}

Errc ResidentServer::pause() {
    return change(Request::pause);
}

Errc ResidentServer::resume(const core::Store& store) {
    const std::lock_guard lock(mutex_);
    if (statistics_.is_lost) return Errc::io;
    store_ = store;
    request_ = Request::run;
    changed_.notify_all();
    return Errc::ok;
}

Errc ResidentServer::stop() {
    const Errc stopped = change(Request::stop);
    if (keeper_.joinable()) keeper_.join();
    return stopped;
}

ServerStatistics ResidentServer::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

}  // namespace warren::cuda_engine

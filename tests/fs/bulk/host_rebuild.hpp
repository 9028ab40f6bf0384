// SPDX-License-Identifier: Apache-2.0
// Runs the GPU's directory rebuild by threads or by lanes in lockstep, on a host's Store.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "fs/bulk/rebuild/directory_rebuild_room.hpp"
#include "fs/bulk/rebuild/directory_rebuild_worker.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/host_buffer.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren {

/// The workers of a rebuild, as threads or as lanes in lockstep, and what they share.
class HostRebuildWorkers {
 public:
    HostRebuildWorkers(u64 workers, bool in_lockstep)
        : workers_(workers), in_lockstep_(in_lockstep) {
        EXPECT_EQ(room_.open(), Errc::ok);
        EXPECT_EQ(room_.grow(0), Errc::ok);
    }

    Errc grow(u64 blocks) { return room_.grow(blocks); }
    /// Packs one window.
    void run(const core::Store& store, const core::Credentials& caller, Handle directory,
             const bulk::RebuildWindows& windows) {
        const bulk::RebuildRef ref = room_.ref(workers_, windows, &report_);
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < workers_; ++worker)
            threads.emplace_back([&, worker] { work(store, ref, worker, caller, directory); });
        for (std::thread& thread : threads)
            thread.join();
    }
    const bulk::RebuildState& report() const { return report_; }
    u64 wanted(u32 i) const { return room_.wanted.data()[i]; }

 private:
    void work(const core::Store& store, const bulk::RebuildRef& ref, u32 worker,
              const core::Credentials& caller, Handle directory) {
        const UncountedAllocations uncounted;
        const auto scratch = std::make_unique<bulk::RebuildScratch>();
        if (!in_lockstep_) {
            bulk::RebuildWorker<ThreadTeam>(ThreadTeam{worker}, store, ref, *scratch)
                .run(caller, directory);
            return;
        }
        Lockstep<4> lanes(worker);
        lanes.run([&](const LockstepTeam<4>& team) {
            bulk::RebuildWorker<LockstepTeam<4>>(team, store, ref, *scratch).run(caller, directory);
        });
    }

    const u64 workers_;
    const bool in_lockstep_;
    bulk::RebuildRoom<HostBuffer> room_;
    bulk::RebuildState report_{};
};

/// The host counterpart of DirectoryRebuild.
class HostRebuild {
 public:
    HostRebuild(VolumeImplementation& volume, u64 workers, bool in_lockstep)
        : volume_(volume), workers_(workers, in_lockstep) {}

    Errc operator()(const Caller& caller, Handle directory) {
        const core::Credentials who = credentials_of(caller);
        const auto run_window = [&](const bulk::RebuildWindows& windows) {
            workers_.run(volume_.store(), who, directory, windows);
            const bool is_packed = workers_.report().code() == Errc::ok;
            return is_packed && ++steps == steps_max ? Errc::canceled : Errc::ok;
        };
        return bulk::pack_windows({.leaves_max = leaves_max}, workers_.report(), run_window, *this);
    }

    // What pack_windows() requests between two runs.
    Errc bring_wanted() {
        for (u32 i = 0; i < workers_.report().wanted_count; ++i)
            WARREN_TRY(volume_.loader().load(workers_.wanted(i)));
        return Errc::ok;
    }
    Errc grow(u64 blocks) { return workers_.grow(blocks); }
    Errc commit() { return volume_.commit(); }
    Errc rest() {
        std::this_thread::yield();
        return Errc::ok;
    }

    u64 leaves_max = ~u64{0};  // of a window
    u32 steps = 0;             // windows that were packed
    u32 steps_max = ~u32{0};   // Errc::canceled behind so many

 private:
    VolumeImplementation& volume_;
    HostRebuildWorkers workers_;
};

}  // namespace warren

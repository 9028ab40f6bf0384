// SPDX-License-Identifier: Apache-2.0
// Runs the GPU's directory rebuild by threads or by lanes in lockstep, on a host's Store.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "fs/bulk/rebuild/directory_rebuild_room.hpp"
#include "fs/bulk/rebuild/directory_rebuild_worker.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/host_buffer.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren {

/// The host counterpart of DirectoryRebuild.
class HostRebuild {
 public:
    HostRebuild(VolumeImplementation& volume, u64 workers, bool in_lockstep)
        : volume_(volume), workers_(workers), in_lockstep_(in_lockstep) {
        EXPECT_EQ(room_.open(), Errc::ok);
        EXPECT_EQ(room_.grow(0), Errc::ok);
    }

    Errc operator()(const Caller& caller, Handle directory) {
        const core::Credentials who = credentials_of(caller);
        const auto run_window = [&](const bulk::RebuildWindows& windows) {
            run(who, directory, windows);
            const bool is_packed = report_.code() == Errc::ok;
            return is_packed && ++steps == steps_max ? Errc::canceled : Errc::ok;
        };
        return bulk::pack_windows({.leaves_max = leaves_max}, report_, run_window, *this);
    }

    // What pack_windows() requests between two runs.
    Errc bring_wanted() {
        for (u32 i = 0; i < report_.wanted_count; ++i)
            WARREN_TRY(volume_.loader().load(room_.wanted.data()[i]));
        return Errc::ok;
    }
    Errc grow(u64 blocks) { return room_.grow(blocks); }
    Errc commit() { return volume_.commit(); }
    Errc rest() {
        std::this_thread::yield();
        return Errc::ok;
    }

    u64 leaves_max = ~u64{0};  // of a window
    u32 steps = 0;             // windows that were packed
    u32 steps_max = ~u32{0};   // Errc::canceled behind so many

 private:
    void run(const core::Credentials& caller, Handle directory,
             const bulk::RebuildWindows& windows) {
        const bulk::RebuildRef ref = room_.ref(workers_, windows, &report_);
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < workers_; ++worker)
            threads.emplace_back([&, worker] { work(ref, worker, caller, directory); });
        for (std::thread& thread : threads)
            thread.join();
    }

    void work(const bulk::RebuildRef& ref, u32 worker, const core::Credentials& caller,
              Handle directory) {
        const auto scratch = std::make_unique<bulk::RebuildScratch>();
        const core::Store& store = volume_.store();
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

    VolumeImplementation& volume_;
    const u64 workers_;
    const bool in_lockstep_;
    bulk::RebuildRoom<HostBuffer> room_;
    bulk::RebuildState report_{};
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Scans as a GPU does them, by threads or by lanes in lockstep, on a host's Store.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "fs/engine/cuda/tree_scan_room.hpp"
#include "fs/engine/cuda/tree_scan_worker.hpp"
#include "tests/fs/engine/scan_answers.hpp"
#include "tests/support/host_buffer.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren {

struct HostScanShape {
    u64 workers = 3;
    bool in_lockstep = false;
    u64 queue_capacity = 1024;
    u64 range_max = 4096;
    u64 output_slack = 1u << 20;  // words beyond what workers must have
    u64 directory_slack = 1u << 14;
};

/// The counterpart of TreeScan.
class HostScan {
 public:
    explicit HostScan(VolumeImplementation& volume, const HostScanShape& shape = {})
        : volume_(volume), shape_(shape) {
        EXPECT_EQ(make_room(), Errc::ok);
    }

    template <class Take>
    Errc scan(const cuda_engine::ScanPlan& plan, Handle root, const Take& take) {
        std::fill_n(room_.linked.data(), room_.linked.count(), 0);
        const cuda_engine::ScanState& state = *room_.state.data();
        u32 damaged = 0;
        runs = 0;
        for (;; ++runs) {
            if (runs == 0) cuda_engine::start_scan(ref(), root);
            const u32 count = state.spilled_count;
            const ops::TreeTask* const left = room_.turn_over();
            const cuda_engine::ScanRef now = ref();
            cuda_engine::start_run(now);
            for (u32 i = 0; i < count; ++i)
                cuda_engine::seed_scan(now, i, left[i]);
            now.queue.begin_over(ThreadTeam{});
            run(plan, now);
            const Errc code = static_cast<Errc>(state.error);
            cuda_engine::ScanOutput output;
            output.words = room_.output.data();
            output.word_count = state.written & ((u64{1} << cuda_engine::written_shift) - 1);
            output.bundles = {room_.bundles.data(), state.written >> cuda_engine::written_shift};
            output.directory_count = state.directory_count;
            take(output);
            if (code != Errc::ok) return code;
            if (state.spilled_count == 0) return Errc::ok;
            if (state.damaged_count > 0 && ++damaged == 4) return Errc::corrupt;
            for (u32 i = 0; i < state.wanted_count; ++i) {
                ++brought;
                WARREN_TRY(volume_.loader().load(room_.wanted.data()[i]));
            }
        }
    }

    u64 runs = 0;
    u64 brought = 0;
    std::vector<cuda_engine::ScanSum> sums() const {
        return {room_.sums.data(), room_.sums.data() + room_.state.data()->sum_count};
    }

 private:
    Errc make_room() {
        const u64 leaves = shape_.workers;
        WARREN_TRY(room_.state.allocate(1));
        WARREN_TRY(room_.slots.allocate(shape_.queue_capacity));
        WARREN_TRY(room_.ranges.allocate(shape_.range_max));
        WARREN_TRY(
            room_.directories.allocate(leaves * format::leaf_entries_max + shape_.directory_slack));
        WARREN_TRY(room_.sums.allocate(room_.directories.count()));
        for (auto& list : room_.spilled)
            WARREN_TRY(list.allocate(room_.directories.count() + room_.ranges.count()));
        WARREN_TRY(room_.wanted.allocate(1u << 16));
        WARREN_TRY(
            room_.output.allocate(leaves * cuda_engine::leaf_output_words + shape_.output_slack));
        WARREN_TRY(
            room_.bundles.allocate(leaves * cuda_engine::leaf_bundles + shape_.output_slack));
        const u64 frames = volume_.store().frame_count;
        return room_.linked.allocate(frames * format::inodes_per_frame / 64);
    }

    cuda_engine::ScanRef ref() const { return room_.ref(shape_.workers, 32); }

    void run(const cuda_engine::ScanPlan& plan, const cuda_engine::ScanRef& ref) {
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < shape_.workers; ++worker) {
            threads.emplace_back([&, worker] {
                auto scratch = std::make_unique<cuda_engine::ScanScratch>();
                if (!shape_.in_lockstep) {
                    cuda_engine::ScanWorker<ThreadTeam>(ThreadTeam{worker}, volume_.store(), plan,
                                                        ref, *scratch)
                        .work();
                    return;
                }
                Lockstep<4> lanes(worker);
                lanes.run([&](const LockstepTeam<4>& team) {
                    cuda_engine::ScanWorker<LockstepTeam<4>>(team, volume_.store(), plan, ref,
                                                             *scratch)
                        .work();
                });
            });
        }
        for (std::thread& thread : threads)
            thread.join();
    }

    VolumeImplementation& volume_;
    const HostScanShape shape_;
    cuda_engine::ScanRoom<HostBuffer> room_;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Scans as a GPU does them, by threads or by lanes in lockstep, on a host's Store.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "fs/engine/cuda/tree_scan_worker.hpp"
#include "tests/fs/engine/scan_answers.hpp"
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
        : volume_(volume), shape_(shape), slots_(shape.queue_capacity), ranges_(shape.range_max) {
        const u64 leaves = shape.workers;
        directories_.resize(leaves * format::leaf_entries_max + shape.directory_slack);
        sums_.resize(directories_.size());
        for (auto& list : spilled_)
            list.resize(directories_.size() + ranges_.size());
        wanted_.resize(1u << 16);
        output_.resize(leaves * cuda_engine::leaf_output_words + shape.output_slack);
        bundles_.resize(leaves * cuda_engine::leaf_bundles + shape.output_slack);
        linked_.resize(volume.store().frame_count * format::inodes_per_frame / 64);
    }

    template <class Take>
    Errc scan(const cuda_engine::ScanPlan& plan, Handle root, const Take& take) {
        std::fill(linked_.begin(), linked_.end(), 0);
        u32 damaged = 0;
        runs = 0;
        for (;; ++runs) {
            const cuda_engine::ScanRef shared = ref();
            if (runs == 0) cuda_engine::start_scan(shared, root);
            const u32 count = state_.spilled_count;
            spilling_ ^= 1;
            const cuda_engine::ScanRef now = ref();
            cuda_engine::start_run(now);
            for (u32 i = 0; i < count; ++i)
                cuda_engine::seed_scan(now, i, spilled_[spilling_ ^ 1][i]);
            now.queue.begin_over(ThreadTeam{});
            run(plan, now);
            const Errc code = static_cast<Errc>(state_.error);
            cuda_engine::ScanOutput output;
            output.words = output_.data();
            output.word_count = state_.written & ((u64{1} << cuda_engine::written_shift) - 1);
            output.bundles = {bundles_.data(), state_.written >> cuda_engine::written_shift};
            output.directory_count = state_.directory_count;
            take(output);
            if (code != Errc::ok) return code;
            if (state_.spilled_count == 0) return Errc::ok;
            if (state_.damaged_count > 0 && ++damaged == 4) return Errc::corrupt;
            for (u32 i = 0; i < state_.wanted_count; ++i) {
                ++brought;
                WARREN_TRY(volume_.loader().load(wanted_[i]));
            }
        }
    }

    u64 runs = 0;
    u64 brought = 0;
    std::vector<cuda_engine::ScanSum> sums() const {
        return {sums_.begin(), sums_.begin() + state_.sum_count};
    }

 private:
    cuda_engine::ScanRef ref() {
        cuda_engine::ScanRef ref{};
        ref.state = &state_;
        ref.queue.slots = slots_.data();
        ref.queue.capacity = slots_.size();
        ref.queue.margin = shape_.workers * 32;
        ref.queue.state = &state_.queue;
        ref.directories = directories_.data();
        ref.sums = sums_.data();
        ref.ranges = ranges_.data();
        ref.spilled = spilled_[spilling_].data();
        ref.wanted = wanted_.data();
        ref.output = output_.data();
        ref.bundles = bundles_.data();
        ref.linked = linked_.data();
        ref.directory_max = directories_.size();
        ref.range_max = ranges_.size();
        ref.spilled_max = spilled_[0].size();
        ref.wanted_max = wanted_.size();
        ref.output_max = output_.size();
        ref.bundle_max = bundles_.size();
        ref.linked_frames = linked_.size() / (format::inodes_per_frame / 64);
        ref.workers = shape_.workers;
        return ref;
    }

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
    cuda_engine::ScanState state_{};
    std::vector<cuda_engine::BulkSlot> slots_;
    std::vector<cuda_engine::ScanDirectory> directories_;
    std::vector<cuda_engine::ScanSum> sums_;
    std::vector<cuda_engine::KeyRange> ranges_;
    std::vector<ops::TreeTask> spilled_[2];
    std::vector<u64> wanted_;
    std::vector<u64> output_;
    std::vector<cuda_engine::BundlePlace> bundles_;
    std::vector<u64> linked_;
    u32 spilling_ = 0;
};

}  // namespace warren

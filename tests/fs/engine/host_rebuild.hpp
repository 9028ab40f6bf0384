// SPDX-License-Identifier: Apache-2.0
// A rebuild as a GPU does it, by threads or by lanes in lockstep, on a host's Store.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "fs/engine/cuda/directory_rebuild_worker.hpp"
#include "tests/fs/engine/scan_answers.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren {

/// The counterpart of DirectoryRebuild.
class HostRebuild {
 public:
    HostRebuild(VolumeImplementation& volume, u64 workers, bool in_lockstep)
        : volume_(volume), workers_(workers), in_lockstep_(in_lockstep) {
        make_room(0);
    }

    Errc operator()(const Caller& caller, Handle directory) {
        const core::Credentials who = credentials_of(caller);
        u32 damaged = 0;
        cuda_engine::RebuildWindows windows{.leaves_max = leaves_max};
        for (u32 retry = 0; retry < 100'000; ++retry) {
            const Errc ended = run(who, directory, windows);
            const Errc code = windows.take(report_, ended);
            if (ended == Errc::ok && ++steps == steps_max) return Errc::canceled;
            switch (code) {
                case Errc::retry:
                    std::this_thread::yield();
                    break;
                case Errc::need_block:
                    for (u32 i = 0; i < report_.wanted_count; ++i)
                        WARREN_TRY(volume_.loader().load(wanted_[i]));
                    break;
                case Errc::need_commit:
                    WARREN_TRY(volume_.commit());
                    break;
                case Errc::need_space:
                    make_room(report_.blocks_wanted);
                    break;
                case Errc::corrupt:
                    if (++damaged == 4) return code;
                    break;
                default:
                    return code;
            }
        }
        return Errc::busy;
    }

    u64 leaves_max = ~u64{0};  // of a window
    u32 steps = 0;             // windows that were packed
    u32 steps_max = ~u32{0};   // Errc::canceled behind so many

 private:
    void make_room(u64 blocks) {
        blocks_ = blocks;
        nodes_.resize(blocks);
        node_sizes_.resize(blocks);
        leaves_.resize(blocks);
        leaf_keys_.resize(blocks);
        leaf_sizes_.resize(blocks);
        chunks_.resize(blocks / cuda_engine::chunk_leaves + 1);
        keys_.resize(cuda_engine::rebuild_entries(blocks));
        targets_.resize(keys_.size());
        name_at_.resize(keys_.size() + 1);
        names_.resize(cuda_engine::rebuild_words(blocks));
        segment_cuts_.resize(cuda_engine::rebuild_segments(blocks));
        cuts_.resize(segment_cuts_.size() * cuda_engine::segment_entries);
    }

    Errc run(const core::Credentials& caller, Handle directory,
             const cuda_engine::RebuildWindows& windows) {
        cuda_engine::RebuildRef ref{};
        ref.state = &state_;
        ref.nodes = nodes_.data();
        ref.node_sizes = node_sizes_.data();
        ref.leaves = leaves_.data();
        ref.leaf_keys = leaf_keys_.data();
        ref.from_key = windows.from_key;
        ref.window_max = windows.leaves_max;
        ref.leaf_sizes = leaf_sizes_.data();
        ref.chunks = chunks_.data();
        ref.keys = keys_.data();
        ref.targets = targets_.data();
        ref.name_at = name_at_.data();
        ref.names = names_.data();
        ref.cuts = cuts_.data();
        ref.segment_cuts = segment_cuts_.data();
        ref.wanted = wanted_.data();
        ref.report = &report_;
        ref.block_max = blocks_;
        ref.wanted_max = wanted_.size();
        ref.workers = workers_;
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < workers_; ++worker)
            threads.emplace_back([&, worker] { work(ref, worker, caller, directory); });
        for (std::thread& thread : threads)
            thread.join();
        for (const u32 code : report_.codes) {
            if (code != 0) return static_cast<Errc>(code);
        }
        return Errc::ok;
    }

    void work(const cuda_engine::RebuildRef& ref, u32 worker, const core::Credentials& caller,
              Handle directory) {
        const auto scratch = std::make_unique<cuda_engine::RebuildScratch>();
        const core::Store& store = volume_.store();
        if (!in_lockstep_) {
            cuda_engine::RebuildWorker<ThreadTeam>(ThreadTeam{worker}, store, ref, *scratch)
                .run(caller, directory);
            return;
        }
        Lockstep<4> lanes(worker);
        lanes.run([&](const LockstepTeam<4>& team) {
            cuda_engine::RebuildWorker<LockstepTeam<4>>(team, store, ref, *scratch)
                .run(caller, directory);
        });
    }

    VolumeImplementation& volume_;
    const u64 workers_;
    const bool in_lockstep_;
    u64 blocks_ = 0;
    cuda_engine::RebuildState state_{};
    cuda_engine::RebuildState report_{};
    std::vector<u64> nodes_;
    std::vector<cuda_engine::LeafSize> node_sizes_;
    std::vector<u64> leaves_;
    std::vector<u64> leaf_keys_;
    std::vector<cuda_engine::LeafSize> leaf_sizes_;
    std::vector<cuda_engine::LeafSize> chunks_;
    std::vector<u64> keys_;
    std::vector<u64> targets_;
    std::vector<u32> name_at_;
    std::vector<u64> names_;
    std::vector<u32> cuts_;
    std::vector<u32> segment_cuts_;
    std::vector<u64> wanted_ = std::vector<u64>(1u << 16);
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Runs the GPU's scans by threads or by lanes in lockstep, on a host's Store, with an output buffer
// and with blocks that are loaded between runs.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fs/bulk/scan/scan_room.hpp"
#include "fs/bulk/scan/scan_run.hpp"
#include "fs/bulk/scan/scan_table.hpp"
#include "fs/bulk/scan/scan_worker.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/host_buffer.hpp"
#include "tests/support/lockstep_team.hpp"

namespace warren {

struct OutputScanShape {
    u64 workers = 3;
    bool in_lockstep = false;
    u64 queue_capacity = 1024;
    u64 range_max = 4096;
    u64 output_slack = 1u << 20;  // words beyond what workers must have
    u64 directories = 1;          // to begin with; grows
};

/// The host counterpart of TreeScan.
class OutputScan {
 public:
    explicit OutputScan(VolumeImplementation& volume, const OutputScanShape& shape = {})
        : OutputScan(
              volume.store(), [&volume](u64 place) { return volume.loader().load(place); }, shape) {
    }
    /// Scans any Store; `load` makes the block at a place resident there.
    OutputScan(const core::Store& store, std::function<Errc(u64 place)> load,
               const OutputScanShape& shape = {})
        : store_(store), load_(std::move(load)), shape_(shape) {
        EXPECT_EQ(open(), Errc::ok);
    }

    template <class Take>
    Errc scan(const bulk::ScanPlan& plan, Handle root, const Take& take) {
        Site<Take> site{*this, plan, root, take};
        clear_marks();
        runs = 0;
        return bulk::run_scan(site);
    }

    /// As TreeScan::fill_table(). Requires: the output has room for all.
    Errc fill_table(const ScanCall& call) {
        keeps_output_ = true;
        const Errc code = scan(call.plan, call.root, [](const bulk::ScanOutput&) {});
        keeps_output_ = false;
        WARREN_TRY(code);
        const std::string_view path = call.table->path;
        const bulk::ScanState& state = *room_.state.data();
        std::vector<bulk::TableDirectory> ways(state.directory_count);
        const bulk::TableSource source{room_.output.data(),
                                       room_.bundles.data(),
                                       bulk::written_bundles(state.written),
                                       room_.directories.data(),
                                       call.table->wants_paths ? ways.data() : nullptr,
                                       ways.size(),
                                       path.data(),
                                       path.size(),
                                       path.rfind('/') + 1,
                                       call.root_attributes,
                                       call.plan.files};
        if (!shape_.in_lockstep) return fill_as(ThreadTeam{}, source, *call.table);
        return run_lockstep<4>(
            [&](const LockstepTeam<4>& team) { return fill_as(team, source, *call.table); });
    }

    u64 runs = 0;
    u64 brought = 0;
    std::vector<bulk::ScanSum> sums() const {
        return {room_.sums.data(), room_.sums.data() + room_.state.data()->sum_count};
    }

 private:
    template <class Take>
    struct Site {
        OutputScan& scan;
        const bulk::ScanPlan& plan;
        const Handle root;
        const Take& take;

        Result<bulk::ScanReport> run(bool is_first) { return scan.run(plan, root, is_first); }
        Errc make_room(u64 directories, u64 frames) {
            WARREN_TRY(scan.make_room(directories, frames));
            scan.clear_marks();
            return Errc::ok;
        }
        Errc take_output() {
            if (plan.purpose == bulk::ScanPurpose::list) scan.gather();
            take(scan.output());
            return Errc::ok;
        }
        Errc bring_wanted() { return scan.bring_wanted(); }
        bool is_put_off() const { return false; }
    };

    Errc open() {
        WARREN_TRY(room_.state.allocate(1));
        WARREN_TRY(room_.slots.allocate(shape_.queue_capacity));
        WARREN_TRY(room_.ranges.allocate(shape_.range_max));
        WARREN_TRY(room_.wanted.allocate(1u << 16));
        WARREN_TRY(
            room_.output.allocate(shape_.workers * bulk::leaf_output_words + shape_.output_slack));
        WARREN_TRY(
            room_.bundles.allocate(shape_.workers * bulk::leaf_bundles + shape_.output_slack));
        return make_room(shape_.directories, 1);
    }
    Errc make_room(u64 directories, u64 frames) {
        const u64 count = directories + shape_.workers * format::leaf_entries_max;
        WARREN_TRY(room_.directories.allocate(count));
        WARREN_TRY(room_.sums.allocate(count));
        for (auto& list : room_.spilled)
            WARREN_TRY(list.allocate(count + shape_.range_max));
        return room_.linked.allocate(frames * format::inodes_per_frame / 64);
    }

    Result<bulk::ScanReport> run(const bulk::ScanPlan& plan, Handle root, bool is_first) {
        ++runs;
        const bulk::ScanState& state = *room_.state.data();
        if (is_first) start(root);
        const u32 count = state.spilled_count;
        const ops::TreeTask* const left = room_.turn_over();
        const bulk::ScanRef now = ref();
        bulk::start_run(now, keeps_output_ && !is_first);
        for (u32 i = 0; i < count; ++i)
            bulk::seed_scan(now, i, left[i]);
        now.queue.begin_over(ThreadTeam{});
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < shape_.workers; ++worker)
            threads.emplace_back([&, worker] { work(worker, plan, now); });
        for (std::thread& thread : threads)
            thread.join();
        return bulk::report_of(state);
    }
    void start(Handle root) {
        bulk::start_scan(ref(), root);
        bulk::check_room(ref(), store_);
    }
    void work(u32 worker, const bulk::ScanPlan& plan, const bulk::ScanRef& ref) const {
        const UncountedAllocations of_a_thread_without_a_handler;
        if (!shape_.in_lockstep) return work_as(ThreadTeam{worker}, plan, ref, scratch_of());
        Lockstep<4> lanes(worker);
        const auto scratch = scratch_of();
        lanes.run([&](const LockstepTeam<4>& team) { work_as(team, plan, ref, scratch); });
    }
    static std::shared_ptr<bulk::ScanScratch> scratch_of() {
        return std::make_shared<bulk::ScanScratch>();
    }
    template <class Team>
    void work_as(const Team& team, const bulk::ScanPlan& plan, const bulk::ScanRef& ref,
                 const std::shared_ptr<bulk::ScanScratch>& scratch) const {
        if (plan.purpose == bulk::ScanPurpose::list) {
            work_by<bulk::ResidentWay<Team, bulk::AskForBlocks, true>>(team, plan, ref, scratch);
        } else {
            work_by<bulk::ResidentWay<Team, bulk::AskForBlocks>>(team, plan, ref, scratch);
        }
    }
    template <class Way, class Team>
    void work_by(const Team& team, const bulk::ScanPlan& plan, const bulk::ScanRef& ref,
                 const std::shared_ptr<bulk::ScanScratch>& scratch) const {
        const Way way(team, store_, *scratch, bulk::AskForBlocks(ref));
        using Teller = bulk::OutputTeller<Team>;
        bulk::ScanWorker<Team, bulk::BulkQueue, Way, Teller>(team, plan, ref, ref.queue, way,
                                                             {team, ref})
            .work();
    }

    template <class Team>
    static Errc fill_as(const Team& team, const bulk::TableSource& source, ScanTableOrder& order) {
        const bulk::TableMaker<Team> maker(team, source);
        for (u64 i = 0; i < source.bundle_count && order.wants_paths; ++i)
            maker.note_directories(i);
        team.sync();
        if (order.wants_paths && team.is_leader()) {
            for (u64 i = 0; i < source.directory_count; ++i)
                maker.note_path(i);
        }
        team.sync();
        std::vector<ScanTableSize> before{{}, maker.measure_root()};
        for (u64 i = 0; i < source.bundle_count; ++i)
            before.push_back(bulk::sum_of(before.back(), maker.measure(i)));
        ScanTable table;
        WARREN_TRY(once(team, [&] { return order.make(-1, before.back(), table); }));
        table = team.broadcast(table, 0);
        for (u64 i = 0; i < source.bundle_count; ++i)
            maker.write(table, i, before[i + 1]);
        if (team.is_leader()) maker.write_root(table, before.back());
        return Errc::ok;
    }

    bulk::ScanOutput output() const {
        const bulk::ScanState& state = *room_.state.data();
        bulk::ScanOutput output;
        output.words = room_.output.data();
        output.word_count = state.written & ((u64{1} << bulk::written_shift) - 1);
        output.bundles = {room_.bundles.data(), state.written >> bulk::written_shift};
        output.directory_count = state.directory_count;
        output.masks = masks_;
        return output;
    }
    void clear_marks() {
        std::fill_n(room_.linked.data(), room_.linked.count(), 0);
        EXPECT_EQ(room_.held.allocate(room_.linked.count()), Errc::ok);
        EXPECT_EQ(room_.sharing.allocate(room_.linked.count()), Errc::ok);
        EXPECT_EQ(room_.blocks.allocate(store_.frame_count * format::words_per_frame), Errc::ok);
    }
    /// Takes what a listed tree consists of, if all of it is listed.
    void gather() {
        bulk::ScanState& state = *room_.state.data();
        masks_.resize(store_.frame_count);
        state.masked_count = 0;
        const bulk::ScanRef now = ref();
        const bool is_whole = state.error == 0 && state.spilled_count == 0;
        const auto take_all = [&](const auto& team) {
            for (u64 frame = 0; is_whole && frame < store_.frame_count; ++frame) {
                bulk::gather_masks(team, now.masks, frame, masks_.data(),
                                   static_cast<u32>(masks_.size()), state.masked_count);
            }
        };
        Lockstep<4> lanes(0);
        if (shape_.in_lockstep) {
            lanes.run([&](const LockstepTeam<4>& team) { take_all(team); });
        } else {
            take_all(ThreadTeam{});
        }
        masks_.resize(state.masked_count);
    }
    Errc bring_wanted() {
        for (u32 i = 0; i < room_.state.data()->wanted_count; ++i) {
            ++brought;
            WARREN_TRY(load_(room_.wanted.data()[i]));
        }
        return Errc::ok;
    }
    bulk::ScanRef ref() const { return room_.ref(shape_.workers, 32); }

    const core::Store& store_;
    const std::function<Errc(u64 place)> load_;
    const OutputScanShape shape_;
    bulk::ScanRoom<HostBuffer> room_;
    bool keeps_output_ = false;
    std::vector<bulk::FrameMasks> masks_;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The host's side of a scan, on any engine: repeats runs until everything is listed.
//
// Invariant: between two runs the queue is empty, and the tasks that are left are in the list of
// spilled tasks.
#pragma once

#include <chrono>
#include <thread>

#include "fs/bulk/scan/scan_work.hpp"

namespace warren::bulk {

/// The result of a run.
struct ScanReport {
    u64 written;
    u32 directory_count;
    u32 sum_count;
    u32 spilled_count;
    u32 wanted_count;
    u32 damaged_count;
    u32 error;
    u64 inodes_wanted;
    u64 frames_wanted;
    u32 masked_count;
};

WARREN_HD inline ScanReport report_of(const ScanState& state) {
    return {state.written,       state.directory_count, state.sum_count, state.spilled_count,
            state.wanted_count,  state.damaged_count,   state.error,     state.inodes_wanted,
            state.frames_wanted, state.masked_count};
}

/// The volume counts as damaged after this many runs that have met invalid contents.
inline constexpr u32 damaged_runs_max = 4;

/// Runs a scan. `site` is the engine's side. run(is_first) runs the workers on the tasks that are
/// left, and returns their report or an error. make_room(inodes, frames) allocates memory for a
/// scan that has not begun. take_output() delivers the results of the last run. bring_wanted()
/// loads the blocks that the run requested. is_put_off() returns whether the rest is left to
/// another call. Returns the first error; results found before it may have been delivered.
template <class Site>
Errc run_scan(Site& site) {
    u32 damaged_runs = 0;
    for (bool is_first = true;; is_first = false) {
        Result<ScanReport> report = site.run(is_first);
        while (report && static_cast<Errc>(report->error) == Errc::need_space) {
            // With a reserve, because the tree may grow meanwhile.
            WARREN_TRY(site.make_room(report->inodes_wanted + report->inodes_wanted / 4,
                                      report->frames_wanted + report->frames_wanted / 4));
            report = site.run(true);
        }
        if (!report) return report.code();
        WARREN_TRY(site.take_output());
        const Errc code = static_cast<Errc>(report->error);
        if (code != Errc::ok) return is_final(code) ? code : Errc::no_memory;
        if (report->spilled_count == 0 || site.is_put_off()) return Errc::ok;
        const bool is_damaged = report->damaged_count > 0;
        if (is_damaged && ++damaged_runs == damaged_runs_max) return Errc::corrupt;
        WARREN_TRY(site.bring_wanted());
        if (is_damaged || report->written == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }
}

}  // namespace warren::bulk

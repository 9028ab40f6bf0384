// SPDX-License-Identifier: Apache-2.0
// A rebuild takes no new blocks, so its runs need no room. Nobody else changes the image, and what
// the image lacks or has damaged the CPU sees for itself.
#include "fs/engine/replica/replica_rebuild.hpp"

#include "base/on_exit.hpp"
#include "fs/bulk/rebuild/directory_rebuild_room.hpp"
#include "fs/engine/replica/taken_room.hpp"

namespace warren {
namespace {

constexpr u32 commits_max = 16;  // for one window

/// What pack_windows() asks for between two windows.
struct Between {
    ImageRuns& runs;
    ImageRebuild& rebuild;

    Errc bring_wanted() { return Errc::not_supported; }
    Errc make_room(u64 blocks) {
        const Errc code = rebuild.open(blocks);
        if (code == Errc::io || code == Errc::no_memory) runs.note_failure(code);
        return code;
    }
    Errc grow(u64 blocks) { return make_room(blocks + blocks / 4); }
    Errc commit() { return Errc::not_supported; }
    Errc rest() { return Errc::ok; }
};

}  // namespace

Errc rebuild_in_image(ImageRuns& runs, ImageRebuild& rebuild, const core::Credentials& caller,
                      Handle directory, u64 blocks, const std::function<Errc()>& commit) {
    const OnExit close([&] { rebuild.close(); });
    Between between{runs, rebuild};
    WARREN_TRY(between.make_room(blocks));
    const TakenRoom no_room(runs.store(), runs.for_each());
    const auto run_window = [&](const bulk::RebuildWindows& windows) {
        bool has_run = false;
        const auto run = [&] {
            return runs.run(no_room, [&](const core::Store& image, Errc& status) {
                has_run = true;
                WARREN_TRY(rebuild.run(image, caller, directory, windows));
                status = rebuild.report().code();
                return Errc::ok;
            });
        };
        const auto is_short_of_journal = [&](Errc status) {
            const u64 journal = relaxed_load(runs.store().state->journal_room);
            return status == Errc::need_commit ||
                   (status == Errc::overflow && !runs.had_journal() &&
                    rebuild.report().room < journal / 2);
        };
        // Others may fill the journal again behind each commit. Without commits what they have
        // changed would make the windows small.
        Errc status = run();
        for (u32 i = 0; is_short_of_journal(status) && i < commits_max; ++i) {
            WARREN_TRY(commit());
            status = run();
        }
        return has_run && runs.failure() == Errc::ok ? Errc::ok : Errc::not_supported;
    };
    return bulk::pack_windows({}, rebuild.report(), run_window, between);
}

}  // namespace warren

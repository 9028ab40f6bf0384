// SPDX-License-Identifier: Apache-2.0
// A rebuild takes no new blocks, so its runs need no room. Nobody else changes the image, and what
// the image lacks or has damaged the CPU sees for itself.
#include "fs/engine/replica/replica_rebuild.hpp"

#include "base/on_exit.hpp"
#include "fs/bulk/rebuild/directory_rebuild_room.hpp"
#include "fs/engine/replica/taken_room.hpp"

namespace warren {
namespace {

/// What pack_windows() asks for between two windows.
struct Between {
    ImageRebuild& rebuild;
    const std::function<Errc()>& commit;

    Errc bring_wanted() { return Errc::not_supported; }
    Errc grow(u64 blocks) { return rebuild.open(blocks + blocks / 4); }
    Errc rest() { return Errc::ok; }
};

}  // namespace

Errc rebuild_in_image(ImageRuns& runs, ImageRebuild& rebuild, const core::Credentials& caller,
                      Handle directory, u64 blocks, const std::function<Errc()>& commit) {
    const OnExit close([&] { rebuild.close(); });
    const auto note = [&](Errc code) {
        if (code == Errc::io || code == Errc::no_memory) runs.note_failure(code);
        return code;
    };
    WARREN_TRY(note(rebuild.open(blocks)));
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
        const Errc status = run();
        if (!runs.had_journal() && (status == Errc::overflow || status == Errc::need_commit)) {
            // Otherwise what others have changed would make the windows small.
            WARREN_TRY(commit());
            static_cast<void>(run());
        }
        return has_run && runs.failure() == Errc::ok ? Errc::ok : Errc::not_supported;
    };
    Between between{rebuild, commit};
    return bulk::pack_windows({}, rebuild.report(), run_window, between);
}

}  // namespace warren

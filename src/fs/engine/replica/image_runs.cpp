// SPDX-License-Identifier: Apache-2.0
// The host reserves journal credits for a run; within the image the run reserves its own of these.
#include "fs/engine/replica/image_runs.hpp"

#include <algorithm>

#include "base/out_of_memory.hpp"
#include "fs/engine/replica/adoption.hpp"
#include "fs/engine/replica/taken_room.hpp"

namespace warren {

Errc ImageRuns::run(const TakenRoom& room, const Body& body, const std::function<void()>& beside) {
    if (failure_ != Errc::ok) return Errc::not_supported;
    Errc status = Errc::retry;
    failure_ = replica_.change(
        blocks_max,
        [&](ReplicaMemory& memory) {
            return or_no_memory([&] { return run_on(memory, room, body, beside, status); });
        },
        may_load_);
    if (failure_ != Errc::ok) return Errc::not_supported;
    if (status == Errc::ok) ++adopted_;
    return status;
}

/// Within Replica::change().
Errc ImageRuns::run_on(ReplicaMemory& memory, const TakenRoom& room, const Body& body,
                       const std::function<void()>& beside, Errc& status) {
    core::StoreState& state = *store_.state;
    const u64 room_left = core::JournalRoom::now(state).left();
    had_journal_ = room_left > blocks_max;
    const u64 credits_wanted = std::min(room_left, blocks_max);
    core::JournalCredits credits;
    status = credits.verdict(credits.reserve(state, credits_wanted), credits_wanted);
    if (status != Errc::ok) return Errc::ok;
    RunRoom run_room{room.blocks(), room.numbers(), {}, store_.reserve_blocks};
    core::StoreState& there = run_room.state;
    there.blocks_used = relaxed_load(state.blocks_used);
    there.inodes_used = relaxed_load(state.inodes_used);
    there.inode_slots = relaxed_load(state.inode_slots);
    there.metadata_frames_end = relaxed_load(state.metadata_frames_end);
    there.data_frames_begin = relaxed_load(state.data_frames_begin);
    there.generation = relaxed_load(state.generation);
    there.generation_limit = relaxed_load(state.generation_limit);
    there.journal_room = credits_wanted;
    ImageChanges changes;
    const auto change = [&]() -> Errc {
        WARREN_TRY(memory.open_run(run_room));
        WARREN_TRY(body(memory.image(), status));
        return status == Errc::ok ? memory.fetch_changes(changes) : Errc::ok;
    };
    Errc changed = Errc::ok;
    const auto share = [&](u32 worker) {
        if (worker == 0) {
            changed = or_no_memory(change);
        } else {
            beside();
        }
    };
    if (beside == nullptr) {
        changed = change();
    } else {
        pair_.run(share);
    }
    WARREN_TRY(changed);
    if (status != Errc::ok) return Errc::ok;
    return Adoption(store_, room, memory, changes).apply(for_each_);
}

}  // namespace warren

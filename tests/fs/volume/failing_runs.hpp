// SPDX-License-Identifier: Apache-2.0
// Each way in which a run on the image of a replica can fail, before, within or after it.
#pragma once

#include <ostream>
#include <vector>

#include "tests/fs/volume/listing_volume.hpp"

namespace warren {

struct FailingRun {
    enum class At { open, send, step, run, result };
    At at;
    u64 step;  // of the three of a run
    Errc code;
    u64 reports;  // that the replica is given up

    friend std::ostream& operator<<(std::ostream& out, const FailingRun& one) {
        return out << static_cast<int>(one.at) << ' ' << one.step << ' '
                   << static_cast<int>(one.code);
    }
};

inline std::vector<FailingRun> failing_runs() {
    using At = FailingRun::At;
    std::vector<FailingRun> all = {
        {At::open, 0, Errc::no_space, 0},  {At::open, 0, Errc::io, 1},
        {At::open, 0, Errc::no_memory, 1}, {At::send, 0, Errc::io, 1},
        {At::send, 0, Errc::no_memory, 1}, {At::run, 0, Errc::io, 1},
        {At::run, 0, Errc::no_memory, 1},  {At::result, 0, Errc::corrupt, 1}};
    for (u64 step = 0; step < 5; ++step) {
        all.push_back({At::step, step, Errc::io, 1});
        all.push_back({At::step, step, Errc::no_memory, step == 0 ? 0u : 1u});
    }
    return all;
}

/// Takes a block that the host has not reserved.
inline void take_foreign_block(const core::Store& image) {
    const u64 frame = image.frame_count - 1;
    core::set_bit(image.frame(frame).used, 7);
    core::Operation<ThreadTeam>(ThreadTeam{}, image).mark_dirty(image.table_place(frame));
}

/// Lets the next of `runs` fail, which are those of the volume's replica.
inline void let_fail(ListingVolume& volume, HostRuns& runs, const FailingRun& one) {
    switch (one.at) {
        case FailingRun::At::open:
            return runs.fails_at_open.store(one.code);
        case FailingRun::At::send:
            return volume.replica.memory->fail_after(0, one.code);
        case FailingRun::At::step:
            return volume.replica.memory->fail_at_step(one.step, one.code);
        case FailingRun::At::run:
            return runs.fails_at_run.store(one.code);
        case FailingRun::At::result:
            runs.after_run = [&] { take_foreign_block(volume.replica.memory->look()); };
    }
}

}  // namespace warren

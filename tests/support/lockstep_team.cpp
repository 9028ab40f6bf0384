// SPDX-License-Identifier: Apache-2.0
// Each collective call passes the barrier once. Two sets of notes and bytes are used alternately,
// so that no second pass of the barrier is needed to know that all lanes have read.
#include "tests/support/lockstep_team.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace warren {

LockstepGroup::LockstepGroup(u32 width) : width_(width), lanes_(width), runner_(width) {}

void LockstepGroup::run(const std::function<void(u32)>& work) {
    runner_.run([&](u32 lane) {
        work(lane);
        meet(lane, {Call::end, false, 0, 0});
    });
}

u32 LockstepGroup::meet(u32 lane, const Note& note) {
    Lane& mine = lanes_[lane];
    const u32 turn = static_cast<u32>(mine.turn++ % 2);
    mine.notes[turn] = note;
    runner_.wait_for_all(lane);
    for (const Lane& other : lanes_) {
        const Note& theirs = other.notes[turn];
        const bool agrees = theirs.call == note.call && theirs.from == note.from &&
                            theirs.size_bytes == note.size_bytes;
        if (!agrees) report(turn);
    }
    return turn;
}

void LockstepGroup::report(u32 turn) const {
    static std::mutex mutex;
    mutex.lock();  // not unlocked: the first lane that gets here prints the message, then all stop
    constexpr const char* names[] = {"sync", "ballot", "broadcast", "the end"};
    std::fprintf(stderr, "warren: the lanes of a team have parted:\n");
    for (u32 lane = 0; lane < width_; ++lane) {
        const Note& note = lanes_[lane].notes[turn];
        std::fprintf(stderr, "  lane %u: %s, %llu bytes from lane %u\n", lane,
                     names[static_cast<u32>(note.call)],
                     static_cast<unsigned long long>(note.size_bytes), note.from);
    }
    std::abort();
}

u32 LockstepGroup::ballot(u32 lane, bool vote) {
    const u32 turn = meet(lane, {Call::ballot, vote, 0, 0});
    u32 votes = 0;
    for (u32 i = 0; i < width_; ++i) {
        if (lanes_[i].notes[turn].vote) votes |= u32{1} << i;
    }
    return votes;
}

void LockstepGroup::sync(u32 lane) {
    meet(lane, {Call::sync, false, 0, 0});
}

void LockstepGroup::broadcast(u32 lane, void* value, u64 size_bytes, u32 from) {
    if (lane == from) {
        std::memcpy(bytes_[lanes_[lane].turn % 2].data(), value, size_bytes);
    }
    const u32 turn = meet(lane, {Call::broadcast, false, from, size_bytes});
    if (lane != from) std::memcpy(value, bytes_[turn].data(), size_bytes);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Operations that are several transactions are left out of the plan: between them the volume would
// be in states that the history does not know.
#include "tests/support/cut_recording.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/random.hpp"

namespace warren {

u64 CutRecording::first_state(u64 event) const {
    u64 first = 0;
    for (u64 i = 0; i < synced_states.size() && synced_events[i] <= event; ++i)
        first = synced_states[i];
    return first;
}

u64 CutRecording::last_state(u64 event) const {
    u64 state = 0;
    while (state + 1 < events.size() && events[state] <= event)
        ++state;
    return state;
}

CutRecording record_for_cuts(u64 seed, u64 steps, u64 volume_bytes, const RecordedOpen& open) {
    CutRecording out;
    out.log = make_memory_disk(volume_bytes);
    const auto volume = open(*out.log);
    EXPECT_TRUE(volume);
    if (volume == nullptr) return out;
    RandomPlan plan;
    plan.batches = false;
    plan.large_files = false;
    plan.syncs = false;
    plan.entries_max = 100;
    RandomOperations driver(*volume, seed, plan);
    driver.run(60);
    EXPECT_EQ(volume->sync(), Errc::ok);
    out.disk().start_recording();
    const auto add_state = [&] {
        out.history.add(driver.model());
        out.events.push_back(out.disk().event_count());
    };
    const auto add_sync = [&] {
        out.synced_states.push_back(out.history.size() - 1);
        out.synced_events.push_back(out.disk().event_count());
    };
    add_state();
    add_sync();
    Random random(seed + 7);
    for (u64 i = 0; i < steps && driver.step(); ++i) {
        add_state();
        if (!random.one_in(7)) continue;
        EXPECT_EQ(volume->sync(), Errc::ok);
        add_sync();
    }
    driver.let_all_go();
    add_state();
    EXPECT_EQ(volume->close(), Errc::ok);
    add_sync();
    out.disk().stop_recording();
    EXPECT_GT(out.disk().event_count(), 0u) << "nothing was recorded";
    return out;
}

void expect_state_after(MemoryDisk& image, const CutRecording& recording, u64 event) {
    SCOPED_TRACE(testing::Message()
                 << "cut after event " << event << " of " << recording.disk().event_count());
    const auto volume = open_on(image, {.workers = 1});
    ASSERT_TRUE(volume);
    const std::string wrong = recording.history.explain(*volume, recording.first_state(event),
                                                        recording.last_state(event));
    ASSERT_EQ(wrong, "");
    ASSERT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(image));
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The plan excludes operations that consist of several transactions: between these the volume would
// be in states that the history does not contain.
#include "tests/support/cut_recording.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/random.hpp"
#include "tests/support/passing_disk.hpp"

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
        out.note_state();
    };
    add_state();
    out.note_sync();
    Random random(seed + 7);
    for (u64 i = 0; i < steps && driver.act(); ++i) {
        add_state();
        if (driver.wants_room()) driver.make_room(add_state);
        if (!random.one_in(7)) continue;
        EXPECT_EQ(volume->sync(), Errc::ok);
        out.note_sync();
    }
    driver.let_all_go();
    add_state();
    EXPECT_EQ(volume->close(), Errc::ok);
    out.note_sync();
    out.disk().stop_recording();
    EXPECT_GT(out.disk().event_count(), 0u) << "nothing was recorded";
    return out;
}

namespace {

/// A write-protected disk.
class ProtectedDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc write(u64, std::span<const std::byte>) override { return refuse(); }
    Errc flush() override { return refuse(); }
    Errc discard(u64, u64) override { return refuse(); }

 private:
    static Errc refuse() {
        ADD_FAILURE() << "a reader has written";
        return Errc::read_only;
    }
};

/// The difference that a read-only opening finds on `image`, which was not opened for writing since
/// the cut.
std::string explain_to_reader(MemoryDisk& image, const CutRecording& recording, u64 event) {
    ProtectedDisk disk(image);
    const auto volume = open_on(disk, {.read_only = true, .workers = 1});
    return volume == nullptr ? "cannot be read"
                             : recording.history.explain(*volume, recording.first_state(event),
                                                         recording.last_state(event));
}

}  // namespace

void expect_state_after(MemoryDisk& image, const CutRecording& recording, u64 event) {
    SCOPED_TRACE(testing::Message()
                 << "cut after event " << event << " of " << recording.disk().event_count());
    ASSERT_EQ(explain_to_reader(image, recording, event), "");
    const auto volume = open_on(image, {.workers = 1});
    ASSERT_TRUE(volume);
    const std::string wrong = recording.history.explain(*volume, recording.first_state(event),
                                                        recording.last_state(event));
    ASSERT_EQ(wrong, "");
    ASSERT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(image));
}

namespace {

/// The subsets of the first `count` writes to lose, one bit for each write.
std::vector<u64> losses_of(u64 count, const CutBounds& bounds, Random& random) {
    std::vector<u64> losses;
    if (count <= bounds.subsets_of_max) {
        for (u64 lost = 0; lost < u64{1} << count; ++lost)
            losses.push_back(lost);
        return losses;
    }
    const u64 all = count < 64 ? (u64{1} << count) - 1 : ~u64{0};
    losses = {0, all};
    for (u64 i = 0; i < bounds.samples; ++i)
        losses.push_back(random.next() & all);
    return losses;
}

}  // namespace

CutFigures for_each_cut(const CutRecording& recording, const CutBounds& bounds, u64 seed,
                        const std::function<void(MemoryDisk& image, u64 event)>& look) {
    CutFigures figures;
    Random random(seed);
    Random choice(seed + 1);
    u64 chosen = choice.below(bounds.step);  // of the next ones
    const MemoryDisk& log = recording.disk();
    const auto look_at = [&](u64 event, const Cut& cut) {
        const bool is_chosen = figures.states % bounds.step == chosen;
        if (++figures.states % bounds.step == 0) chosen = choice.below(bounds.step);
        if (!is_chosen || testing::Test::HasFailure()) return;
        SCOPED_TRACE(testing::Message()
                     << "cut after event " << event << ": drop " << cut.drop << " tear " << cut.tear
                     << " reorder " << cut.reorder << " seed " << cut.seed << " lost " << cut.lost);
        look(*log.image_after(event, cut), event);
    };
    for (u64 event = 0; event <= log.event_count(); ++event) {
        ++figures.cuts;
        const u64 count = log.count_unflushed(event);
        const bool promises_more =
            event > 0 && recording.first_state(event) != recording.first_state(event - 1);
        const u64 may_be_lost = count > 0 && !promises_more ? count - 1 : count;
        for (const u64 lost : losses_of(may_be_lost, bounds, random))
            look_at(event, {.lost = lost});
        for (u64 i = 0; i < bounds.samples && count > 0; ++i)
            look_at(event, {random.one_in(2), true, random.one_in(2), random.next()});
    }
    return figures;
}

void expect_states_after_random_cuts(const CutRecording& recording, u64 seed) {
    Random random(seed);
    for (u64 event = random.below(volume_step); event <= recording.disk().event_count();
         event += volume_step) {
        if (testing::Test::HasFailure()) return;
        const u64 how = random.below(8);
        const Cut cut{(how & 1) != 0, (how & 2) != 0, (how & 4) != 0, random.next()};
        SCOPED_TRACE(testing::Message()
                     << "drop, tear, reorder bits " << how << " cut seed " << cut.seed);
        expect_state_after(*recording.disk().image_after(event, cut), recording, event);
    }
}

void expect_all_or_nothing(Volume& volume, CutRecording& recording, const Script& base,
                           const Script& last, u64 seed) {
    constexpr u64 events_of_a_transaction = 14;
    ModelFileSystem model;
    const auto run = [&](const Script& script) {
        for (const Script::Step& step : script.steps()) {
            ASSERT_EQ(step.on_volume(volume), Errc::ok) << step.text;
            ASSERT_EQ(step.on_model(model), Errc::ok) << step.text;
        }
    };
    const auto add_state = [&] {
        recording.history.add(model);
        recording.note_state();
    };
    ASSERT_NO_FATAL_FAILURE(run(base));
    ASSERT_EQ(volume.sync(), Errc::ok);
    recording.disk().start_recording();
    add_state();
    recording.note_sync();
    ASSERT_NO_FATAL_FAILURE(run(last));
    add_state();
    EXPECT_GT(recording.disk().event_count(), events_of_a_transaction)
        << "all in one transaction: the cuts show nothing";
    ASSERT_EQ(volume.sync(), Errc::ok);
    recording.note_sync();
    recording.disk().stop_recording();
    const CutFigures figures = for_each_cut(
        recording, {.subsets_of_max = 1, .samples = 1}, seed,
        [&](MemoryDisk& image, u64 event) { expect_state_after(image, recording, event); });
    EXPECT_GT(figures.states, figures.cuts);
    ASSERT_EQ(volume.close(), Errc::ok);
    EXPECT_TRUE(expect_clean(recording.disk()));
}

}  // namespace warren

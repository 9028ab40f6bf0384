// SPDX-License-Identifier: Apache-2.0
// A replica in the host's memory beside the CPU engine: the cases of replica_cases.hpp, and what
// readers of the image see: every change that ended before they began.
#include "tests/fs/bulk/output_scan.hpp"
#include "tests/fs/engine/numbered_changes.hpp"
#include "tests/fs/engine/replica_cases.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/lookup_questions.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::replica_test {

INSTANTIATE_TYPED_TEST_SUITE_P(ReplicaOnHost, ReplicaTest, HostReplica);

namespace {

OutputScan scan_of(const core::Store& image) {
    // All that was in use was resident, so nothing is missing.
    return OutputScan(image, [](u64) { return Errc::io; });
}

/// What readers of the image find, against a walk by commands.
TEST(Replica, answersAsTheVolumeDoes) {
    const Seed seed;
    ReplicatedVolume<HostReplica> volume(64 * mib);
    build_random(*volume, seed.value(), 60);
    const Errc read = volume.replica().read([&](const core::Store& image, auto&) {
        OutputScan scan = scan_of(image);
        expect_same_answers(scan, volume.outer());
        return Errc::ok;
    });
    EXPECT_EQ(read, Errc::ok);
}

/// By teams of several lanes, as a GPU looks names up: an image has all that the fast path reads.
TEST(Replica, answersFastLookups) {
    const Seed seed;
    using Team = LockstepTeam<4>;
    ReplicatedVolume<HostReplica> volume(64 * mib);
    build_random(*volume, seed.value(), 60);
    const std::vector<Asked> asked = questions_about(*volume);
    const core::Credentials caller{.check = false};
    Lockstep<4> lanes{0};
    u64 left = 0;
    const Errc read = volume.replica().read([&](const core::Store& image, auto&) {
        for (const Asked& one : asked) {
            SCOPED_TRACE(one.name + " in " + std::to_string(one.directory.inode));
            const Result<Attributes> found = lanes.run([&](const Team& team) -> Result<Attributes> {
                core::FastEntry<Team> seen;
                const u32 length = static_cast<u32>(one.name.size());
                if (!core::fast_lookup(team, image, caller, one.directory, one.name.data(), length,
                                       core::may_execute, seen)) {
                    return Errc::retry;
                }
                if (!seen.entry.exists) return Errc::no_entry;
                return core::attributes_in(team, seen.inode);
            });
            const Result<Attributes> wanted = volume->lookup(anybody, one.directory, one.name);
            if (found.code() == Errc::retry) {
                left += one.is_plain ? 1 : 0;
                continue;
            }
            EXPECT_EQ(found.code(), wanted.code());
            if (found && wanted) {
                EXPECT_EQ(words_of(*found), words_of(*wanted));
            }
        }
        return Errc::ok;
    });
    EXPECT_EQ(read, Errc::ok);
    EXPECT_GT(asked.size(), 150u);
    EXPECT_LE(left, asked.size() / 20);
}

/// A reader that finds nothing marked makes no version; a change of its own it always sees.
TEST(Replica, readersJoinAVersionOrWaitForTheNext) {
    ReplicatedVolume<HostReplica> volume(64 * mib);
    Replica& replica = volume.replica();
    const auto counted = [&] {
        u64 inodes = 0;
        const Errc code = replica.read([&](const core::Store& image, auto&) {
            inodes = relaxed_load(image.state->inodes_used);
            return Errc::ok;
        });
        EXPECT_EQ(code, Errc::ok);
        return inodes;
    };
    const u64 before = counted();
    EXPECT_EQ(replica.version(), 1u);
    EXPECT_EQ(counted(), before);
    EXPECT_EQ(replica.version(), 1u);
    make_directory(*volume, volume->root(), "one");
    EXPECT_EQ(counted(), before + 1);
    EXPECT_EQ(replica.version(), 2u);
    EXPECT_EQ(replica.read([](const core::Store&, auto&) { return Errc::canceled; }),
              Errc::canceled);
}

/// The check before a removal reads the count of changes first: it must not find the replica
/// current while a change that is counted already is not marked.
TEST(Replica, isNotCurrentOnceAChangeOfRightsIsCounted) {
    ReplicatedVolume<HostReplica> volume(64 * mib);
    ASSERT_TRUE(volume.expect_equal());
    const core::Store& store = volume.inside().store();
    const u64 place = volume->root().inode * format::inode_size;
    const u64 before = core::rights_changes(store);
    core::note_rights_change(store, place);
    EXPECT_EQ(core::rights_changes(store), before + 1);
    const u64 block = place / format::block_size;
    EXPECT_NE(store.changed[block / 64] & u64{1} << block % 64, 0u);
    EXPECT_NE(store.changed_frames[0] & u64{1} << place / format::frame_size, 0u);
}

/// After an error of the memory nobody reads the image until all of it was sent again.
TEST(Replica, isLoadedAgainAfterAFailure) {
    ReplicatedVolume<HostReplica> volume(64 * mib);
    ASSERT_TRUE(volume.expect_equal());
    for (u32 fails_at = 0; fails_at < 4; ++fails_at) {
        const Handle some = make_directory(*volume, volume->root(), std::to_string(fails_at));
        for (u32 i = 0; i < 2000; ++i)
            ASSERT_TRUE(volume->create(anybody, some, "f" + std::to_string(i), {}));
        const u64 loads = volume.replica().figures().complete_loads;
        volume.memory().fail_after(0);
        bool was_called = false;
        const auto reader = [&](const core::Store&, auto&) {
            was_called = true;
            return Errc::ok;
        };
        EXPECT_EQ(volume.replica().read(reader), Errc::io);
        volume.memory().fail_after(fails_at);
        while (volume.replica().read(reader) == Errc::io)
            EXPECT_FALSE(was_called);
        EXPECT_TRUE(was_called);
        EXPECT_GT(volume.replica().figures().complete_loads, loads);
        ASSERT_TRUE(volume.expect_equal());
    }
}

/// Directories of which a step of the removal has only detached, and what it has not come to.
TEST(Replica, equalsTheVolumeBetweenStepsOfARemoval) {
    ReplicatedVolume<HostReplica> volume(64 * mib);
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    for (u32 i = 0; i < 5'000; ++i)
        make_file(*volume, make_directory(*volume, tree, std::to_string(i)), "file");
    ASSERT_TRUE(volume.expect_equal());
    std::vector<u64> done;
    Removal removal;
    const auto compare = [&](u64 count) {
        done.push_back(count);
        return volume.expect_equal();
    };
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal, compare), Errc::ok);
    ASSERT_FALSE(done.empty());
    EXPECT_LT(done.front(), removal.files + removal.directories);
}

/// What readers of the image find.
void expect_moments(ReplicatedVolume<HostReplica>& volume) {
    volume.compares = false;
    const Handle root = volume->root();
    expect_states_of_one_moment(*volume, some_time(), [&](FoundNames& names) {
        return volume.replica().read([&](const core::Store& image, auto&) {
            OutputScan scan = scan_of(image);
            const std::function<bool(const Scanned&)> visit = [&](const Scanned& found) {
                names.emplace(found.name, found.directory.inode);
                return true;
            };
            ScanCall call{bulk::plan_scan(ScanPurpose::visit, credentials_of(anybody)), root};
            EXPECT_EQ(ops::set_filter(call.plan.files, {}), Errc::ok);
            call.visit = &visit;
            call.for_each = for_each_in_turn;
            bulk::ScanVisits visits(call);
            return scan.scan(call.plan, root, [&](const auto& out) { visits.take(out); });
        });
    });
}

TEST(ReplicaBesideWriters, readersFindTheStateOfOneMoment) {
    ReplicatedVolume<HostReplica> volume(256 * mib);
    expect_moments(volume);
}

TEST(ReplicaBesideWriters, readersFindItThoughTheMemoryIsReleased) {
    ReplicatedVolume<HostReplica> volume(256 * mib);
    std::atomic<bool> is_over{false};
    std::thread releasing([&] {
        while (!is_over.load(std::memory_order_relaxed)) {
            volume.replica().release();
            // Long enough for a version to be sent and read.
            std::this_thread::sleep_for(milliseconds(is_sanitized ? 50 : 2));
        }
    });
    expect_moments(volume);
    is_over.store(true, std::memory_order_relaxed);
    releasing.join();
    EXPECT_GT(volume.replica().figures().complete_loads, 3u);
}

}  // namespace
}  // namespace warren::replica_test

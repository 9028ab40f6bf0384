// SPDX-License-Identifier: Apache-2.0
// Tables of scans, made of the output of a scan by threads and by lanes in lockstep as on a GPU.
#include "tests/fs/bulk/scan_tables.hpp"

#include "tests/fs/bulk/output_scan.hpp"
#include "tests/support/host_reader.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::scan_table_test {
namespace {

TEST(ScanTables, HoldWhatAWalkSees) {
    std::vector<TreeRecipe> recipes = small_trees();
    for (u64 seed = 1; seed <= (is_sanitized ? 1 : 3); ++seed) {
        recipes.push_back({"random " + std::to_string(seed), 64 * mib,
                           [seed](Volume& volume) { return build_random(volume, seed, 600); }});
    }
    u64 brought = 0;
    for (const TreeRecipe& recipe : recipes) {
        for (const bool in_lockstep : {false, true}) {
            const bool is_random = recipe.label == "random 1" && !is_sanitized;
            if (in_lockstep && recipe.label != "zoo" && !is_random) continue;
            SCOPED_TRACE(recipe.label);
            const auto disk = make_memory_disk(recipe.size_bytes);
            {
                const auto volume = open_on(*disk, {.engine = EngineChoice::cpu});
                recipe.build(*volume);
                ASSERT_EQ(volume->close(), Errc::ok);
            }
            InsideVolume volume(*disk);  // whose blocks are loaded between the first runs
            OutputScan scan(volume.inside(), {.workers = 2, .in_lockstep = in_lockstep});
            expect_tables<HostBuffer>(volume, fetch_on_host,
                                      [&](const ScanCall& call) { return scan.fill_table(call); });
            brought += scan.brought;
            if (testing::Test::HasFailure()) return;
        }
    }
    EXPECT_GT(brought, 0u);
}

struct AssistedVolume {
    AssistedVolume() : disk(make_memory_disk(64 * mib)), volume(*disk), replica(volume.inside()) {
        build_random(*volume, 1, 300);
        replica.queries->use_only(Side::replica);
    }

    std::unique_ptr<MemoryDisk> disk;
    InsideVolume volume;
    HostReplicaOf replica;
};

TEST(ScanTables, AreMadeByAReplicaOrVisitedByTheCpu) {
    AssistedVolume assisted;
    Volume& volume = *assisted.volume;
    const auto wanted = walk_table(volume, volume.root(), "/", {});
    OrderedTable<HostBuffer> table("/", fetch_on_host);
    EXPECT_EQ(order_table(volume, table.order), 1u);  // the root
    EXPECT_TRUE(table.order.is_filled);
    EXPECT_TRUE(table.rows() == wanted);

    OrderedTable<HostBuffer> too_large("/", fetch_on_host);
    too_large.has_room = false;
    EXPECT_EQ(order_table(volume, too_large.order), wanted.size());
    EXPECT_FALSE(too_large.order.is_filled);
    EXPECT_EQ(too_large.calls, 1u);
    EXPECT_EQ(assisted.replica.queries->statistics().left, 0u);

    assisted.replica.queries->use_only(Side::cpu);
    OrderedTable<HostBuffer> unused("/", fetch_on_host);
    EXPECT_EQ(order_table(volume, unused.order), wanted.size());
    EXPECT_FALSE(unused.order.is_filled);
    EXPECT_EQ(unused.calls, 0u);
    EXPECT_TRUE(assisted.replica.reports.empty());
}

TEST(ScanTables, AreRefusedToACallerWithoutPermission) {
    AssistedVolume assisted;
    Volume& volume = *assisted.volume;
    const auto secret = volume.create(anybody, volume.root(), "secret", {.mode = 040700});
    ASSERT_TRUE(secret && volume.create(anybody, secret->handle, "file", {}));
    OrderedTable<HostBuffer> table("/", fetch_on_host);
    order_table(volume, table.order, {.user = 7, .group = 7}, Errc::access);
    EXPECT_FALSE(table.order.is_filled);
    EXPECT_EQ(table.calls, 0u);
}

}  // namespace
}  // namespace warren::scan_table_test

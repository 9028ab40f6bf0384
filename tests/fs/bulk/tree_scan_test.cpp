// SPDX-License-Identifier: Apache-2.0
// Scans, by the volume's threads and by lanes in lockstep as on a GPU: they see the same entries as
// a walk from directory to directory, compute the same sums and refuse what the walk refuses, with
// buffers of any size and beside concurrent changes.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/fs/bulk/output_scan.hpp"
#include "tests/support/directory_circle.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::tree_scan_test {
namespace {

const OutputScanShape shapes[] = {
    {.workers = 1},
    {.workers = 4},
    {.workers = 2, .in_lockstep = true},
    // A queue, ranges and an output that hold next to nothing.
    {.workers = 2, .queue_capacity = 128, .range_max = 40, .output_slack = 400},
};

void expect_same(const TreeRecipe& recipe, const OutputScanShape& shape, bool is_cold) {
    const auto disk = make_memory_disk(recipe.size_bytes);
    {
        const auto volume = open_on(*disk, {.engine = EngineChoice::cpu});
        recipe.build(*volume);
        ASSERT_EQ(volume->close(), Errc::ok);
    }
    InsideVolume volume(*disk);
    OutputScan scan(volume.inside(), shape);
    const Handle root = volume->root();
    if (is_cold) {
        scan_by(scan, volume, anybody, root, {});
        EXPECT_GT(scan.brought, 0u);
    }
    expect_same_answers(scan, volume);
    EXPECT_EQ(volume->close(), Errc::ok);
}

TEST(TreeScanWork, SeesWhatAWalkSees) {
    std::vector<TreeRecipe> recipes = small_trees();
    recipes.push_back({"one", 64 * mib, [](Volume& volume) {
                           return build_flat(volume, 1, 6000 / size_step, false);
                       }});
    for (u64 seed = 1; seed <= (is_sanitized ? 1 : 4); ++seed) {
        recipes.push_back({"random " + std::to_string(seed), 64 * mib,
                           [seed](Volume& volume) { return build_random(volume, seed, 1200); }});
    }
    for (const TreeRecipe& recipe : recipes) {
        for (const OutputScanShape& shape : shapes) {
            SCOPED_TRACE(recipe.label + " by " + std::to_string(shape.workers) +
                         (shape.in_lockstep ? " in lockstep" : ""));
            // Lanes in lockstep are slow, above all as threads under a sanitizer: only one tree
            // with every kind of inode, and a random one.
            const bool is_for_lanes =
                recipe.label == "zoo" || (!is_sanitized && recipe.label == "random 1");
            if (shape.in_lockstep && !is_for_lanes) continue;
            expect_same(recipe, shape, &shape == shapes);
            if (testing::Test::HasFailure()) return;
        }
    }
}

/// Directories whose entries are all alike, all but one in ten alike, or all different.
DoomedTree build_neighbours(Volume& volume) {
    TreeBuilder builder(volume);
    for (const u32 distance : {1000u, 10u, 1u}) {
        const Handle in = builder.add_directory(builder.root(), std::to_string(distance));
        for (u32 i = 0; i < 120; ++i) {
            const std::string name = "entry" + std::to_string(i);
            if (i % distance != distance - 1) {
                builder.add_file(in, name);
                continue;
            }
            CreateOptions options{.mode = i % 3 == 0 ? 020600u : i % 3 == 1 ? 0104711u : 010644u};
            if (i % 3 == 0) options.device = i << 20 | 5;
            const Caller owner{.user = i % 4, .group = i % 5, .check = false};
            const auto made = volume.create(owner, in, name, options);
            EXPECT_TRUE(made) << name;
            if (i % 7 == 0) builder.add_directory(in, name + "d");
        }
    }
    return builder.made;
}

TEST(TreeScanWork, TellsOfEntriesThatAreNotAsTheirNeighbours) {
    const TreeRecipe recipe{"neighbours", 64 * mib, build_neighbours};
    for (const OutputScanShape& shape : {shapes[0], shapes[2]}) {
        const auto disk = make_memory_disk(recipe.size_bytes);
        InsideVolume volume(*disk);
        recipe.build(*volume);
        OutputScan scan(volume.inside(), shape);
        const auto found = scan_by(scan, volume, anybody, volume->root(), {});
        EXPECT_GT(found.size(), 360u);
        EXPECT_TRUE(found == walk(*volume, volume->root(), {}));
    }
}

TEST(TreeScanWork, SmallRoomTakesMoreRuns) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    build_flat(*volume, 40, 60, true);
    OutputScan scan(volume.inside(), shapes[3]);
    const auto found = scan_by(scan, volume, anybody, volume->root(), {});
    EXPECT_TRUE(found == walk(*volume, volume->root(), {}));
    EXPECT_GT(scan.runs, 3u);
}

TEST(TreeScanWork, RefusesWhatModesRefuse) {
    expect_same_refusals(40 / size_step, [](InsideVolume& volume, u64 seed) {
        return std::make_unique<OutputScan>(volume.inside(), shapes[seed % std::size(shapes)]);
    });
}

TEST(TreeScanWork, MeetsWhatStaysBesideChanges) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    std::vector<Handle> places;
    for (u32 i = 0; i < 3; ++i)
        places.push_back(make_directory(*volume, volume->root(), "d" + std::to_string(i)));
    std::set<std::string> staying;
    for (u32 i = 0; i < 900; ++i) {
        staying.insert("stays" + std::to_string(i));
        make_file(*volume, places[i % 3], "stays" + std::to_string(i));
    }
    std::atomic<bool> is_done{false};
    std::vector<std::thread> changers;
    for (u32 t = 0; t < 2; ++t) {
        changers.emplace_back([&, t] {
            for (u32 round = 0; !is_done; ++round) {
                const std::string stem = "c" + std::to_string(t) + ".";
                for (u32 i = 0; i < 700; ++i)
                    make_file(*volume, places[i % 3], stem + std::to_string(i));
                for (u32 i = 0; i < 700; ++i)
                    EXPECT_EQ(volume->unlink(anybody, places[i % 3], stem + std::to_string(i)),
                              Errc::ok);
                Rebuilt rebuilt;
                EXPECT_EQ(volume->rebuild(anybody, places[round % 3], rebuilt), Errc::ok);
            }
        });
    }
    for (u32 round = 0; round < (is_sanitized ? 4 : 100); ++round) {
        OutputScan scan(volume.inside(), shapes[round % std::size(shapes)]);
        std::multiset<std::string> met;
        for (const ScanRow& row : scan_by(scan, volume, anybody, volume->root(), {}))
            met.insert(std::get<1>(row));
        for (const std::string& name : staying)
            ASSERT_EQ(met.count(name), 1u) << name << " in round " << round;
    }
    is_done = true;
    for (std::thread& thread : changers)
        thread.join();
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

TEST(TreeScanWork, GoesInNoCircle) {
    const auto disk = make_directory_circle();
    for (const OutputScanShape& shape : shapes) {
        InsideVolume volume(*disk);
        OutputScan scan(volume.inside(), shape);
        scan_by(scan, volume, anybody, volume->root(), {}, Errc::corrupt);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
}

}  // namespace
}  // namespace warren::tree_scan_test

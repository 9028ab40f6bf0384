// SPDX-License-Identifier: Apache-2.0
// Scans on the GPU: what they see, add up and refuse, with metadata in the device's memory or
// loaded there on demand.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "fs/engine/cuda/launch/tree_scan.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/fs/bulk/scan_tables.hpp"

namespace warren::tree_scan_test {
namespace {

using bulk::ScanOutput;
using cuda_engine::ScanShape;

class TreeScanTest : public testing::Test {
 protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
            GTEST_SKIP() << "there is no GPU";
        }
    }
};

/// A scan of a volume whose metadata are in device memory too; the interface is OutputScan's.
class DeviceScan {
 public:
    DeviceScan(VolumeImplementation& volume, const ScanShape& shape) : volume_(volume) {
        EXPECT_EQ(device_.open(volume.store()), Errc::ok);
        EXPECT_EQ(scan_.open(shape), Errc::ok);
    }

    template <class Take>
    Errc scan(const bulk::ScanPlan& plan, Handle root, const Take& take) {
        Host host(*this);
        const auto take_output = [&](const ScanOutput& output) {
            take(output);
            return Errc::ok;
        };
        const Errc code = scan_.scan(device_.store(), plan, root, take_output, host);
        runs = scan_.runs();
        return code;
    }
    Errc fill_table(const ScanCall& call) {
        Host host(*this);
        const Errc code = scan_.fill_table(device_.store(), call, host);
        runs = scan_.runs();
        return code;
    }
    std::vector<bulk::ScanSum> sums() {
        std::vector<bulk::ScanSum> all;
        EXPECT_EQ(scan_.fetch_sums(all), Errc::ok);
        return all;
    }

    u64 runs = 0;
    u64 brought = 0;
    bool visits_last = false;

 private:
    class Host : public cuda_engine::BulkHost {
     public:
        explicit Host(DeviceScan& scan) : scan_(scan) {}

        Errc bring(const std::vector<u64>& places) override {
            scan_.brought += places.size();
            for (const u64 place : places) {
                WARREN_TRY(scan_.volume_.loader().load(place));
                WARREN_TRY(scan_.device_.show_block(place));
            }
            return Errc::ok;
        }
        Errc commit() override { return Errc::io; }
        bool visits_last() const override { return scan_.visits_last; }

     private:
        DeviceScan& scan_;
    };

    VolumeImplementation& volume_;
    cuda_engine::DeviceStore device_;
    cuda_engine::TreeScan scan_;
};

void load_all(VolumeImplementation& volume) {
    const core::Store& store = volume.store();
    for (u64 frame = 0; frame < store.frame_count; ++frame) {
        const format::FrameKind kind = core::kind_of(store, frame);
        if (kind != format::FrameKind::inodes && kind != format::FrameKind::metadata) continue;
        for (u64 block = 0; block < format::blocks_per_frame; ++block) {
            const u64 place = frame * format::frame_size + block * format::block_size;
            EXPECT_EQ(volume.loader().load(place), Errc::ok);
        }
    }
}

std::vector<TreeRecipe> recipes() {
    std::vector<TreeRecipe> all = small_trees();
    all.push_back(
        {"one", 256 * mib, [](Volume& volume) { return build_flat(volume, 1, 30'000, false); }});
    all.push_back({"deep", 64 * mib, [](Volume& volume) { return build_deep(volume, 300); }});
    for (u64 seed = 1; seed <= 8; ++seed) {
        all.push_back({"random " + std::to_string(seed), 64 * mib,
                       [seed](Volume& volume) { return build_random(volume, seed, 1500); }});
    }
    return all;
}

/// Calls `expect(scan, volume)` for volumes of all kinds.
template <class Expect>
void for_all(const ScanShape& shape, bool is_warm, const Expect& expect) {
    for (const TreeRecipe& recipe : recipes()) {
        SCOPED_TRACE(recipe.label);
        const auto disk = make_memory_disk(recipe.size_bytes);
        {
            const auto volume = open_on(*disk, {.engine = EngineChoice::cpu});
            recipe.build(*volume);
            ASSERT_EQ(volume->close(), Errc::ok);
        }
        InsideVolume volume(*disk);
        if (is_warm) load_all(volume.inside());
        DeviceScan scan(volume.inside(), shape);
        expect(scan, volume);
        EXPECT_EQ(scan.brought == 0, is_warm);
        EXPECT_EQ(volume->close(), Errc::ok);
        if (testing::Test::HasFailure()) return;
    }
}

void expect_all(const ScanShape& shape, bool is_warm) {
    for_all(shape, is_warm,
            [](DeviceScan& scan, InsideVolume& volume) { expect_same_answers(scan, volume); });
}

TEST_F(TreeScanTest, SeesWhatAWalkSees) {
    expect_all({}, true);
}

TEST_F(TreeScanTest, BringsWhatIsNotInMemory) {
    expect_all({}, false);
}

constexpr ScanShape small_room{
    .blocks = 2, .warps_per_block = 1, .queue_capacity = 128, .output_bytes = 1, .directories = 1};

TEST_F(TreeScanTest, SmallRoomTakesMoreRuns) {
    expect_all(small_room, true);
}

TEST_F(TreeScanTest, MakesTables) {
    const auto fetch = [](void* to, const void* from, u64 bytes) {
        ASSERT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    };
    const auto expect = [&](DeviceScan& scan, InsideVolume& volume) {
        expect_tables<gpu::DeviceBuffer>(
            volume, fetch, [&](const ScanCall& call) { return scan.fill_table(call); });
    };
    for_all({}, true, expect);
    for_all({}, false, expect);
    for_all(small_room, true, expect);
}

/// The results of a scan that has too little of its budget are not kept on the device.
TEST_F(TreeScanTest, MakesNoTableBeyondItsBudget) {
    const auto disk = make_memory_disk(256 * mib);
    InsideVolume volume(*disk);
    build_flat(*volume, 1, 30'000, false);
    load_all(volume.inside());
    MemoryBudget budget(64 * mib);
    DeviceScan scan(volume.inside(), {.blocks = 2,
                                      .warps_per_block = 1,
                                      .output_bytes = 1,
                                      .directories = 1,
                                      .budget = &budget});
    const u64 left = budget.left();
    MemoryShare others(&budget);
    ASSERT_TRUE(others.grow(left));
    OrderedTable<gpu::DeviceBuffer> table("/", {});
    ScanCall call{bulk::plan_scan(ScanPurpose::visit, credentials_of(anybody)), volume->root()};
    call.table = &table.order;
    EXPECT_EQ(scan.fill_table(call), Errc::no_space);
    EXPECT_EQ(table.calls, 0u);
}

/// A scan that may not begin to visit before it ends does so only if one run is enough.
TEST_F(TreeScanTest, VisitsLastOrNot) {
    const auto disk = make_memory_disk(256 * mib);
    InsideVolume volume(*disk);
    build_flat(*volume, 1, 30'000, false);
    load_all(volume.inside());
    auto plan = bulk::plan_scan(bulk::ScanPurpose::visit, credentials_of(anybody));
    ASSERT_EQ(ops::set_filter(plan.files, {}), Errc::ok);
    for (const u64 output_bytes : {u64{1}, 64 * mib}) {
        const bool fits = output_bytes > 1;
        DeviceScan scan(volume.inside(),
                        {.blocks = 2, .warps_per_block = 1, .output_bytes = output_bytes});
        scan.visits_last = true;
        u64 taken = 0;
        EXPECT_EQ(scan.scan(plan, volume->root(), [&](const ScanOutput&) { ++taken; }),
                  fits ? Errc::ok : Errc::no_space);
        EXPECT_EQ(taken, fits ? 1u : 0u);
    }
}

TEST_F(TreeScanTest, RefusesWhatModesRefuse) {
    expect_same_refusals(40, [](InsideVolume& volume, u64 seed) {
        if (seed % 2 == 0) load_all(volume.inside());
        return std::make_unique<DeviceScan>(volume.inside(), ScanShape{});
    });
}

}  // namespace
}  // namespace warren::tree_scan_test

// SPDX-License-Identifier: Apache-2.0
// Scans, sums and rebuilds of a whole volume on the CUDA engine, through its public interface: the
// answers of the CPU engine for the same volume, also beside threads that change it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fs/volume/pending_prunes.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/fs/bulk/scan_tables.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren::bulk_commands_test {
namespace {

const OpenOptions on_cuda{.workers = 4, .engine = EngineChoice::cuda};
const OpenOptions on_cpu{.workers = 4, .engine = EngineChoice::cpu};

class BulkCommands : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};

/// All answers that one engine gives about a volume.
struct Answers {
    std::vector<std::multiset<ScanRow>> scans;
    Sums sums;
    Errc by_stranger = Errc::ok;

    bool operator==(const Answers&) const = default;
};

Answers ask(Volume& volume) {
    Answers answers;
    for (const ScanFilter& filter : filters()) {
        ScanRows rows;
        EXPECT_EQ(volume.scan(anybody, volume.root(), std::ref(rows), filter), Errc::ok);
        answers.scans.push_back(rows.seen);
    }
    std::vector<DirectoryUsage> usages;
    EXPECT_EQ(volume.usage(anybody, volume.root(), {.depth_max = 9, .counts_links = true}, usages),
              Errc::ok);
    answers.sums = sums_of(usages);
    ScanRows ignored;
    answers.by_stranger = volume.scan({.user = 9, .group = 9}, volume.root(), std::ref(ignored));
    return answers;
}

TEST_F(BulkCommands, ADirectoryWhoseTreesHaveGoneHasNoBlockAfterTheNextCommit) {
    const auto disk = make_memory_disk(64 * mib);
    const auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    // More directories than may wait for a commit.
    constexpr u64 count = PendingPrunes::most + 8;
    std::vector<Handle> parents;
    for (u64 i = 0; i < count; ++i) {
        parents.push_back(make_directory(*volume, volume->root(), "parent" + std::to_string(i)));
        make_file(*volume, make_directory(*volume, parents.back(), "tree"), "inside");
    }
    for (const Handle parent : parents) {
        Removal removal;
        ASSERT_EQ(volume->remove_tree(anybody, parent, "tree", removal), Errc::ok);
        EXPECT_EQ(removal.files, 1u);
    }
    // A directory that is gone, and whose inode number may be a file's.
    ASSERT_EQ(volume->remove_directory(anybody, volume->root(), "parent0"), Errc::ok);
    make_file(*volume, volume->root(), "file");
    ASSERT_EQ(volume->sync(), Errc::ok);
    for (u64 i = 1; i < count; ++i)
        EXPECT_EQ(volume->attributes(parents[i])->blocks, 0u) << i;
    EXPECT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(*disk));
}

TEST_F(BulkCommands, AnswerAsTheCpuEngine) {
    for (u64 seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        const auto disk = make_memory_disk(64 * mib);
        Answers fresh;
        {
            const auto volume = open_on(*disk, on_cuda);
            ASSERT_TRUE(volume);
            build_random(*volume, seed, 700);
            make_directory(*volume, volume->root(), "secret", 040700);
            const auto secret = volume->lookup(anybody, volume->root(), "secret");
            if (seed % 2 == 0) make_file(*volume, secret->handle, "inside");
            fresh = ask(*volume);
            EXPECT_EQ(fresh.by_stranger, seed % 2 == 0 ? Errc::access : Errc::ok);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        for (const OpenOptions& options : {on_cuda, on_cpu}) {
            const auto volume = open_on(*disk, options);
            ASSERT_TRUE(volume);
            EXPECT_TRUE(ask(*volume) == fresh) << volume->engine();
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        ASSERT_TRUE(expect_clean(*disk));
    }
}

TEST_F(BulkCommands, RefuseNamesInTheOrderOfTheCpuEngine) {
    const std::string long_name(256, 'x');
    for (const OpenOptions& options : {on_cuda, on_cpu}) {
        const auto disk = make_memory_disk(64 * mib);
        const auto volume = open_on(*disk, options);
        ASSERT_TRUE(volume);
        const Handle gone = make_directory(*volume, volume->root(), "gone");
        Removal removal;
        const auto remove = [&](Handle directory, const std::string& name) {
            return volume->remove_tree(anybody, directory, name, removal);
        };
        EXPECT_EQ(remove(volume->root(), "gone"), Errc::ok);
        EXPECT_EQ(remove(gone, long_name), Errc::stale);
        EXPECT_EQ(remove(volume->root(), long_name), Errc::name_too_long);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
}

TEST_F(BulkCommands, MakeTablesOrVisitWhatHasNoRoom) {
    const auto disk = make_memory_disk(64 * mib);
    const auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    build_random(*volume, 1, 700);
    const auto wanted = walk_table(*volume, volume->root(), "/", {});
    for (const bool has_room : {true, false, true}) {
        OrderedTable<gpu::DeviceBuffer> table("/", [](void* to, const void* from, u64 bytes) {
            EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        });
        table.has_room = has_room;
        EXPECT_EQ(order_table(*volume, table.order), has_room ? 1u : wanted.size());
        EXPECT_EQ(table.order.is_filled, has_room);
        if (has_room) {
            EXPECT_TRUE(table.rows() == wanted);
        }
    }
    EXPECT_EQ(volume->close(), Errc::ok);
}

TEST_F(BulkCommands, VisitorsMayAskTheVolume) {
    const auto disk = make_memory_disk(64 * mib);
    const auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    build_flat(*volume, 20, 30, false);
    std::atomic<u32> found{0};
    const Errc code = volume->scan(anybody, volume->root(), [&](const Scanned& one) {
        if (one.depth == 0) return true;
        const auto again = volume->lookup(anybody, one.directory, one.name);
        found += again && again->handle == one.attributes.handle ? 1 : 0;
        return one.name != "parent7";
    });
    EXPECT_EQ(code, Errc::ok);
    EXPECT_EQ(found, 1u + 20 + 19 * 30);
    EXPECT_EQ(volume->close(), Errc::ok);
}

/// Creates and removes names until told to stop.
void change(Volume& volume, const std::vector<Handle>& places, u32 thread,
            const std::atomic<bool>& is_done) {
    const std::string stem = "c" + std::to_string(thread) + ".";
    while (!is_done) {
        for (u32 i = 0; i < 250; ++i)
            make_file(volume, places[i % places.size()], stem + std::to_string(i));
        for (u32 i = 0; i < 250; ++i) {
            const Errc gone =
                volume.unlink(anybody, places[i % places.size()], stem + std::to_string(i));
            EXPECT_EQ(gone, Errc::ok);
        }
    }
}

TEST_F(BulkCommands, MeetWhatStaysBesideChanges) {
    const auto disk = make_memory_disk(128 * mib);
    const auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    std::vector<Handle> places;
    for (u32 i = 0; i < 3; ++i)
        places.push_back(make_directory(*volume, volume->root(), "d" + std::to_string(i)));
    std::set<std::string> staying;
    for (u32 i = 0; i < 1500; ++i) {
        staying.insert("stays" + std::to_string(i));
        make_file(*volume, places[i % 3], "stays" + std::to_string(i));
    }
    std::atomic<bool> is_done{false};
    std::vector<std::thread> changers;
    for (u32 t = 0; t < 3; ++t)
        changers.emplace_back([&, t] { change(*volume, places, t, is_done); });
    for (u32 round = 0; round < 60; ++round) {
        ScanRows rows;
        EXPECT_EQ(volume->scan(anybody, volume->root(), std::ref(rows)), Errc::ok);
        std::multiset<std::string> met;
        for (const ScanRow& row : rows.seen)
            met.insert(std::get<1>(row));
        for (const std::string& name : staying)
            EXPECT_EQ(met.count(name), 1u) << name << " in round " << round;
        std::vector<DirectoryUsage> usages;
        EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usages), Errc::ok);
        EXPECT_GE(usages.at(0).entries, 1504u);
        Rebuilt rebuilt;
        EXPECT_EQ(volume->rebuild(anybody, places[round % 3], rebuilt), Errc::ok);
        EXPECT_GE(rebuilt.entries, 500u);
        if (round % 20 == 19) {
            EXPECT_EQ(volume->sync(), Errc::ok);
        }
        if (testing::Test::HasFailure()) break;
    }
    is_done = true;
    for (std::thread& thread : changers)
        thread.join();
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren::bulk_commands_test

// SPDX-License-Identifier: Apache-2.0
// Directories rebuilt on the GPU: the directory that is copied back holds the same names in as few
// blocks as they need, and the volume is sound for the CPU engine.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "fs/engine/cuda/launch/directory_rebuild.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "tests/fs/bulk/rebuild_cases.hpp"
#include "tests/fs/engine/store_copies.hpp"

namespace warren::rebuild_test {
namespace {

using cuda_engine::RebuildShape;

class DirectoryRebuildTest : public testing::Test {
 protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
            GTEST_SKIP() << "there is no GPU";
        }
    }
};

/// Rebuilds on the device and copies what was changed back to the host.
class DeviceRebuild : public cuda_engine::BulkHost {
 public:
    DeviceRebuild(VolumeImplementation& volume, const RebuildShape& shape) : volume_(volume) {
        EXPECT_EQ(device_.open(volume.store()), Errc::ok);
        EXPECT_EQ(rebuild_.open(shape), Errc::ok);
    }

    Errc operator()(const Caller& caller, Handle directory) {
        const Errc code =
            rebuild_.rebuild(device_.store(), credentials_of(caller), directory, 0, *this);
        EXPECT_EQ(download(volume_.store(), device_.store()), Errc::ok);
        return code;
    }

    Errc bring(const std::vector<u64>& places) override {
        brought += places.size();
        for (const u64 place : places) {
            WARREN_TRY(volume_.loader().load(place));
            WARREN_TRY(device_.show_block(place));
        }
        return Errc::ok;
    }
    Errc commit() override {
        WARREN_TRY(download(volume_.store(), device_.store()));
        WARREN_TRY(volume_.commit());
        return upload_tables(volume_.store(), device_.store());
    }
    Errc let_go(const std::function<Errc()>& call) override {
        ++rested;
        std::this_thread::yield();
        return call();
    }

    u64 brought = 0;
    u64 rested = 0;

 private:
    VolumeImplementation& volume_;
    cuda_engine::DeviceStore device_;
    cuda_engine::DirectoryRebuild rebuild_;
};

TEST_F(DirectoryRebuildTest, PacksAllKinds) {
    expect_rebuilds([](InsideVolume& volume) {
        return std::make_unique<DeviceRebuild>(volume.inside(), RebuildShape{});
    });
}

TEST_F(DirectoryRebuildTest, FewWorkers) {
    for (const u32 blocks : {1u, 3u}) {
        expect_rebuilds([&](InsideVolume& volume) {
            return std::make_unique<DeviceRebuild>(
                volume.inside(), RebuildShape{.blocks = blocks, .warps_per_block = 1});
        });
    }
}

TEST_F(DirectoryRebuildTest, ColdTrees) {
    const RebuildCase which{"some", 20'000, 2, 12};
    const auto disk = make_memory_disk(256 * mib);
    std::map<std::string, u64> names;
    Handle directory;
    {
        InsideVolume volume(*disk);
        directory = make_case(*volume, which);
        names = list_names(*volume, directory);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    InsideVolume volume(*disk);
    DeviceRebuild rebuild(volume.inside(), {});
    EXPECT_EQ(rebuild(anybody, directory), Errc::ok);
    EXPECT_GT(rebuild.brought, 0u);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
    EXPECT_TRUE(list_names(*volume, directory) == names);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

TEST_F(DirectoryRebuildTest, MoreThanOneCommitHolds) {
    const RebuildCase which{"large", 40'000, 2, 20};
    const auto disk = make_memory_disk(32 * mib);  // whose journal holds less than the tree
    InsideVolume volume(*disk);
    const Handle directory = make_case(*volume, which);
    const auto names = list_names(*volume, directory);
    EXPECT_EQ(volume->sync(), Errc::ok);
    DeviceRebuild rebuild(volume.inside(), {});
    EXPECT_EQ(rebuild(anybody, directory), Errc::ok);
    EXPECT_GT(rebuild.rested, 1u);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
    EXPECT_TRUE(list_names(*volume, directory) == names);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

/// Looks up names until told to stop; all of them are there.
class Reader {
 public:
    Reader(Volume& volume, Handle directory, const std::vector<std::string>& names)
        : thread_([&volume, directory, &names, this] {
              for (u64 i = 0; !is_done_; i = (i + 7919) % names.size()) {
                  if (!volume.lookup(anybody, directory, names[i])) ++missing;
                  ++seen;
              }
          }) {}
    ~Reader() { stop(); }
    void stop() {
        is_done_ = true;
        if (thread_.joinable()) thread_.join();
    }
    std::atomic<u64> seen{0};
    std::atomic<u64> missing{0};

 private:
    std::atomic<bool> is_done_{false};
    std::thread thread_;
};

/// A directory of 1,500,000 names, through the volume, beside a reader.
TEST_F(DirectoryRebuildTest, AMillionAndAHalfLong) {
    const auto disk = make_memory_disk(4 * gib);
    std::vector<std::string> staying;
    Handle directory;
    u64 packed_blocks = 0;
    {
        InsideVolume volume(*disk);
        LargeDirectory large(volume, 1'800'000);
        directory = large.handle;
        packed_blocks = large.packed_blocks();
        staying = std::move(large.names);
        ASSERT_EQ(volume->close(), Errc::ok);
    }
    const auto volume = open_on(*disk, {.engine = EngineChoice::cuda});
    ASSERT_NE(volume, nullptr);
    Rebuilt rebuilt;
    Reader reader(*volume, directory, staying);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(volume->rebuild(anybody, directory, rebuilt), Errc::ok);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    reader.stop();
    EXPECT_FALSE(rebuilt.in_steps);
    EXPECT_EQ(rebuilt.entries, staying.size());
    EXPECT_LT(rebuilt.blocks_after, rebuilt.blocks_before);
    EXPECT_LE(rebuilt.blocks_after, packed_blocks);
    EXPECT_GT(reader.seen, 0u);
    EXPECT_EQ(reader.missing, 0u);
    std::printf("packed %llu names, %llu blocks into %llu, in %.2f ms, beside %llu look-ups\n",
                static_cast<unsigned long long>(rebuilt.entries),
                static_cast<unsigned long long>(rebuilt.blocks_before),
                static_cast<unsigned long long>(rebuilt.blocks_after), taken.count(),
                static_cast<unsigned long long>(reader.seen.load()));
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

TEST_F(DirectoryRebuildTest, AsksForPermission) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    const Handle directory = make_directory(*volume, volume->root(), "d", 040755);
    make_file(*volume, directory, "f");
    DeviceRebuild rebuild(volume.inside(), {});
    EXPECT_EQ(rebuild({.user = 7, .group = 7}, directory), Errc::access);
    EXPECT_EQ(rebuild({.user = 0}, directory), Errc::ok);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren::rebuild_test

// SPDX-License-Identifier: Apache-2.0
// The rebuild that a GPU runs, by threads and by lanes in lockstep: the same names under the same
// keys in as few blocks as they need, beside readers and writers.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/fs/engine/host_rebuild.hpp"
#include "tests/fs/engine/rebuild_cases.hpp"

namespace warren {
namespace {

TEST(DirectoryRebuildWork, OneThread) {
    expect_rebuilds([](InsideVolume& volume) {
        return std::make_unique<HostRebuild>(volume.inside(), 1, false);
    });
}

TEST(DirectoryRebuildWork, SomeThreads) {
    expect_rebuilds([](InsideVolume& volume) {
        return std::make_unique<HostRebuild>(volume.inside(), 3, false);
    });
}

TEST(DirectoryRebuildWork, ColdTreesAndLockstep) {
    const RebuildCase which{"some", 3000, 2, 12};
    const auto disk = make_memory_disk(64 * mib);
    std::map<std::string, u64> names;
    Handle directory;
    {
        InsideVolume volume(*disk);
        directory = make_case(*volume, which);
        names = list_names(*volume, directory);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    InsideVolume volume(*disk);
    HostRebuild rebuild(volume.inside(), 1, true);
    EXPECT_EQ(rebuild(anybody, directory), Errc::ok);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
    EXPECT_TRUE(list_names(*volume, directory) == names);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

TEST(DirectoryRebuildWork, AsksForPermission) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    const Handle directory = make_directory(*volume, volume->root(), "d", 040755);
    make_file(*volume, directory, "f");
    HostRebuild rebuild(volume.inside(), 2, false);
    EXPECT_EQ(rebuild({.user = 7, .group = 7}, directory), Errc::access);
    EXPECT_EQ(rebuild({.user = 0}, directory), Errc::ok);
    EXPECT_EQ(rebuild(anybody, volume->lookup(anybody, directory, "f")->handle),
              Errc::not_directory);
    EXPECT_EQ(rebuild(anybody, {directory.inode, directory.generation + 1}), Errc::stale);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

/// Threads that work in a directory until told to stop.
class Crowd {
 public:
    Crowd(Volume& volume, Handle directory, u32 threads) {
        for (u32 t = 0; t < threads; ++t) {
            threads_.emplace_back([this, &volume, directory, t] {
                while (!is_done_)
                    turn(volume, directory, t);
            });
        }
    }
    ~Crowd() {
        is_done_ = true;
        for (std::thread& thread : threads_)
            thread.join();
    }

 private:
    void turn(Volume& volume, Handle directory, u32 thread) {
        const std::string stem = "t" + std::to_string(thread) + ".";
        for (u32 i = 0; i < 400; ++i)
            make_file(volume, directory, stem + std::to_string(i));
        EXPECT_TRUE(volume.lookup(anybody, directory, stem + "7"));
        for (u32 i = 0; i < 1500; i += 31)
            EXPECT_TRUE(volume.lookup(anybody, directory, "stays" + std::to_string(i))) << i;
        u32 staying = 0;
        const Errc listed = volume.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            staying += entry.name.starts_with("stays") ? 1 : 0;
            return true;
        });
        EXPECT_EQ(listed, Errc::ok);
        EXPECT_EQ(staying, 1500u);
        for (u32 i = 0; i < 400; ++i)
            EXPECT_EQ(volume.unlink(anybody, directory, stem + std::to_string(i)), Errc::ok);
    }

    std::atomic<bool> is_done_{false};
    std::vector<std::thread> threads_;
};

TEST(DirectoryRebuildWork, BesideReadersAndWriters) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    const Handle directory = make_directory(*volume, volume->root(), "d");
    for (u32 i = 0; i < 1500; ++i)
        make_file(*volume, directory, "stays" + std::to_string(i));
    {
        Crowd crowd(*volume, directory, 2);
        HostRebuild rebuild(volume.inside(), 2, false);
        for (u32 round = 0; round < 60; ++round) {
            ASSERT_EQ(rebuild(anybody, directory), Errc::ok);
            if (round % 10 == 0) {
                EXPECT_EQ(volume->sync(), Errc::ok);
            }
        }
    }
    EXPECT_EQ(list_names(*volume, directory).size(), 1500u);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren

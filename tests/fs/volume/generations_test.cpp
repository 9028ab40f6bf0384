// SPDX-License-Identifier: Apache-2.0
// A pair of inode number and generation never names two files: not even after a power cut, which
// loses what was created since the last commit, be it one file or a hundred thousand. A kernel or
// an NFS client may still hold such handles.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "fs/commit/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::generations_test {
namespace {

constexpr u64 volume_bytes = 64 * mib;

class Generations : public testing::TestWithParam<const char*> {
 protected:
    std::unique_ptr<Volume> open(Disk& disk, const AdjustVolume& adjust = {}) {
        Failure failure;
        auto volume = open_on_engine(std::make_unique<PassingDisk>(disk), GetParam(),
                                     {.workers = 1}, failure, ~u64{0}, adjust);
        EXPECT_TRUE(volume) << failure.message;
        return volume;
    }
    void note(Handle file) {
        EXPECT_TRUE(seen_.emplace(file.inode, file.generation).second)
            << file.inode << "." << file.generation << " means two files";
    }
    /// A name that no earlier call has used: a commit may have kept some of their files.
    std::string new_name(u64 i) const { return "f" + std::to_string(seen_.size() + i); }
    /// Creates and removes files, which reuses numbers again and again and dirties a few blocks.
    void make_and_remove(Volume& volume, u64 count) {
        for (u64 i = 0; i < count && !HasFailure(); ++i) {
            const std::string name = new_name(0);
            note(make_file(volume, volume.root(), name));
            ASSERT_EQ(volume.unlink(anybody, volume.root(), name), Errc::ok);
        }
    }
    /// The same in batches.
    void make_and_remove_many(Volume& volume, u64 count, u64 batches) {
        std::vector<std::string> names;
        for (u64 i = 0; i < count; ++i)
            names.push_back(new_name(i));
        std::vector<Creation> creations;
        std::vector<Unlink> removals;
        for (const std::string& name : names) {
            creations.push_back({volume.root(), name, {}});
            removals.push_back({volume.root(), name});
        }
        std::vector<Result<Attributes>> made(count, Errc::io);
        std::vector<Errc> removed(count, Errc::io);
        for (u64 i = 0; i < batches && !HasFailure(); ++i) {
            volume.create_many(anybody, creations, made);
            for (const Result<Attributes>& one : made) {
                ASSERT_TRUE(one) << "error " << static_cast<int>(one.code()) << " in batch " << i;
                note(one->handle);
            }
            volume.remove_many(anybody, removals, removed);
            for (const Errc code : removed)
                ASSERT_EQ(code, Errc::ok);
        }
    }
    /// The disk after a power cut at this moment, with nothing open.
    static std::unique_ptr<MemoryDisk> cut(std::unique_ptr<Volume> volume, MemoryDisk& disk) {
        auto image = disk.copy();
        volume.reset();
        return image;
    }

    std::set<std::pair<u64, u32>> seen_;
};
INSTANTIATE_TEST_SUITE_P(Engines, Generations, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(Generations, areNotGivenTwiceThoughACutLostManyFiles) {
    auto disk = make_memory_disk(volume_bytes);
    for (u32 round = is_sanitized ? 2 : 0; round < 4; ++round) {
        auto volume = open(*disk);
        if (round == 2) {
            make_and_remove_many(*volume, 2'000, 40);
        } else {
            make_and_remove(*volume, 70'000);
        }
        disk = cut(std::move(volume), *disk);
    }
}

TEST_P(Generations, areNotGivenTwiceThoughACutComesAtOnce) {
    auto disk = make_memory_disk(volume_bytes);
    for (u32 round = 0; round < 20; ++round) {
        auto volume = open(*disk);
        make_and_remove(*volume, 20);
        if (round % 3 == 0) {
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        disk = cut(std::move(volume), *disk);
    }
}

u64 durable_generation(Disk& disk) {
    format::Superblock superblock;
    EXPECT_EQ(read_superblock(disk, "image", superblock).code, Errc::ok);
    return superblock.generation;
}

TEST_P(Generations, thatAreNotGivenAreNotUsedUp) {
    const auto disk = make_memory_disk(volume_bytes);
    for (u64 round = 1; round < 10; ++round) {
        const auto volume = open(*disk);
        make_and_remove(*volume, 10);
        ASSERT_EQ(volume->close(), Errc::ok);
        EXPECT_EQ(durable_generation(*disk), 1 + round * (format::generation_margin + 10));
    }
}

/// As if as many files had been created since the last commit as are allowed.
TEST(GenerationsOnTheHost, thatRunOutAreRaisedByACommit) {
    const auto disk = make_memory_disk(volume_bytes);
    VolumeImplementation* implementation = nullptr;
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<PassingDisk>(*disk), "cpu", {.workers = 1}, failure,
                       ~u64{0}, [&](VolumeImplementation& opened) { implementation = &opened; });
    ASSERT_TRUE(volume) << failure.message;
    const u64 durable = durable_generation(*disk);
    EXPECT_GT(durable, u64{format::generation_margin} + 1) << "raised before the first is given";
    make_file(*volume, volume->root(), "first");
    ASSERT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(durable_generation(*disk), durable) << "few do not raise it";
    relaxed_store(implementation->store().state->generation, durable - 50);
    const u64 before = implementation->committer().transaction();
    for (u32 i = 0; i < 100; ++i) {
        make_file(*volume, volume->root(), "file" + std::to_string(i));
        EXPECT_LT(relaxed_load(implementation->store().state->generation),
                  durable_generation(*disk) + format::generation_margin);
    }
    EXPECT_EQ(implementation->committer().transaction(), before + 1);
    EXPECT_GT(durable_generation(*disk), durable);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

class GenerationsLong : public Generations {};
INSTANTIATE_TEST_SUITE_P(Engines, GenerationsLong, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(GenerationsLong, areNotGivenTwiceThoughMillionsAreMadeBetweenCommits) {
    auto disk = make_memory_disk(volume_bytes);
    for (u32 round = 0; round < 2; ++round) {
        auto volume = open(*disk);
        make_and_remove_many(*volume, 2'000, 1'500);
        disk = cut(std::move(volume), *disk);
    }
}

}  // namespace
}  // namespace warren::generations_test

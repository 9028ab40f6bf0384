// SPDX-License-Identifier: Apache-2.0
// Small batches on the GPU, where a thread block stays resident for a while to take the next batch:
// batches in direct succession, after the block has exited, at the moment in which it exits, and
// beside all other uses of the device. Files travel between two rows of directories, so each batch
// shows whether its predecessor was executed exactly once.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "gpu/device.hpp"
#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::small_batches_test {
namespace {

using std::chrono::microseconds;

const OpenOptions on_cuda{.workers = 2, .engine = EngineChoice::cuda};
constexpr u64 volume_bytes = 256 * mib;

class SmallBatches : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};

/// One file each in one of two rows of directories, all of them in one row at a time.
class Travellers {
 public:
    Travellers(Volume& volume, const std::string& stem, u32 count) : volume_(volume) {
        for (u32 i = 0; i < count; ++i) {
            const std::string number = std::to_string(i);
            names_.push_back("file" + number);
            here_.push_back(make_directory(volume, volume.root(), stem + "home" + number));
            there_.push_back(make_directory(volume, volume.root(), stem + "away" + number));
        }
        std::vector<Creation> creations;
        for (u32 i = 0; i < count; ++i)
            creations.push_back({here_[i], names_[i], {}});
        std::vector<Result<Attributes>> results(count, Errc::io);
        volume.create_many(anybody, creations, results);
        for (const Result<Attributes>& result : results) {
            EXPECT_TRUE(result);
            if (result) files_.push_back(result->handle);
        }
    }

    /// Moves all files to the other row.
    void travel() {
        std::vector<Move> moves;
        for (std::size_t i = 0; i < names_.size(); ++i)
            moves.push_back({here_[i], names_[i], there_[i], names_[i]});
        std::vector<Errc> results(moves.size(), Errc::io);
        volume_.move_many(anybody, moves, results);
        for (std::size_t i = 0; i < moves.size(); ++i)
            ASSERT_EQ(results[i], Errc::ok) << i;
        std::swap(here_, there_);
    }

    /// All files are where they should be, and nowhere else.
    void expect_here() {
        const std::size_t count = names_.size();
        std::vector<Lookup> lookups;
        for (std::size_t i = 0; i < count; ++i)
            lookups.push_back({here_[i], names_[i]});
        for (std::size_t i = 0; i < count; ++i)
            lookups.push_back({there_[i], names_[i]});
        std::vector<Result<Attributes>> results(lookups.size(), Errc::io);
        volume_.lookup_many(anybody, lookups, results);
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_TRUE(results[i]) << i;
            ASSERT_EQ(results[i]->handle.inode, files_[i].inode) << i;
            ASSERT_EQ(results[count + i].code(), Errc::no_entry) << i;
        }
    }

 private:
    Volume& volume_;
    std::vector<std::string> names_;
    std::vector<Handle> files_;
    std::vector<Handle> here_;
    std::vector<Handle> there_;
};

/// Waits without sleeping, for a sleep is never short.
void spin_for(microseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
    }
}

void close_and_check(std::unique_ptr<Volume> volume, Disk& disk) {
    EXPECT_EQ(volume->close(), Errc::ok);
    volume.reset();
    ASSERT_TRUE(expect_clean(disk));
}

/// Few enough for a sanitizer.
TEST_F(SmallBatches, AFewAreDone) {
    const auto disk = make_memory_disk(volume_bytes);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    Travellers travellers(*volume, "", 20);
    for (u32 round = 0; round < 3; ++round)
        ASSERT_NO_FATAL_FAILURE(travellers.travel());
    ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
    close_and_check(std::move(volume), *disk);
}

TEST_F(SmallBatches, AreDoneRightBehindEachOther) {
    const auto disk = make_memory_disk(volume_bytes);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    Travellers few(*volume, "few", 20);
    Travellers many(*volume, "many", 300);
    // Longer than any block stays.
    for (u32 round = 0; round < 600; ++round) {
        Travellers& travellers = round % 8 == 7 ? many : few;
        ASSERT_NO_FATAL_FAILURE(travellers.travel());
        if (round % 5 == 0) {
            ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
        }
    }
    ASSERT_NO_FATAL_FAILURE(few.expect_here());
    ASSERT_NO_FATAL_FAILURE(many.expect_here());
    close_and_check(std::move(volume), *disk);
}

TEST_F(SmallBatches, AreDoneWhateverTheTimeBetweenThem) {
    const Seed seed;
    Random random(seed.value());
    const auto disk = make_memory_disk(volume_bytes);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    Travellers travellers(*volume, "", 32);
    for (u32 round = 0; round < 3000; ++round) {
        // About as long as a block stays, mostly.
        const u64 pause = random.one_in(20) ? random.below(3000) : 400 + random.below(200);
        spin_for(microseconds(pause));
        ASSERT_NO_FATAL_FAILURE(travellers.travel());
    }
    ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
    close_and_check(std::move(volume), *disk);
}

/// Allocates and frees device memory, which waits for kernels.
void take_device_memory() {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 1 * mib), cudaSuccess);
    ASSERT_EQ(cudaFree(memory), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

/// Creates more files at once than a small batch takes, moves and removes them.
void run_large_batch(Volume& volume, Handle from, Handle to) {
    constexpr u64 count = 1500;
    std::vector<std::string> names;
    std::vector<Creation> creations;
    std::vector<Move> moves;
    std::vector<Unlink> removals;
    for (u64 i = 0; i < count; ++i)
        names.push_back("large" + std::to_string(i));
    for (const std::string& name : names) {
        creations.push_back({from, name, {}});
        moves.push_back({from, name, to, name});
        removals.push_back({to, name});
    }
    std::vector<Result<Attributes>> made(count, Errc::io);
    volume.create_many(anybody, creations, made);
    for (const Result<Attributes>& one : made)
        ASSERT_TRUE(one);
    std::vector<Errc> codes(count, Errc::io);
    volume.move_many(anybody, moves, codes);
    for (const Errc code : codes)
        ASSERT_EQ(code, Errc::ok);
    volume.remove_many(anybody, removals, codes);
    for (const Errc code : codes)
        ASSERT_EQ(code, Errc::ok);
}

void remove_tree(Volume& volume) {
    build_flat(volume, 5, 20, false);
    Removal removal;
    ASSERT_EQ(volume.remove_tree(anybody, volume.root(), "doomed", removal), Errc::ok);
    EXPECT_EQ(removal.files, 100u);
}

TEST_F(SmallBatches, AreDoneBesideAllElseOnTheDevice) {
    const auto disk = make_memory_disk(volume_bytes);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    const Handle one = make_directory(*volume, volume->root(), "one");
    const Handle other = make_directory(*volume, volume->root(), "other");
    for (u32 i = 0; i < 300; ++i)
        make_file(*volume, one, "stays" + std::to_string(i));
    Travellers travellers(*volume, "", 32);
    Rebuilt rebuilt;
    std::vector<DirectoryUsage> usages;
    const std::vector<std::function<void()>> others{
        [&] { take_device_memory(); },
        [&] { run_large_batch(*volume, one, other); },
        [&] { remove_tree(*volume); },
        [&] { EXPECT_EQ(volume->sync(), Errc::ok); },
        [&] { make_file(*volume, other, "single"); },
        [&] { EXPECT_EQ(volume->unlink(anybody, other, "single"), Errc::ok); },
        [&] { EXPECT_EQ(volume->rebuild(anybody, one, rebuilt), Errc::ok); },
        [&] { EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usages), Errc::ok); },
    };
    for (u32 round = 0; round < 10; ++round) {
        for (const auto& run_other : others) {
            ASSERT_NO_FATAL_FAILURE(travellers.travel());
            ASSERT_NO_FATAL_FAILURE(run_other());
            ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
            ASSERT_NO_FATAL_FAILURE(travellers.travel());
        }
    }
    close_and_check(std::move(volume), *disk);
}

TEST_F(SmallBatches, AreDoneWhileBulkCommandsRun) {
    const auto disk = make_memory_disk(volume_bytes);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    const Handle packed = make_directory(*volume, volume->root(), "packed");
    for (u32 i = 0; i < 300; ++i)
        make_file(*volume, packed, "stays" + std::to_string(i));
    Travellers travellers(*volume, "", 32);
    std::atomic<bool> is_over{false};
    std::thread bulk([&] {
        Rebuilt rebuilt;
        std::vector<DirectoryUsage> usages;
        for (u32 round = 0; round < 10; ++round) {
            remove_tree(*volume);
            EXPECT_EQ(volume->rebuild(anybody, packed, rebuilt), Errc::ok);
            EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usages), Errc::ok);
        }
        is_over.store(true, std::memory_order_relaxed);
    });
    do {
        travellers.travel();
    } while (!is_over.load(std::memory_order_relaxed));
    bulk.join();
    ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
    close_and_check(std::move(volume), *disk);
}

TEST_F(SmallBatches, OfOneVolumeComeFromManyThreads) {
    const auto disk = make_memory_disk(volume_bytes);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            const std::string stem = "t" + std::to_string(t);
            Travellers travellers(*volume, stem, 16 + 20 * t);
            for (u32 round = 0; round < 150; ++round) {
                ASSERT_NO_FATAL_FAILURE(travellers.travel());
                make_file(*volume, volume->root(), stem + "made" + std::to_string(round));
                if (round % 50 == 0) {
                    EXPECT_EQ(volume->sync(), Errc::ok);
                }
            }
            ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    close_and_check(std::move(volume), *disk);
}

TEST_F(SmallBatches, OfTwoVolumesRunAtOnce) {
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 2; ++t) {
        threads.emplace_back([] {
            const auto disk = make_memory_disk(volume_bytes);
            auto volume = open_on(*disk, on_cuda);
            ASSERT_TRUE(volume);
            Travellers travellers(*volume, "", 32);
            for (u32 round = 0; round < 300; ++round)
                ASSERT_NO_FATAL_FAILURE(travellers.travel());
            ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
            close_and_check(std::move(volume), *disk);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

TEST_F(SmallBatches, LetTheirVolumeBeClosed) {
    const auto disk = make_memory_disk(volume_bytes);
    for (u32 round = 0; round < 20; ++round) {
        SCOPED_TRACE(round);
        auto volume = open_on(*disk, on_cuda);
        ASSERT_TRUE(volume);
        Travellers travellers(*volume, "round" + std::to_string(round), 32);
        ASSERT_NO_FATAL_FAILURE(travellers.travel());
        if (round % 2 == 0) {
            ASSERT_NO_FATAL_FAILURE(travellers.expect_here());
        }
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    ASSERT_TRUE(expect_clean(*disk));
}

}  // namespace
}  // namespace warren::small_batches_test

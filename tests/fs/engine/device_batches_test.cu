// SPDX-License-Identifier: Apache-2.0
// Batches and rebuilds that a GPU carries out in its image and the volume on the CPU engine adopts:
// the answers and the tree are those of the items one by one, a packed directory has all names, and
// the image equals the volume. Whatever fails on the GPU, the CPU does it.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/engine/cuda/replica/device_batch.hpp"
#include "fs/engine/cuda/replica/device_rebuild.hpp"
#include "tests/fs/bulk/rebuild_cases.hpp"
#include "tests/fs/engine/volume_with_gpu.cuh"
#include "tests/fs/volume/batch_names.hpp"
#include "tests/fs/volume/image_packing.hpp"
#include "tests/fs/volume/replicated_many.hpp"
#include "tests/support/lookup_questions.hpp"

namespace warren::device_batches_test {
namespace {

class CountedBatch final : public cuda_engine::DeviceBatch {
 public:
    using DeviceBatch::DeviceBatch;
    Errc run(const core::Store& image, const ops::BatchHeader& header, ops::BatchWindow& window,
             Errc& status) override {
        ++runs;
        return DeviceBatch::run(image, header, window, status);
    }
    u64 runs = 0;
};

/// Leaves what only reads to the CPU. A query makes a version of the image all the same.
class ChangingReader final : public ImageReader {
 public:
    Errc open() override { return Errc::ok; }
    Errc scan(const core::Store&, const ScanCall&, const std::function<void()>&) override {
        return Errc::not_supported;
    }
    Errc look_up(const core::Credentials&, const WithImage&, const UseStream&) override {
        return Errc::not_supported;
    }
    ImageBatch& batch(u32 number) override { return number == 0 ? batches : other_batches; }
    ImageRebuild& rebuild() override { return rebuilds; }
    std::string name() const override { return "a GPU"; }
    std::string failure() const override { return gpu::last_failure().message; }
    void drop_idle() override {
        batches.drop_idle();
        other_batches.drop_idle();
        rebuilds.drop_idle();
    }

 private:
    const int device_ = 0;
    MemoryBudget budget_{4 * gib};

 public:
    CountedBatch batches{budget_, device_};
    CountedBatch other_batches{budget_, device_};  // packed while the first runs
    cuda_engine::DeviceRebuild rebuilds{budget_, device_};
};

/// A replica of a volume, whose image the host can read; the volume owns it.
struct DeviceReplicaOf {
    explicit DeviceReplicaOf(VolumeImplementation& volume) {
        EXPECT_EQ(volume.mark_changes(), Errc::ok);
        ReplicaOptions options = volume.replica_options();
        options.report = [this](const std::string& line) { reports.push_back(line); };
        options.make_memory = [this, &store = volume.store()](auto& made) {
            auto its_memory = std::make_unique<TestedDeviceImage>(store);
            memory = its_memory.get();
            made = std::move(its_memory);
            return Errc::ok;
        };
        auto its_reader = std::make_unique<ChangingReader>();
        reader = its_reader.get();
        auto made =
            std::make_unique<ReplicaQueries>(volume.store(), std::move(its_reader), options);
        std::string failure;
        EXPECT_EQ(made->load(failure), Errc::ok) << failure;
        queries = made.get();
        volume.use_replica(std::move(made));
    }
    DeviceReplicaOf(const DeviceReplicaOf&) = delete;

    TestedDeviceImage* memory = nullptr;
    ChangingReader* reader = nullptr;
    ReplicaQueries* queries = nullptr;
    std::vector<std::string> reports;
};

using Many = ReplicatedMany<DeviceReplicaOf>;

class DeviceBatchesTest : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
    void TearDown() override { static_cast<void>(gpu::fail_call(0)); }
};

TEST_F(DeviceBatchesTest, doWhatTheirItemsDoOneByOne) {
    expect_equal_twins<Many>(512 * mib, 60, 400, 600, 20);
}

TEST_F(DeviceBatchesTest, doSoWithManyItems) {
    expect_equal_twins<ReplicatedMany<DeviceReplicaOf, 4096>>(512 * mib, 20, 100'000, 20'000, 4);
}

TEST_F(DeviceBatchesTest, doSoWhenHashesCollide) {
    expect_equal_twins<Many>(512 * mib, 30, 300, 200, 0, u64{0xff} << 47 | u64{1});
}

TEST_F(DeviceBatchesTest, doSoWithASmallJournal) {
    expect_equal_twins<Many>(64 * mib, 12, 20'000, 5'000);
}

/// What a batch has changed in the image is not sent again. The first few items are changed in
/// place, of many the directories are rewritten.
TEST_F(DeviceBatchesTest, leaveAnImageThatEqualsTheVolume) {
    for (const u64 count : {100u, 2000u, 30'000u}) {
        SCOPED_TRACE(count);
        ReplicatedMany<DeviceReplicaOf, 131'072> volume(512 * mib);
        const Handle one = make_directory(*volume, volume->root(), "one");
        const Handle two = make_directory(*volume, volume->root(), "two");
        Names files(one, count);
        EXPECT_EQ(files.create(*volume), count);
        expect_equal_unsent(volume.outer(), volume.replica());
        files.move(*volume, two);
        expect_equal_unsent(volume.outer(), volume.replica());
        EXPECT_EQ(volume->sync(), Errc::ok);
        EXPECT_TRUE(volume->lookup(anybody, two, "f3", Hold::yes));
        expect_equal_image(volume.outer(), volume.replica());
        files.remove(*volume);
        expect_equal_unsent(volume.outer(), volume.replica());
        EXPECT_EQ(volume->attributes(files.handles[3]).code(), Errc::stale);
        Names more(two, 2 * count, "more");
        EXPECT_EQ(more.create(*volume), 2 * count);
        expect_equal_unsent(volume.outer(), volume.replica());
        // A number that the kernel knows is not used again.
        for (const Handle made : more.handles)
            EXPECT_NE(made.inode, files.handles[3].inode);
        volume->forget(files.handles[3], 1);
        EXPECT_EQ(volume.replica().queries->statistics().left, 1u);  // the query for a version
        volume.close_and_check();
        EXPECT_GE(volume.windows(), 4u);
    }
}

/// One thread makes, moves and removes files beside the batches, in the same directories.
TEST_F(DeviceBatchesTest, runBesideWriters) {
    Many volume(512 * mib);
    const Handle one = make_directory(*volume, volume->root(), "one");
    const Handle two = make_directory(*volume, volume->root(), "two");
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
        for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
            const std::string name = "own" + std::to_string(i);
            EXPECT_TRUE(volume->create(anybody, one, name, {}));
            EXPECT_EQ(volume->rename(anybody, one, name, two, name), Errc::ok);
            EXPECT_EQ(volume->unlink(anybody, two, name), Errc::ok);
            if (i % 64 == 0) {
                EXPECT_EQ(volume->sync(), Errc::ok);
            }
        }
    });
    constexpr u64 count = 3000;
    for (u32 round = 0; round < 20 && !HasFailure(); ++round) {
        Names files(one, count);
        EXPECT_EQ(files.create(*volume), count);
        files.move(*volume, two);
        files.remove(*volume);
    }
    is_over.store(true, std::memory_order_relaxed);
    writer.join();
    EXPECT_EQ(list_names(*volume, one).size() + list_names(*volume, two).size(), 0u);
    volume.close_and_check();
    EXPECT_GE(volume.windows(), 60u);
}

/// Makes, moves and removes files. Returns how many calls of the CUDA runtime there were; call
/// `nth` fails, 0: none.
u64 change_while_a_call_fails(u64 nth) {
    VolumeWithGpu volume(64 * mib);
    const Handle one = make_directory(*volume, volume->root(), "one");
    const Handle two = make_directory(*volume, volume->root(), "two");
    static_cast<void>(gpu::fail_call(nth));
    Names files(one, 300);
    EXPECT_EQ(files.create(*volume), 300u);
    Names more(one, 1500, "more");
    EXPECT_EQ(more.create(*volume), 1500u);
    files.move(*volume, two);
    more.remove(*volume);
    files.remove(*volume);
    EXPECT_EQ(Names(two, 100, "last").create(*volume), 100u);
    const u64 calls = gpu::fail_call(0);
    EXPECT_EQ(list_names(*volume, one).size(), 0u);
    EXPECT_EQ(list_names(*volume, two).size(), 100u);
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, 103u);
    EXPECT_LE(volume.warnings().size(), nth == 0 ? 0u : 1u);
    if (nth == 0) {
        EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
    }
    volume.close_and_check();
    return calls;
}

TEST_F(DeviceBatchesTest, areDoneByTheCpuIfACallFails) {
    fail_each_call(50, change_while_a_call_fails);
}

/// What batches have changed the GPU finds at once.
TEST_F(DeviceBatchesTest, areSeenByQueries) {
    VolumeWithGpu volume(256 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    const Handle one = make_directory(*volume, volume->root(), "one");
    const Handle two = make_directory(*volume, volume->root(), "two");
    const auto expect_all = [&](const Names& files, const Names& gone) {
        std::vector<Asked> asked;
        for (const Handle in : {one, two}) {
            for (const std::string& name : files.names)
                asked.push_back({in, name, in == files.in});
            for (const std::string& name : gone.names)
                asked.push_back({in, name, false});
        }
        expect_lookups(*volume, anybody, asked);
        std::vector<DirectoryUsage> usage;
        EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
        EXPECT_EQ(usage[0].entries, 3 + files.names.size());
    };
    Names gone(two, 1000, "gone");
    EXPECT_EQ(gone.create(*volume), 1000u);
    gone.remove(*volume);
    Names files(one, 3000);
    EXPECT_EQ(files.create(*volume), 3000u);
    expect_all(files, gone);
    files.move(*volume, two);
    expect_all(files, gone);
    const ReplicaStatistics counts = volume.inside().replica()->statistics();
    EXPECT_EQ(counts.left, 0u);
    EXPECT_EQ(counts.by_replica, 8u);
    EXPECT_TRUE(volume.warnings().empty());
    volume.close_and_check();
}

/// A batch takes some 30 MB at least.
TEST_F(DeviceBatchesTest, areLeftToTheCpuIfTheyFindNoMemory) {
    VolumeWithGpu volume(256 * mib, 16 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    Names files(volume->root(), 500);
    EXPECT_EQ(files.create(*volume), 500u);
    files.remove(*volume);
    const ReplicaStatistics counts = volume.inside().replica()->statistics();
    EXPECT_EQ(counts.left, 2u);
    EXPECT_TRUE(counts.is_on);
    EXPECT_TRUE(volume.warnings().empty());
    volume.close_and_check();
}

/// After a release the next batch takes the memory again.
TEST_F(DeviceBatchesTest, runAfterARelease) {
    VolumeWithGpu volume(256 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    Names files(volume->root(), 2000);
    EXPECT_EQ(files.create(*volume), 2000u);
    EXPECT_EQ(volume->release_device_memory(), Errc::ok);
    EXPECT_FALSE(volume.inside().replica()->statistics().has_memory);
    files.remove(*volume);
    EXPECT_TRUE(volume.inside().replica()->statistics().has_memory);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
    EXPECT_TRUE(volume.warnings().empty());
    volume.close_and_check();
}

using DeviceRebuildTest = DeviceBatchesTest;

TEST_F(DeviceRebuildTest, packsAllKinds) {
    expect_rebuilds([](InsideVolume& volume) {
        return std::make_unique<ImagePacking<DeviceReplicaOf>>(volume);
    });
}

/// Also where one commit cannot hold the directory.
TEST_F(DeviceRebuildTest, leavesAnImageThatEqualsTheVolume) {
    for (const u64 size : {32 * mib, 512 * mib}) {
        Many volume(size);
        const Handle directory = make_case(*volume, {"large", 40'000, 2, 20});
        const auto names = list_names(*volume, directory);
        for (u32 round = 0; round < 2; ++round) {
            EXPECT_EQ(pack(*volume, directory), Errc::ok);
            expect_equal_unsent(volume.outer(), volume.replica());
        }
        EXPECT_EQ(volume.replica().queries->statistics().left, 0u);
        EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
        EXPECT_TRUE(list_names(*volume, directory) == names);
        volume.close_and_check();
    }
}

TEST_F(DeviceRebuildTest, runsBesideWriters) {
    Many volume(256 * mib);
    const Handle directory = make_case(*volume, {"some", 3000, 1, 12});
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
        for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
            const std::string name = "own" + std::to_string(i % 5000);
            if (i / 5000 % 2 == 0) {
                EXPECT_TRUE(volume->create(anybody, directory, name, {}));
            } else {
                EXPECT_EQ(volume->unlink(anybody, directory, name), Errc::ok);
            }
        }
    });
    for (u32 round = 0; round < 100 && !HasFailure(); ++round) {
        EXPECT_EQ(pack(*volume, directory), Errc::ok);
        if (round % 8 == 0) {
            EXPECT_EQ(volume->sync(), Errc::ok);
        }
    }
    is_over.store(true, std::memory_order_relaxed);
    writer.join();
    EXPECT_EQ(volume.replica().queries->statistics().left, 0u);
    volume.close_and_check();
}

/// Packs a directory while call `nth` of the CUDA runtime fails, 0: none. Returns how many there
/// were.
u64 pack_while_a_call_fails(u64 nth) {
    VolumeWithGpu volume(64 * mib);
    const Handle directory = make_case(*volume, {"some", 2000, 2, 12});
    const auto names = list_names(*volume, directory);
    static_cast<void>(gpu::fail_call(nth));
    EXPECT_EQ(pack(*volume, directory), Errc::ok);
    const u64 calls = gpu::fail_call(0);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names) + 1);
    EXPECT_TRUE(list_names(*volume, directory) == names);
    EXPECT_LE(volume.warnings().size(), nth == 0 ? 0u : 1u);
    EXPECT_EQ(volume.inside().replica()->statistics().left, nth == 0 ? 0u : 1u);
    volume.close_and_check();
    return calls;
}

TEST_F(DeviceRebuildTest, isDoneByTheCpuIfACallFails) {
    fail_each_call(20, pack_while_a_call_fails);
}

/// Packs a directory with a replica that may take so much memory, and has taken what the copy of
/// the metadata needs.
ReplicaStatistics pack_within(u64 bytes) {
    SCOPED_TRACE(bytes);
    std::unique_ptr<MemoryDisk> disk = make_memory_disk(64 * mib);
    const std::unique_ptr<Volume> before = open_on(*disk, {.engine = EngineChoice::cpu});
    const Handle directory = make_case(*before, {"some", 2000, 2, 12});
    EXPECT_EQ(before->close(), Errc::ok);
    VolumeWithGpu volume(std::move(disk), bytes);
    if (volume.inside().replica() == nullptr) return {};
    const auto names = list_names(*volume, directory);
    EXPECT_EQ(pack(*volume, directory), Errc::ok);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names) + 1);
    const ReplicaStatistics counts = volume.inside().replica()->statistics();
    EXPECT_EQ(volume.warnings().empty(), counts.is_on);
    volume.close_and_check();
    return counts;
}

/// With little memory the copy of the metadata does not fit, with some more only the rebuild.
TEST_F(DeviceRebuildTest, isLeftToTheCpuIfItFindsNoMemory) {
    constexpr u64 step = 64 * kib;  // much less than a rebuild takes
    u64 too_little = 1 * mib;
    u64 enough = 64 * mib;
    EXPECT_FALSE(pack_within(too_little).is_on);
    EXPECT_EQ(pack_within(enough).left, 0u);
    while (enough - too_little > step) {
        const u64 bytes = (too_little + enough) / 2;
        (pack_within(bytes).is_on ? enough : too_little) = bytes;
    }
    const ReplicaStatistics counts = pack_within(enough);
    EXPECT_TRUE(counts.is_on);
    EXPECT_EQ(counts.left, 1u);
}

}  // namespace
}  // namespace warren::device_batches_test

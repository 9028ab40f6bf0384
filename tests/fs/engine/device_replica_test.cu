// SPDX-License-Identifier: Apache-2.0
// A replica in a GPU's memory: the cases of replica_cases.hpp, and a volume whose scans and lookups
// of many names it answers. Whatever fails on the GPU, the CPU gives the answer, and one line says
// so.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/fs/bulk/scan_tables.hpp"
#include "tests/fs/engine/numbered_changes.hpp"
#include "tests/fs/engine/replica_cases.hpp"
#include "tests/fs/engine/volume_with_gpu.cuh"
#include "tests/support/lookup_questions.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::device_replica_test {

INSTANTIATE_TYPED_TEST_SUITE_P(Device, ReplicaTest, TestedDeviceImage);

namespace {

class DeviceReplicaTest : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
    void TearDown() override { static_cast<void>(gpu::fail_call(0)); }
};

/// What the volume finds and measures, against a walk that looks up name by name.
void expect_answers(VolumeWithGpu& volume) {
    const Handle root = volume->root();
    for (const ScanFilter& filter : filters()) {
        EXPECT_TRUE(walk(*volume, root, filter) == rows_of(volume.outer(), anybody, root, filter))
            << filter.pattern;
    }
    const auto wanted = walk_table(*volume, root, "/", {});
    OrderedTable<gpu::DeviceBuffer> table("/", [](void* to, const void* from, u64 bytes) {
        EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    });
    const u64 visits = order_table(*volume, table.order);
    if (table.order.is_filled) {
        EXPECT_TRUE(table.rows() == wanted);
    } else {
        EXPECT_EQ(visits, wanted.size());
    }
    for (const UsageOptions& options : {UsageOptions{}, {.depth_max = ~0u, .counts_links = true}}) {
        std::vector<DirectoryUsage> usages;
        EXPECT_EQ(volume->usage(anybody, root, options, usages), Errc::ok);
        EXPECT_TRUE(sums_of(usages) == sums_by_walk(*volume, root, options)) << options.depth_max;
    }
}

/// What lookup_many() answers to callers of all kinds, against lookup(). `old`: more questions.
std::vector<Asked> expect_answers_to_lookups(VolumeWithGpu& volume,
                                             const std::vector<Asked>& old = {}) {
    std::vector<Asked> asked = questions_about(*volume);
    asked.insert(asked.end(), old.begin(), old.end());
    const std::vector<u32> groups = {7, 1000};
    expect_lookups(*volume, anybody, asked);
    expect_lookups(*volume, {1000, 1000, groups, 022, true}, asked);
    expect_lookups(*volume, {7, 7, {}, 022, true}, asked);
    return asked;
}

TEST_F(DeviceReplicaTest, answersAsTheCpuDoes) {
    for (const u64 seed : {1, 2, 3}) {
        VolumeWithGpu volume(256 * mib);
        ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
        EXPECT_EQ(volume->engine(), "cpu");
        build_random(*volume, seed, 1500);
        expect_answers(volume);
        make_directory(*volume, volume->root(), "one more");
        expect_answers(volume);
        EXPECT_GT(volume.inside().replica()->statistics().by_replica, 18u);
        EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
        EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
    }
}

TEST_F(DeviceReplicaTest, looksUpAsTheCpuDoes) {
    for (const u64 seed : {1, 2, 3}) {
        VolumeWithGpu volume(256 * mib);
        ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
        build_random(*volume, seed, 1500);
        const std::vector<Asked> asked = expect_answers_to_lookups(volume);
        ASSERT_GT(asked.size(), 1024u);
        // Handles of what is gone, and of numbers that others have now.
        Removal removal;
        volume.inside().replica()->use_only(Side::cpu);
        for (const auto& [name, inode] : list_names(*volume, volume->root()))
            EXPECT_EQ(volume->remove_tree(anybody, volume->root(), name, removal), Errc::ok);
        volume.inside().replica()->use_only(Side::replica);
        EXPECT_EQ(volume.inside().commit_and_free(true), Errc::ok);
        expect_answers_to_lookups(volume, asked);
        build_random(*volume, seed + 3, 1500);
        expect_answers_to_lookups(volume, asked);
        EXPECT_EQ(volume.inside().replica()->statistics().by_replica, 9u);
        EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
        EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
    }
}

TEST_F(DeviceReplicaTest, looksUpWhatHasChangedBefore) {
    VolumeWithGpu volume(256 * mib);
    expect_lookups_of_some_moment(*volume, some_time());
    EXPECT_GE(volume.inside().replica()->statistics().by_replica, 3u);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
    EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
}

TEST_F(DeviceReplicaTest, findsTheStateOfOneMomentBesideWriters) {
    VolumeWithGpu volume(256 * mib);
    expect_states_of_one_moment(*volume, some_time(), [&](FoundNames& names) {
        std::mutex mutex;
        return volume->scan(anybody, volume->root(), [&](const Scanned& found) {
            const std::lock_guard lock(mutex);
            names.emplace(found.name, found.directory.inode);
            return true;
        });
    });
    EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
    EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
}

/// Removes "doomed"; whether the GPU has listed it.
bool remove_doomed(VolumeWithGpu& volume, const DoomedTree& tree) {
    const u64 before = volume.inside().replica()->statistics().by_replica;
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
    EXPECT_EQ(removal.files, tree.files);
    EXPECT_EQ(removal.directories, tree.directories);
    return volume.inside().replica()->statistics().by_replica > before;
}

TEST_F(DeviceReplicaTest, listsTreesToRemove) {
    std::vector<TreeRecipe> recipes = small_trees();
    recipes.push_back({"many files", 256 * mib,
                       [](Volume& volume) { return build_flat(volume, 40, 1500, false); }});
    recipes.push_back({"one large directory", 256 * mib,
                       [](Volume& volume) { return build_flat(volume, 1, 60'000, false); }});
    for (const TreeRecipe& recipe : recipes) {
        SCOPED_TRACE(recipe.label);
        VolumeWithGpu volume(recipe.size_bytes);
        ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
        make_file(*volume, make_directory(*volume, volume->root(), "kept"), "file");
        for (u32 round = 0; round < 2; ++round) {
            const DoomedTree tree = recipe.build(*volume);
            EXPECT_EQ(remove_doomed(volume, tree), recipe.may_be_listed);
            expect_answers(volume);
            Removal rest;
            for (const char* const beside : {"others", "outside"})
                static_cast<void>(volume->remove_tree(anybody, volume->root(), beside, rest));
        }
        EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
        volume.close_and_check();
    }
}

TEST_F(DeviceReplicaTest, listsTreesBesideWriters) {
    VolumeWithGpu volume(512 * mib);
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
        const Handle own = make_directory(*volume, volume->root(), "own");
        for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
            const std::string name = "f" + std::to_string(i % 100);
            EXPECT_TRUE(volume->create(anybody, own, name, {}));
            EXPECT_EQ(volume->unlink(anybody, own, name), Errc::ok);
        }
    });
    u32 listed = 0;
    for (u32 round = 0; round < 20; ++round)
        listed += remove_doomed(volume, build_flat(*volume, 10, 500, false)) ? 1 : 0;
    is_over.store(true, std::memory_order_relaxed);
    writer.join();
    EXPECT_GT(listed, 5u);
    EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
    volume.close_and_check();
}

/// With engine=auto a GPU is not touched before a query was slower without.
TEST_F(DeviceReplicaTest, isTakenOnceTheCpuWasSlower) {
    const auto disk = make_memory_disk(256 * mib);
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(*disk), "auto", {.workers = 1}, failure);
    ASSERT_NE(volume, nullptr) << failure.message;
    EXPECT_EQ(volume->engine(), "cpu");
    EXPECT_TRUE(volume->engine_note().starts_with("a GPU is not used yet"))
        << volume->engine_note();
    constexpr u64 count = 100'000;
    std::vector<std::string> names;
    std::vector<Creation> creations;
    for (u64 i = 0; i < count; ++i)
        names.push_back("f" + std::to_string(i));
    for (const std::string& name : names)
        creations.push_back({volume->root(), name, {}});
    std::vector<Result<Attributes>> made(count, Errc::io);
    volume->create_many(anybody, creations, made);
    const auto end = steady_clock::now() + std::chrono::seconds(60);
    while (volume->engine_note().find(" does find, du") == std::string::npos) {
        std::vector<DirectoryUsage> usage;
        EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
        EXPECT_EQ(usage[0].entries, count + 1);
        ASSERT_LT(steady_clock::now(), end) << volume->engine_note();
    }
    for (u32 i = 0; i < 10; ++i) {
        std::vector<DirectoryUsage> usage;
        EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
        EXPECT_EQ(usage[0].entries, count + 1);
    }
    EXPECT_EQ(volume->engine_note().find(": 0 queries by it"), std::string::npos)
        << volume->engine_note();
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

TEST_F(DeviceReplicaTest, isNotOnAGpuThatDoesNotExist) {
    const auto disk = make_memory_disk(64 * mib);
    OpenOptions options;
    options.device = 99;
    options.device_memory_bytes = gib;
    std::vector<std::string> warnings;
    options.warn = [&](const std::string& line) { warnings.push_back(line); };
    InsideVolume volume(*disk, options);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("(there is no GPU 99: they are numbered from 0 to "),
              std::string::npos)
        << warnings[0];
    EXPECT_EQ(volume->engine(), "cpu");
}

TEST_F(DeviceReplicaTest, leavesToTheCpuWhatDoesNotFit) {
    VolumeWithGpu volume(256 * mib, 8 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    expect_answers(volume);
    EXPECT_TRUE(volume.warnings().empty());
    const Handle many = make_directory(*volume, volume->root(), "many");
    for (u32 i = 0; i < 20'000; ++i)
        ASSERT_TRUE(volume->create(anybody, many, "f" + std::to_string(i), {}));
    expect_answers(volume);
    ASSERT_EQ(volume.warnings().size(), 1u);
    EXPECT_NE(volume.warnings()[0].find("do not fit"), std::string::npos);
}

/// The stream of lookups takes some 60 MB.
TEST_F(DeviceReplicaTest, leavesToTheCpuLookupsThatFindNoMemory) {
    VolumeWithGpu volume(256 * mib, 40 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    build_random(*volume, 1, 300);
    EXPECT_GT(expect_answers_to_lookups(volume).size(), 1024u);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 3u);
    EXPECT_TRUE(volume.inside().replica()->statistics().is_on);
    EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
}

/// A scan takes some 340 MiB. That of lookups beside it does not fit, but whichever does not run
/// gives its memory to the other.
TEST_F(DeviceReplicaTest, readersTakeTurnsWithTheMemory) {
    VolumeWithGpu volume(256 * mib, 380 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    build_random(*volume, 1, 300);
    for (u32 i = 0; i < 3; ++i) {
        std::vector<DirectoryUsage> usage;
        EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
        expect_answers_to_lookups(volume);
    }
    EXPECT_EQ(volume.inside().replica()->statistics().by_replica, 12u);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
    EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
}

/// While one scan holds its memory for visitors, there is none for a second one.
TEST_F(DeviceReplicaTest, leavesToTheCpuScansThatFindNoMemory) {
    VolumeWithGpu volume(256 * mib, 600 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    make_directory(*volume, volume->root(), "some");
    std::atomic<bool> is_visiting{false};
    std::atomic<bool> is_over{false};
    std::thread finding([&] {
        const auto wait = [&](const Scanned& found) {
            is_visiting.store(found.depth > 0);
            while (found.depth > 0 && !is_over.load())
                std::this_thread::yield();
            return true;
        };
        EXPECT_EQ(volume->scan(anybody, volume->root(), wait), Errc::ok);
    });
    while (!is_visiting.load())
        std::this_thread::yield();
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, 2u);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 1u);
    is_over.store(true);
    finding.join();
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 1u);
    EXPECT_TRUE(volume.warnings().empty());
}

/// What the calling thread's GPU has free; other processes may be taking or freeing memory there.
i64 free_bytes() {
    std::size_t free = 0;
    std::size_t all = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
    return static_cast<i64>(free);
}

TEST_F(DeviceReplicaTest, givesItsMemoryBack) {
    VolumeWithGpu volume(256 * mib);
    ASSERT_NE(volume.inside().replica(), nullptr) << volume->engine_note();
    build_random(*volume, 1, 1500);
    i64 freed = 0;
    for (u32 round = 0; round < 3; ++round) {
        expect_answers(volume);
        expect_answers_to_lookups(volume);
        const i64 before = free_bytes();
        // From a thread that has not used the device.
        std::thread([&] { EXPECT_EQ(volume->release_device_memory(), Errc::ok); }).join();
        freed = std::max(freed, free_bytes() - before);
        EXPECT_FALSE(volume.inside().replica()->statistics().has_memory);
        make_directory(*volume, volume->root(), "more" + std::to_string(round));
    }
    // A scan, a stream of lookups, and the image.
    EXPECT_GT(freed, static_cast<i64>(360 * mib));
    expect_answers(volume);
    EXPECT_TRUE(volume.inside().replica()->statistics().has_memory);
    EXPECT_EQ(volume.inside().replica()->statistics().left, 0u);
    EXPECT_TRUE(volume.warnings().empty()) << volume.warnings()[0];
    volume.close_and_check();
}

/// Opens a volume, measures it, finds all, looks names up and removes a tree while call `nth` of
/// the CUDA runtime fails; 0: none fails. Returns how many calls there were.
u64 find_while_a_call_fails(u64 nth) {
    static_cast<void>(gpu::fail_call(nth));
    VolumeWithGpu volume(64 * mib);
    const Handle some = make_directory(*volume, volume->root(), "some");
    for (u32 i = 0; i < 40; ++i)
        EXPECT_TRUE(volume->create(anybody, some, "f" + std::to_string(i), {}));
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(usage.size(), 1u);
    EXPECT_EQ(usage[0].entries, 42u);
    std::atomic<u64> found{0};
    const auto count = [&](const Scanned&) {
        ++found;
        return true;
    };
    EXPECT_EQ(volume->scan(anybody, volume->root(), count), Errc::ok);
    EXPECT_EQ(found, 42u);
    OrderedTable<gpu::DeviceBuffer> table("/", {});
    const u64 visits = order_table(*volume, table.order);
    EXPECT_EQ(visits, table.order.is_filled ? 1u : 42u);
    EXPECT_TRUE(table.order.is_filled || nth != 0);
    std::vector<Asked> asked;
    for (u32 i = 0; i < 1100; ++i)
        asked.push_back({some, "f" + std::to_string(i % 80), true});
    for (u32 i = 0; i < 2; ++i)  // with memory that was taken now, and before
        expect_lookups(*volume, anybody, asked);
    static_cast<void>(volume->release_device_memory());  // loaded again by the next query
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, 42u);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "some", removal), Errc::ok);
    EXPECT_EQ(removal.files, 40u);
    EXPECT_EQ(removal.directories, 1u);
    EXPECT_LE(volume.warnings().size(), nth == 0 ? 0u : 1u);
    const u64 calls = gpu::fail_call(0);
    volume.close_and_check();
    return calls;
}

/// Finds all files, whose records arrive in several pieces, while call `nth` fails. Returns how
/// many calls there were.
u64 visit_while_a_call_fails(u64 nth) {
    constexpr u64 count = 80'000;
    VolumeWithGpu volume(256 * mib);
    build_flat(*volume, 1, count, false);
    const auto find = [&] {
        std::vector<std::atomic<u32>> visits(2 * count);
        const auto visit = [&](const Scanned& entry) {
            visits[entry.attributes.handle.inode % visits.size()].fetch_add(1);
            return true;
        };
        EXPECT_EQ(volume->scan(anybody, volume->root(), visit), Errc::ok);
        const auto once = [](const auto& number) { return number == 1; };
        EXPECT_EQ(std::ranges::count_if(visits, once), static_cast<i64>(count + 2));
    };
    find();  // takes memory
    static_cast<void>(gpu::fail_call(nth));
    find();
    const u64 calls = gpu::fail_call(0);
    EXPECT_LE(volume.warnings().size(), nth == 0 ? 0u : 1u);
    // The scan polls for its pieces, so the number of its calls differs from run to run.
    const bool has_failed = nth != 0 && nth <= calls;
    EXPECT_EQ(volume.inside().replica()->statistics().left, has_failed ? 1u : 0u);
    volume.close_and_check();
    return calls;
}

TEST_F(DeviceReplicaTest, visitsEachNameOnceIfACallFails) {
    fail_each_call(10, visit_while_a_call_fails);
}

TEST_F(DeviceReplicaTest, theCpuAnswersIfACallFails) {
    fail_each_call(20, find_while_a_call_fails);
}

}  // namespace
}  // namespace warren::device_replica_test

// SPDX-License-Identifier: Apache-2.0
// A replica that nobody has asked for is loaded behind the first query that it would have answered
// faster, while the CPU answers. It is in the host's memory here.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fs/bulk/rebuild_cases.hpp"
#include "tests/support/assisted_volume.hpp"

namespace warren::replica_load_test {
namespace {

/// A volume with such a replica. By its clock each query on the CPU takes `taken` seconds.
struct LazyVolume {
    LazyVolume() : disk(make_memory_disk(256 * mib)) {
        open();
        build_random(**volume, 1, 300);
    }
    void open() {
        volume = std::make_unique<InsideVolume>(*disk);
        replica = std::make_unique<HostReplicaOf>(
            volume->inside(), [this] { return now = now + taken; },
            HostReplicaOf::Loads::when_faster);
    }
    Volume* operator->() { return &**volume; }
    ReplicaQueries& queries() { return *replica->queries; }

    /// The number of entries by du.
    u64 du(Handle directory) {
        std::vector<DirectoryUsage> usage;
        EXPECT_EQ((*volume)->usage(anybody, directory, {}, usage), Errc::ok);
        return usage[0].entries;
    }
    u64 du() { return du((*volume)->root()); }
    u64 opened() const { return replica->reader->opened; }

    std::atomic<double> taken{1};
    std::atomic<double> now{0};
    std::unique_ptr<MemoryDisk> disk;
    std::unique_ptr<InsideVolume> volume;
    std::unique_ptr<HostReplicaOf> replica;
};

TEST(ReplicaLoad, comesBehindAQueryThatWasSlower) {
    LazyVolume volume;
    volume.taken = 1e-9;
    const u64 entries = volume.du();
    volume.queries().finish_loading();
    EXPECT_EQ(volume.opened(), 0u);
    EXPECT_TRUE(volume->engine_note().starts_with("a GPU is not used yet; one is taken for find, "))
        << volume->engine_note();
    EXPECT_FALSE(volume.queries().statistics().has_memory);
    EXPECT_TRUE(volume->predictions().empty());
    EXPECT_EQ(volume->release_device_memory(), Errc::ok);
    volume.taken = 1;
    EXPECT_EQ(volume.du(), entries);
    volume.queries().finish_loading();
    EXPECT_EQ(volume.opened(), 1u);
    EXPECT_TRUE(volume.queries().is_loaded());
    EXPECT_TRUE(volume->engine_note().starts_with("the host's memory does find, du"));
    EXPECT_EQ(volume.queries().statistics().by_cpu, 2u);
    // What the query has loaded is in the image.
    volume.queries().use_only(Side::replica);
    EXPECT_EQ(volume.du(), entries);
    EXPECT_EQ(volume.queries().statistics().by_replica, 1u);
    EXPECT_EQ(volume.opened(), 1u);
    EXPECT_TRUE(volume.replica->reports.empty());
    // Once it was released, it comes back as any.
    EXPECT_EQ(volume->release_device_memory(), Errc::ok);
    EXPECT_EQ(*volume.replica->images, 0);
    EXPECT_EQ(volume.du(), entries);
    EXPECT_EQ(*volume.replica->images, 1);
}

/// Nobody has asked for a GPU, so that none can be used is not reported.
TEST(ReplicaLoad, isTriedOnce) {
    for (const Errc code : {Errc::no_device, Errc::not_supported, Errc::io, Errc::no_memory}) {
        LazyVolume volume;
        volume.replica->reader->fails_at_opening.store(code);
        for (u32 i = 0; i < 3; ++i) {
            volume.du();
            volume.queries().finish_loading();
        }
        EXPECT_EQ(volume.opened(), 1u);
        const bool is_reported = code == Errc::io || code == Errc::no_memory;
        ASSERT_EQ(volume.replica->reports.size(), is_reported ? 1u : 0u);
        if (is_reported) {
            EXPECT_EQ(volume.replica->reports[0],
                      "the GPU beside the CPU engine is not used (a test wants it); the CPU does "
                      "all work");
        }
        EXPECT_FALSE(volume.queries().statistics().is_on);
        EXPECT_TRUE(volume->engine_note().starts_with("a GPU is not used (a test wants it): 0 "))
            << volume->engine_note();
        EXPECT_TRUE(volume->predictions().empty());
        EXPECT_EQ(volume->release_device_memory(), Errc::no_device);
    }
}

/// Metadata that do not fit: what was taken for them is given back.
TEST(ReplicaLoad, givesItsMemoryBackIfItFails) {
    LazyVolume volume;
    volume.replica->at_load = [](HostReplica& memory) {
        memory.fail_after(0, Errc::no_memory);
        return Errc::ok;
    };
    volume.du();
    volume.queries().finish_loading();
    EXPECT_EQ(volume.opened(), 1u);
    EXPECT_EQ(*volume.replica->images, 0);
    EXPECT_EQ(volume.replica->reports.size(), 1u);
    EXPECT_GT(volume.du(), 300u);
}

/// Of a volume that was opened again most metadata are not in memory: the CPU loads and answers
/// what the image lacks.
TEST(ReplicaLoad, needsNoMetadataInMemory) {
    LazyVolume volume;
    const Handle one = make_directory(**volume.volume, volume->root(), "one");
    make_file(**volume.volume, one, "file");
    make_case(**volume.volume, {"many", 30'000, 1, 12});
    const u64 entries = volume.du();
    EXPECT_EQ(volume->close(), Errc::ok);
    volume.open();
    EXPECT_EQ(volume.du(one), 2u);
    volume.queries().finish_loading();
    volume.queries().use_only(Side::replica);
    for (u32 i = 0; i < 2; ++i) {
        EXPECT_EQ(volume.du(), entries);
        EXPECT_EQ(volume.queries().statistics().left, 1u);
        EXPECT_EQ(volume.queries().statistics().by_replica, i);
    }
}

/// Queries and changes go on while it is loaded.
TEST(ReplicaLoad, runsBesideOthers) {
    LazyVolume volume;
    std::atomic<bool> is_loading{false};
    std::atomic<bool> may_end{false};
    volume.replica->reader->at_open = [&] {
        is_loading = true;
        while (!may_end)
            std::this_thread::yield();
    };
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            for (u32 i = 0; i < 100; ++i) {
                make_directory(**volume.volume, volume->root(),
                               std::to_string(t) + '.' + std::to_string(i));
                EXPECT_GT(volume.du(), i);
                if (i == 50) may_end = true;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_TRUE(is_loading);
    volume.queries().finish_loading();
    EXPECT_EQ(volume.opened(), 1u);
    volume.queries().use_only(Side::replica);
    EXPECT_GT(volume.du(), 300u);
    EXPECT_GE(volume.queries().statistics().by_replica, 1u);
}

/// A volume that is closed meanwhile waits for it.
TEST(ReplicaLoad, mayBeUnderWayWhenTheVolumeIsClosed) {
    LazyVolume volume;
    volume.replica->reader->at_open = [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    volume.du();
    EXPECT_EQ(volume->close(), Errc::ok);
}

}  // namespace
}  // namespace warren::replica_load_test

// SPDX-License-Identifier: Apache-2.0
// Each CUDA runtime call of a small workload fails once, from opening to closing. The caller gets
// an error or does not notice, nothing crashes or hangs, and on the CPU engine the volume is then
// clean and holds what was synced. The same for each call of every single operation and the commit
// that follows it: see engine_faults.hpp.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/volume/open_volume.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "tests/support/engine_faults.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::cuda_fault_test {
namespace {

constexpr u64 volume_bytes = 64 * mib;
const std::vector<std::byte> contents(20'000, std::byte{'c'});

/// Files with contents in one directory, a tree, and a sync: the last durable state.
void make_base(Volume& volume) {
    const Handle kept = make_directory(volume, volume.root(), "kept");
    for (int i = 0; i < 20; ++i) {
        const Handle file = make_file(volume, kept, std::to_string(i));
        ASSERT_EQ(volume.open_file(file), Errc::ok);
        ASSERT_TRUE(volume.write(file, 0, contents));
        ASSERT_EQ(volume.release(file), Errc::ok);
    }
    const Handle tree = make_directory(volume, volume.root(), "tree");
    for (int i = 0; i < 300; ++i)
        make_file(volume, tree, "name" + std::to_string(i));
    ASSERT_EQ(volume.sync(), Errc::ok);
}

/// Some of each operation that this engine implements by itself. Answers do not matter here.
void work(Volume& volume) {
    std::vector<std::string> names;
    for (int i = 0; i < 200; ++i)
        names.push_back("many" + std::to_string(i));
    const auto made = volume.create(anybody, volume.root(), "new", {.mode = 040755});
    if (made) {
        std::vector<Creation> creations;
        std::vector<Move> moves;
        for (const std::string& name : names) {
            creations.push_back({made->handle, name, {}});
            moves.push_back({made->handle, name, volume.root(), name});
        }
        std::vector<Result<Attributes>> created(names.size(), Errc::io);
        std::vector<Errc> moved(names.size(), Errc::io);
        volume.create_many(anybody, creations, created);
        volume.move_many(anybody, moves, moved);
        // Enough names for a stream.
        std::vector<Lookup> lookups;
        for (std::size_t i = 0; i < 1100; ++i)
            lookups.push_back({volume.root(), names[i % names.size()]});
        std::vector<Result<Attributes>> found(lookups.size(), Errc::io);
        volume.lookup_many(anybody, lookups, found);
        Rebuilt rebuilt;
        static_cast<void>(volume.rebuild(anybody, volume.root(), rebuilt));
    }
    const auto file = volume.create(anybody, volume.root(), "file", {.open = true});
    if (file) {
        static_cast<void>(volume.write(file->handle, 0, contents));
        static_cast<void>(volume.sync_file(file->handle));
        static_cast<void>(volume.release(file->handle));
    }
    // The second scan finds what a first one that failed has left.
    for (int i = 0; i < 2; ++i)
        static_cast<void>(volume.scan(anybody, volume.root(), [](const Scanned&) { return true; }));
    Removal removal;
    static_cast<void>(volume.remove_tree(anybody, volume.root(), "tree", removal));
    static_cast<void>(volume.sync());
}

void expect_kept(MemoryDisk& disk) {
    const auto volume = open_on(disk, {.workers = 2, .engine = EngineChoice::cpu});
    ASSERT_TRUE(volume);
    for (int i = 0; i < 20; ++i) {
        const auto file = resolve(*volume, anybody, "/kept/" + std::to_string(i));
        ASSERT_TRUE(file) << i;
        std::vector<std::byte> bytes(contents.size() + 1);
        ASSERT_EQ(volume->open_file(file->handle), Errc::ok);
        const Result<u64> got = volume->read(file->handle, 0, bytes);
        ASSERT_EQ(volume->release(file->handle), Errc::ok);
        ASSERT_TRUE(got && *got == contents.size());
        bytes.resize(*got);
        ASSERT_EQ(bytes, contents);
    }
    ASSERT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(disk));
}

/// Opens, works and closes while the `nth` call fails; returns how many calls there were.
u64 run(MemoryDisk& disk, u64 nth) {
    static_cast<void>(gpu::fail_call(nth));
    Failure failure;
    std::string told;
    OpenOptions options;
    options.workers = 2;
    options.engine = EngineChoice::cuda;
    options.report = [&told](const std::string& line) { told = line; };
    auto volume = open_volume(std::make_unique<FaultDisk>(disk), "image", options, failure);
    if (volume == nullptr) {
        EXPECT_NE(failure.message, "");
    } else {
        work(*volume);
        const Errc closed = volume->close();
        EXPECT_TRUE(closed == Errc::ok || !told.empty()) << "nobody was told";
        volume.reset();
    }
    return gpu::fail_call(0);
}

void fail_calls(u64 odds) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const Seed seed;
    Random random(seed.value());
    const auto base = make_memory_disk(volume_bytes);
    const auto volume = open_on(*base, {.workers = 2, .engine = EngineChoice::cpu});
    make_base(*volume);
    ASSERT_EQ(volume->close(), Errc::ok);
    const u64 calls = run(*base->copy(), 0);
    EXPECT_GT(calls, 100u);
    u64 runs = 0;
    for (u64 nth = 1; nth <= calls && !testing::Test::HasFailure(); ++nth) {
        if (!random.one_in(odds)) continue;
        SCOPED_TRACE(testing::Message() << "call " << nth << " of " << calls << " fails");
        const auto disk = base->copy();
        run(*disk, nth);
        expect_kept(*disk);
        ++runs;
    }
    std::printf("%llu of %llu calls failed\n", static_cast<unsigned long long>(runs),
                static_cast<unsigned long long>(calls));
}

TEST(CudaFault, ofSomeCallsDoesNoHarm) {
    fail_calls(40);
}

TEST(CudaFaultLong, ofEachCallDoesNoHarm) {
    fail_calls(1);
}

/// The calls of the CUDA runtime.
class CudaCalls final : public FailingCalls {
 public:
    std::unique_ptr<Volume> open(Disk& disk, const OpenOptions& options) override {
        OpenOptions on_cuda = options;
        on_cuda.engine = EngineChoice::cuda;
        return open_on(disk, on_cuda);
    }
    u64 fail(u64 nth) override { return gpu::fail_call(nth); }
};

/// With all metadata in device memory, and with a buffer of a megabyte for them.
class CudaFaultOfOperations : public testing::TestWithParam<u64> {
 protected:
    static void fail_operations(u64 odds) {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
        CudaCalls calls;
        EngineFaults faults(calls, {.workers = 2, .meta_buffer_bytes = GetParam()});
        faults.fail_all(odds, odds);
    }
};
INSTANTIATE_TEST_SUITE_P(MetaBuffers, CudaFaultOfOperations, testing::ValuesIn(block_maps));

TEST_P(CudaFaultOfOperations, ofSomeCallsIsToldAndDoesNoHarm) {
    fail_operations(20);
}

class CudaFaultOfOperationsLong : public CudaFaultOfOperations {};
INSTANTIATE_TEST_SUITE_P(MetaBuffers, CudaFaultOfOperationsLong, testing::ValuesIn(block_maps));

TEST_P(CudaFaultOfOperationsLong, ofEachCallIsToldAndDoesNoHarm) {
    fail_operations(1);
}

}  // namespace
}  // namespace warren::cuda_fault_test

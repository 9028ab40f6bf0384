// SPDX-License-Identifier: Apache-2.0
// A whole volume on the CUDA engine, through its public interface: what one engine writes the other
// reads; metadata outgrow their initial device memory; many threads, with commits in between. All
// other tests of volumes run on it too, with WARREN_TEST_ENGINE=cuda.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpu/device.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren::cuda_engine_test {
namespace {

const OpenOptions on_cuda{.workers = 2, .engine = EngineChoice::cuda};
const OpenOptions on_cpu{.workers = 2, .engine = EngineChoice::cpu};
const Caller anybody{.check = false};

class CudaEngine : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};

std::vector<std::byte> bytes_of(u64 seed, u64 count) {
    std::vector<std::byte> bytes(count);
    for (u64 i = 0; i < count; ++i)
        bytes[i] = static_cast<std::byte>((i * 31 + seed * 7 + i / 4096) & 0xff);
    return bytes;
}

/// Sizes around the limits: inline bytes, parts of blocks, many blocks.
constexpr u64 sizes[] = {0, 1, 100, 128, 129, 4095, 4096, 4097, 65'536, 1'000'000};

/// A small tree with files of all sizes, a link of each kind, and an attribute.
void make_tree(Volume& volume) {
    const auto top = volume.create(anybody, volume.root(), "top", {.mode = 040755});
    ASSERT_TRUE(top);
    for (const u64 size : sizes) {
        const std::string name = "file" + std::to_string(size);
        const auto file = volume.create(anybody, top->handle, name, {.open = true});
        ASSERT_TRUE(file) << name;
        const auto written = volume.write(file->handle, 0, bytes_of(size, size));
        ASSERT_TRUE(written) << name;
        ASSERT_EQ(*written, size);
        ASSERT_EQ(volume.release(file->handle), Errc::ok);
    }
    const auto file = volume.lookup(anybody, top->handle, "file4096");
    ASSERT_TRUE(file);
    ASSERT_TRUE(volume.link(anybody, file->handle, top->handle, "hard"));
    ASSERT_TRUE(
        volume.create(anybody, top->handle, "soft", {.mode = 0120777, .target = "somewhere/else"}));
    ASSERT_EQ(volume.set_attribute(anybody, file->handle, "user.note",
                                   std::as_bytes(std::span("value", 5))),
              Errc::ok);
    ASSERT_EQ(volume.rename(anybody, top->handle, "file1", volume.root(), "moved"), Errc::ok);
    ASSERT_EQ(volume.unlink(anybody, top->handle, "file100"), Errc::ok);
}

void expect_file(Volume& volume, Handle directory, const std::string& name, u64 size) {
    const auto file = volume.lookup(anybody, directory, name);
    ASSERT_TRUE(file) << name;
    EXPECT_EQ(file->size, size);
    ASSERT_EQ(volume.open_file(file->handle), Errc::ok);
    std::vector<std::byte> read(size + 10);
    const auto got = volume.read(file->handle, 0, read);
    ASSERT_TRUE(got) << name;
    ASSERT_EQ(*got, size) << name;
    read.resize(size);
    EXPECT_TRUE(read == bytes_of(size, size)) << name;
    EXPECT_EQ(volume.release(file->handle), Errc::ok);
}

void expect_tree(Volume& volume) {
    const auto top = volume.lookup(anybody, volume.root(), "top");
    ASSERT_TRUE(top);
    for (const u64 size : sizes) {
        if (size == 1 || size == 100) continue;
        expect_file(volume, top->handle, "file" + std::to_string(size), size);
    }
    expect_file(volume, volume.root(), "moved", 1);
    EXPECT_EQ(volume.lookup(anybody, top->handle, "file100").code(), Errc::no_entry);
    const auto hard = volume.lookup(anybody, top->handle, "hard");
    ASSERT_TRUE(hard);
    EXPECT_EQ(hard->links, 2u);
    std::byte value[16];
    const auto length = volume.get_attribute(hard->handle, "user.note", value);
    ASSERT_TRUE(length);
    EXPECT_EQ(std::string(reinterpret_cast<char*>(value), *length), "value");
    const auto soft = volume.lookup(anybody, top->handle, "soft");
    ASSERT_TRUE(soft);
    const auto target = volume.read_link(soft->handle);
    ASSERT_TRUE(target);
    EXPECT_EQ(*target, "somewhere/else");
    u64 names = 0;
    EXPECT_EQ(volume.read_directory(top->handle, 0,
                                    [&](const DirectoryEntry&) {
                                        ++names;
                                        return true;
                                    }),
              Errc::ok);
    EXPECT_EQ(names, std::size(sizes));  // two files less, two links more
}

TEST_F(CudaEngine, WritesWhatTheOtherReads) {
    for (const bool cuda_first : {true, false}) {
        const auto disk = make_memory_disk(64 * mib);
        Statistics before;
        {
            auto volume = open_on(*disk, cuda_first ? on_cuda : on_cpu);
            ASSERT_TRUE(volume);
            EXPECT_EQ(volume->engine(), cuda_first ? "cuda" : "cpu");
            make_tree(*volume);
            expect_tree(*volume);
            before = volume->statistics();
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        ASSERT_TRUE(expect_clean(*disk));
        auto volume = open_on(*disk, cuda_first ? on_cpu : on_cuda);
        ASSERT_TRUE(volume);
        expect_tree(*volume);
        const Statistics after = volume->statistics();
        EXPECT_EQ(after.blocks_free, before.blocks_free);
        EXPECT_EQ(after.inodes_used, before.inodes_used);
        EXPECT_EQ(volume->close(), Errc::ok);
        ASSERT_TRUE(expect_clean(*disk));
    }
}

TEST_F(CudaEngine, MetadataOutgrowTheirFirstMemory) {
    const auto disk = make_memory_disk(256 * mib);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    // A block for the attribute of each file: more than the engine's initial 64 MiB.
    constexpr u32 count = 18'000;
    constexpr u32 threads = 4;
    const auto value = bytes_of(1, 200);
    std::atomic<u32> failures{0};
    std::vector<std::thread> workers;
    for (u32 t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            for (u32 i = t; i < count; i += threads) {
                const auto made =
                    volume->create(anybody, volume->root(), "name" + std::to_string(i), {});
                const bool is_set = made && volume->set_attribute(anybody, made->handle,
                                                                  "user.note", value) == Errc::ok;
                failures += is_set ? 0 : 1;
            }
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    ASSERT_EQ(failures, 0u);
    EXPECT_EQ(volume->sync(), Errc::ok);
    std::vector<std::byte> read(value.size());
    for (u32 i = 0; i < count; i += 97) {
        const auto found = volume->lookup(anybody, volume->root(), "name" + std::to_string(i));
        ASSERT_TRUE(found) << i;
        ASSERT_TRUE(volume->get_attribute(found->handle, "user.note", read)) << i;
        ASSERT_TRUE(read == value) << i;
    }
    EXPECT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(*disk));
}

TEST_F(CudaEngine, SmallVolumesFillUpAndEmpty) {
    const auto disk = make_memory_disk(16 * mib);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    const u64 inodes_before = volume->statistics().inodes_used;
    for (u32 round = 0; round < 2; ++round) {
        u32 count = 0;
        Errc last = Errc::ok;
        for (; last == Errc::ok && count < 5000; ++count) {
            const auto file = volume->create(anybody, volume->root(), "f" + std::to_string(count),
                                             {.open = true});
            last = file.code();
            if (!file) break;
            last = volume->write(file->handle, 0, bytes_of(count, 20'000)).code();
            ASSERT_EQ(volume->release(file->handle), Errc::ok);
        }
        EXPECT_EQ(last, Errc::no_space);
        for (u32 i = 0; i <= count; ++i) {
            const Errc removed = volume->unlink(anybody, volume->root(), "f" + std::to_string(i));
            ASSERT_TRUE(removed == Errc::ok || (removed == Errc::no_entry && i == count)) << i;
        }
        EXPECT_EQ(volume->sync(), Errc::ok);
        EXPECT_EQ(volume->statistics().inodes_used, inodes_before);
    }
    EXPECT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(*disk));
}

TEST_F(CudaEngine, ManyThreadsAndCommits) {
    const auto disk = make_memory_disk(128 * mib);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    const u64 inodes_before = volume->statistics().inodes_used;
    constexpr u32 threads = 6;
    constexpr u32 count = 300;
    std::atomic<u32> failures{0};
    std::atomic<bool> is_done{false};
    std::thread committer([&] {
        while (!is_done)
            failures += volume->sync() == Errc::ok ? 0 : 1;
    });
    std::vector<std::thread> workers;
    for (u32 t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            for (u32 i = 0; i < count; ++i) {
                const std::string name = std::to_string(t) + "." + std::to_string(i);
                const auto file = volume->create(anybody, volume->root(), name, {.open = true});
                failures += file ? 0 : 1;
                if (!file) continue;
                const auto bytes = bytes_of(i, 5000);
                const auto written = volume->write(file->handle, 0, bytes);
                failures += written && *written == bytes.size() ? 0 : 1;
                failures += volume->release(file->handle) == Errc::ok ? 0 : 1;
                if (i % 3 == 0) {
                    failures += volume->unlink(anybody, volume->root(), name) == Errc::ok ? 0 : 1;
                }
            }
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    is_done = true;
    committer.join();
    EXPECT_EQ(failures, 0u);
    EXPECT_EQ(volume->close(), Errc::ok);
    volume.reset();
    ASSERT_TRUE(expect_clean(*disk));
    auto again = open_on(*disk, on_cpu);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->statistics().inodes_used, inodes_before + threads * count * 2 / 3);
}

TEST_F(CudaEngine, TreesGoInOneCall) {
    const auto disk = make_memory_disk(128 * mib);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    const Statistics before = volume->statistics();
    const auto top = volume->create(anybody, volume->root(), "top", {.mode = 040755});
    ASSERT_TRUE(top);
    Handle at = top->handle;
    for (u32 d = 0; d < 20; ++d) {
        for (u32 f = 0; f < 40; ++f)
            ASSERT_TRUE(volume->create(anybody, at, "f" + std::to_string(f), {}));
        const auto deeper = volume->create(anybody, at, "d", {.mode = 040755});
        ASSERT_TRUE(deeper);
        if (d % 3 == 0) at = deeper->handle;
        if (d % 3 != 0)
            ASSERT_EQ(volume->rename(anybody, at, "d", at, "d" + std::to_string(d)), Errc::ok);
        for (u32 f = 0; d % 3 != 0 && f < 40; ++f)
            ASSERT_EQ(volume->unlink(anybody, at, "f" + std::to_string(f)), Errc::ok);
    }
    Removal removal;
    ASSERT_EQ(volume->remove_tree(anybody, volume->root(), "top", removal), Errc::ok);
    EXPECT_GT(removal.files, 0u);
    EXPECT_EQ(removal.directories, 21u);
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(volume->statistics().inodes_used, before.inodes_used);
    EXPECT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(*disk));
}

}  // namespace
}  // namespace warren::cuda_engine_test

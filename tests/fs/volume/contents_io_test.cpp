// SPDX-License-Identifier: Apache-2.0
// The disk I/O of file contents: none for a file that is removed before it was written, and no read
// for new blocks; and where new blocks lie. And no write is omitted wrongly: a file that is removed
// between a commit's snapshot and the write-back of its contents is whole if the power is cut next,
// and so is a file whose bytes were in flight while a commit began and ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/passing_disk.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::contents_io_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;

OpenOptions options_with(u64 file_buffer_bytes) {
    OpenOptions options;
    options.workers = 1;
    options.file_buffer_bytes = file_buffer_bytes;
    return options;
}

/// A disk that counts reads, and runs a callback before its next write.
class WatchedDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc read(u64 offset, std::span<std::byte> target) override {
        ++reads;
        return PassingDisk::read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        if (before_write) std::exchange(before_write, nullptr)();
        return PassingDisk::write(offset, source);
    }

    u64 reads = 0;
    std::function<void()> before_write;
};

Handle open_new(Volume& volume, const std::string& name) {
    const Handle file = make_file(volume, volume.root(), name);
    EXPECT_EQ(volume.open_file(file), Errc::ok);
    return file;
}

void write_file(Volume& volume, const std::string& name, std::span<const std::byte> bytes) {
    const Handle file = open_new(volume, name);
    const Result<u64> put = volume.write(file, 0, bytes);
    EXPECT_TRUE(put && *put == bytes.size());
    EXPECT_EQ(volume.release(file), Errc::ok);
}

/// Whether a block on the disk begins with eight such bytes.
bool is_on(MemoryDisk& disk, std::byte wanted) {
    std::vector<std::byte> bytes(disk.size_bytes());
    EXPECT_EQ(disk.read(0, bytes), Errc::ok);
    for (u64 at = 0; at < bytes.size(); at += 4096) {
        if (std::ranges::count(std::span(bytes).subspan(at, 8), wanted) == 8) return true;
    }
    return false;
}

TEST(ContentsIo, whatIsGoneBeforeACommitIsNotWritten) {
    const auto memory = make_memory_disk(volume_bytes);
    KeepingDisk disk(*memory);
    OpenOptions options = options_with(4 * mib);
    options.engine = EngineChoice::cpu;  // one with memory of its own writes all
    const auto volume = open_on(disk, options);
    ASSERT_TRUE(volume);
    constexpr u64 files = 5;  // more in all than may be dirty at once, and than memory holds
    const auto name_of_file = [](u64 number) { return "file" + std::to_string(number); };
    for (u64 i = 0; i < files; ++i)
        write_file(*volume, name_of_file(i), std::vector(mib, std::byte{'o'}));
    // Blocks that a commit refers to are not reused before the next one.
    ASSERT_EQ(volume->sync(), Errc::ok);
    for (u64 i = 0; i < files; ++i) {
        const Result<Attributes> file = volume->lookup(anybody, volume->root(), name_of_file(i));
        ASSERT_TRUE(file);
        ASSERT_TRUE(volume->write(file->handle, 0, std::vector(mib, std::byte{'g'})));
        ASSERT_EQ(volume->unlink(anybody, volume->root(), name_of_file(i)), Errc::ok);
    }
    // Truncated to nothing, then partly rewritten.
    const Handle cut = open_new(*volume, "cut");
    ASSERT_TRUE(volume->write(cut, 0, std::vector(mib, std::byte{'g'})));
    AttributeChange change;
    change.which = AttributeChange::size;
    ASSERT_TRUE(volume->set_attributes(anybody, cut, change));
    ASSERT_TRUE(volume->write(cut, 0, std::vector(mib / 2, std::byte{'n'})));
    ASSERT_EQ(volume->release(cut), Errc::ok);
    write_file(*volume, "stays", std::vector(mib, std::byte{'s'}));
    ASSERT_EQ(volume->sync(), Errc::ok);
    EXPECT_FALSE(is_on(*memory, std::byte{'g'}));
    EXPECT_TRUE(is_on(*memory, std::byte{'n'}));
    EXPECT_TRUE(is_on(*memory, std::byte{'s'}));
    ASSERT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*memory));
}

TEST(ContentsIo, whatACommitShowsIsWrittenAlthoughItIsGone) {
    constexpr u64 files = 200;  // extents of one block, more than are written at once
    const auto name_of_file = [](u64 number) { return "file" + std::to_string(number); };
    const auto log = make_memory_disk(volume_bytes);
    WatchedDisk disk(*log);
    const auto volume = open_on(disk, options_with(2 * mib));
    ASSERT_TRUE(volume);
    leave_foreign_bytes(*volume);
    ASSERT_EQ(volume->sync(), Errc::ok);
    for (u64 i = 0; i < files; ++i)
        write_file(*volume, name_of_file(i), std::vector(4096, static_cast<std::byte>(1 + i)));
    log->start_recording();
    disk.before_write = [&] {
        // The snapshot has been taken. Enough is written for a scan of the dirty blocks.
        std::thread([&] {
            for (u64 i = 0; i < files; ++i)
                EXPECT_EQ(volume->unlink(anybody, volume->root(), name_of_file(i)), Errc::ok);
            write_file(*volume, "more", std::vector(3 * mib / 2, std::byte{'m'}));
        }).join();
    };
    ASSERT_EQ(volume->sync(), Errc::ok);
    ASSERT_FALSE(disk.before_write);
    const auto image = log->image_after(log->event_count(), {.drop = true, .seed = 1});
    ASSERT_EQ(volume->close(), Errc::ok);
    const auto after = open_on(*image, {.workers = 1});
    ASSERT_TRUE(after);
    for (u64 i = 0; i < files; ++i) {
        const Result<Attributes> file = after->lookup(anybody, after->root(), name_of_file(i));
        ASSERT_TRUE(file) << "what was committed shows all files";
        std::vector<std::byte> bytes(4096);
        const Result<u64> got = after->read(file->handle, 0, bytes);
        ASSERT_TRUE(got && *got == bytes.size());
        EXPECT_EQ(bytes, std::vector(4096, static_cast<std::byte>(1 + i))) << name_of_file(i);
    }
    ASSERT_EQ(after->close(), Errc::ok);
}

TEST(ContentsIo, bytesAreThereBeforeTheirFileAlthoughACommitComesBetween) {
    const auto log = make_memory_disk(volume_bytes);
    WatchedDisk disk(*log);
    // With an engine that has memory of its own a commit waits for bytes in flight.
    OpenOptions options;
    options.workers = 1;
    options.engine = EngineChoice::cpu;
    const auto volume = open_on(disk, options);
    ASSERT_TRUE(volume);
    leave_foreign_bytes(*volume);
    const Handle file = open_new(*volume, "file");
    ASSERT_EQ(volume->sync(), Errc::ok);
    log->start_recording();
    disk.before_write = [&] { std::thread([&] { EXPECT_EQ(volume->sync(), Errc::ok); }).join(); };
    const std::vector<std::byte> bytes(8192, std::byte{'n'});
    ASSERT_TRUE(volume->write(file, 0, bytes));
    ASSERT_FALSE(disk.before_write);
    ASSERT_EQ(volume->sync(), Errc::ok);
    u64 shown = 0;
    for (u64 event = 1; event <= log->event_count(); ++event) {
        for (u64 lost = 0; lost <= std::min<u64>(log->count_unflushed(event), 63); ++lost) {
            const auto image = log->image_after(event, {.lost = (u64{1} << lost) - 1});
            const auto after = open_on(*image, {.workers = 1});
            ASSERT_TRUE(after);
            const Result<Attributes> found = after->lookup(anybody, after->root(), "file");
            ASSERT_TRUE(found);
            std::vector<std::byte> read(found->size);
            ASSERT_TRUE(after->read(found->handle, 0, read));
            EXPECT_TRUE(read.empty() || read == bytes) << event << ", " << lost << " lost";
            shown += read.empty() ? 0 : 1;
            ASSERT_EQ(after->close(), Errc::ok);
        }
    }
    EXPECT_GT(shown, 0u);
    ASSERT_EQ(volume->release(file), Errc::ok);
    ASSERT_EQ(volume->close(), Errc::ok);
}

TEST(ContentsIo, newBlocksAreWrittenWithoutReadingAny) {
    const auto memory = make_memory_disk(volume_bytes);
    WatchedDisk disk(*memory);
    const auto volume = open_on(disk, options_with(4 * mib));
    ASSERT_TRUE(volume);
    struct Write {
        u64 inline_bytes;  // there before
        u64 offset;
        u64 length;
    };
    const Write writes[] = {{0, 0, 300'123},    {0, 5, 70'000},      {100, 10, 200'000},
                            {100, 300, 99'999}, {0, 50'001, 81'920}, {100, 50'001, 81'920},
                            {0, 4096, 69'633},  {0, 0, 65'537},      {50, 0, 131'072}};
    int number = 0;
    for (const auto& [inline_bytes, offset, length] : writes) {
        SCOPED_TRACE(testing::Message() << length << " bytes at " << offset);
        const Handle file = open_new(*volume, "file" + std::to_string(++number));
        std::vector<std::byte> model(inline_bytes, std::byte{'i'});
        ASSERT_TRUE(inline_bytes == 0 || volume->write(file, 0, model));
        std::vector<std::byte> bytes(length);
        for (u64 i = 0; i < length; ++i)
            bytes[i] = static_cast<std::byte>(1 + i % 251);
        const u64 reads = disk.reads;
        const Result<u64> put = volume->write(file, offset, bytes);
        ASSERT_TRUE(put && *put == length);
        EXPECT_EQ(disk.reads, reads);
        model.resize(std::max(model.size(), offset + length));
        std::ranges::copy(bytes, model.begin() + static_cast<std::ptrdiff_t>(offset));
        std::vector<std::byte> found(model.size());
        ASSERT_TRUE(volume->read(file, 0, found));
        EXPECT_TRUE(found == model);
        ASSERT_EQ(volume->release(file), Errc::ok);
    }
    ASSERT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*memory));
}

TEST(ContentsIo, requestsThatOvertakeEachOtherFillOneRun) {
    const auto memory = make_memory_disk(64 * mib);
    VolumeImplementation* inside = nullptr;
    Failure failure;
    const auto volume = open_on_engine(std::make_unique<PassingDisk>(*memory),
                                       test_engine_name("cpu"), options_with(0), failure, ~u64{0},
                                       [&](VolumeImplementation& opened) { inside = &opened; });
    ASSERT_TRUE(volume) << failure.message;
    const auto write_at = [&](Handle file, u64 block, u64 blocks) {
        const std::vector bytes(blocks * format::block_size, std::byte{0x5a});
        const Result<u64> put = volume->write(file, block * format::block_size, bytes);
        ASSERT_TRUE(put && *put == bytes.size());
    };
    const Handle large = open_new(*volume, "large");
    constexpr u64 blocks = 256;
    for (const u64 number : {0, 7, 2, 1, 4, 5, 3, 6, 15, 9, 11, 10, 8, 13, 12, 14})
        write_at(large, number * blocks, blocks);
    const Result<ops::Mapping> run = inside->map_block(large, 0);
    ASSERT_TRUE(run);
    EXPECT_EQ(run->blocks, 16 * blocks);
    // Small writes leave no room for the holes between them.
    const Handle sparse = open_new(*volume, "sparse");
    for (u64 i = 0; i < 3; ++i)
        write_at(sparse, i * 4, 1);
    const Result<ops::Mapping> first = inside->map_block(sparse, 0);
    const Result<ops::Mapping> last = inside->map_block(sparse, 8);
    ASSERT_TRUE(first && last);
    EXPECT_EQ(last->place, first->place + 2 * format::block_size);
    EXPECT_EQ(volume->release(large), Errc::ok);
    EXPECT_EQ(volume->release(sparse), Errc::ok);
    ASSERT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*memory));
}

}  // namespace
}  // namespace warren::contents_io_test

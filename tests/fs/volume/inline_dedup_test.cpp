// SPDX-License-Identifier: Apache-2.0
// OpenOptions::dedup: written data can be read back, whatever was shared, and equal data takes
// blocks once. Blocks are counted after a commit: replaced blocks are in use until then.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <map>
#include <thread>

#include "fs/admin/make_volume.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/volume/inline_dedup.hpp"
#include "fs/volume/open_volume.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/open_inside.hpp"
#include "tests/support/seed.hpp"

namespace warren::inline_dedup_test {
namespace {

constexpr u64 run = InlineDedup::run_bytes_min;

OpenOptions with_dedup(u64 meta_buffer_bytes = 0) {
    OpenOptions options;
    options.meta_buffer_bytes = meta_buffer_bytes;
    options.dedup = Dedup::on;
    options.dedup_fill_bytes = 0;
    options.dedup_index_bytes = mib;  // forgets nothing of the volumes here
    return options;
}

class Deduplicated : public testing::TestWithParam<u64> {
 public:
    Handle open_new(const std::string& name) {
        const Handle file = make_file(*volume_, volume_->root(), name);
        EXPECT_EQ(volume_->open_file(file), Errc::ok);
        return file;
    }
    Handle open_with(const std::string& name, const Bytes& bytes) {
        const Handle file = open_new(name);
        put(*volume_, file, 0, bytes);
        return file;
    }
    u64 used() {
        EXPECT_EQ(volume_->sync(), Errc::ok);
        return used_blocks(*volume_);
    }
    u64 shared() { return volume_->dedup_statistics().shared_bytes; }
    /// A file that takes all the space available for contents.
    Handle fill_data() {
        const Handle full = open_new("full");
        for (u64 end = 0;;) {
            const Result<u64> done = volume_->write(full, end, random_bytes(random_, 8 * mib));
            if (!done) return full;
            end += *done;
        }
    }
    /// Links that take all the space available for metadata, a block each; returns how many.
    u64 fill_metadata() {
        const std::string target(1000, 't');
        CreateOptions link;
        link.mode = S_IFLNK | 0777;
        link.target = target;
        for (u64 count = 0;; ++count) {
            if (!volume_->create({}, volume_->root(), link_name(count), link)) return count;
        }
    }
    static std::string link_name(u64 number) { return "link " + std::to_string(number); }

 protected:
    MemoryVolume volume_{64 * mib, with_dedup(GetParam())};
    Random random_{7};
};

TEST_P(Deduplicated, TheSameBytesCostTheBlocksOfOneFile) {
    const Bytes bytes = random_bytes(random_, 5 * mib + 100);
    open_with("first", bytes);
    const u64 before = used();
    const Handle second = open_with("second", bytes);
    // Reference counts of at most three block groups, and leaves of extents.
    EXPECT_LE(used(), before + 6);
    EXPECT_EQ(shared(), bytes.size());
    EXPECT_EQ(contents(*volume_, second), bytes);
    EXPECT_EQ(volume_->dedup_statistics().zero_bytes, 0u);
    volume_.close_and_check();
}

TEST_P(Deduplicated, RunsAreFoundWhereverBlocksBegin) {
    const Bytes bytes = random_bytes(random_, 64 * block_bytes);
    open_with("first", bytes);
    Bytes other = random_bytes(random_, 64 * block_bytes);
    std::copy_n(&bytes[20 * block_bytes], 16 * block_bytes, &other[3 * block_bytes]);
    std::copy_n(&bytes[20 * block_bytes], 16 * block_bytes, &other[40 * block_bytes]);
    const Handle second = open_with("second", other);
    EXPECT_EQ(shared(), 32 * block_bytes);
    EXPECT_EQ(contents(*volume_, second), other);
    // A write that begins and ends within blocks.
    const Bytes part(&bytes[block_bytes - 10], &bytes[20 * block_bytes]);
    put(*volume_, second, 5 * block_bytes - 10, part);
    std::ranges::copy(part, &other[5 * block_bytes - 10]);
    EXPECT_EQ(contents(*volume_, second), other);
    EXPECT_EQ(shared(), 51 * block_bytes);
    volume_.close_and_check();
}

TEST_P(Deduplicated, EqualBlocksAreSharedInOneRun) {
    const Bytes bytes(32 * run, std::byte{1});
    const Handle first = open_with("first", bytes);
    const auto make_copy = [&](const std::string& name) {
        const DedupStatistics before = volume_->dedup_statistics();
        const Handle copy = open_with(name, bytes);
        EXPECT_EQ(contents(*volume_, copy), bytes);
        EXPECT_EQ(shared() - before.shared_bytes, bytes.size()) << name;
        EXPECT_EQ(volume_->dedup_statistics().found - before.found, 1u) << name;
        return copy;
    };
    EXPECT_EQ(volume_->release(make_copy("second")), Errc::ok);
    EXPECT_EQ(volume_->release(first), Errc::ok);
    for (const char* name : {"first", "second"})
        ASSERT_EQ(volume_->unlink({}, volume_->root(), name), Errc::ok);
    open_with("third", bytes);  // the index names the first file
    make_copy("fourth");
    volume_.close_and_check();
}

/// A block of another file with which only a short run begins does not keep longer runs from being
/// found.
TEST_P(Deduplicated, AShortRunElsewhereHidesNothing) {
    const Bytes one(block_bytes, std::byte{1});
    open_with("one block", one);
    const Bytes equal(32 * run, std::byte{1});
    open_with("equal blocks", equal);
    EXPECT_EQ(contents(*volume_, open_with("their copy", equal)), equal);
    EXPECT_GE(shared(), equal.size());

    Bytes mixed = random_bytes(random_, 4 * run);
    open_with("mixed", mixed);
    const Bytes part(&mixed[3 * block_bytes], &mixed[4 * block_bytes]);
    open_with("part", part);
    const u64 before = shared();
    open_with("copy of the part", part);
    EXPECT_EQ(shared() - before, part.size());
    volume_.close_and_check();
}

/// The index still names where the blocks of the file were before.
TEST_P(Deduplicated, BlocksThatMoveWithinTheirFileAreFoundThere) {
    const Bytes bytes = random_bytes(random_, 4 * run);
    const Handle file = open_new("file");
    put(*volume_, file, bytes.size(), bytes);
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = 0;
    ASSERT_TRUE(volume_->set_attributes({}, file, change));
    put(*volume_, file, 0, bytes);
    EXPECT_EQ(contents(*volume_, open_with("copy", bytes)), bytes);
    EXPECT_EQ(shared(), bytes.size());
    volume_.close_and_check();
}

TEST_P(Deduplicated, ShortRunsAreWrittenAndShortFilesShared) {
    const Bytes bytes = random_bytes(random_, run);
    open_with("first", bytes);
    Bytes other = random_bytes(random_, 2 * run);
    std::copy_n(bytes.data(), run - block_bytes, other.data());
    EXPECT_EQ(contents(*volume_, open_with("second", other)), other);
    EXPECT_EQ(shared(), 0u);
    const Bytes small = random_bytes(random_, 5000);
    open_with("small", small);
    const u64 before = used();
    EXPECT_EQ(contents(*volume_, open_with("as small", small)), small);
    EXPECT_EQ(shared(), small.size());
    EXPECT_LE(used(), before + 1) << "the counts of a frame";
    Bytes longer = small;
    longer.push_back(std::byte{1});
    EXPECT_EQ(contents(*volume_, open_with("longer", longer)), longer);
    EXPECT_EQ(shared(), small.size()) << "a part of a block is shared where both files end";
    volume_.close_and_check();
}

TEST_P(Deduplicated, AShortWriteThatIsAwaitedIsNotLookedUp) {
    constexpr u64 least = InlineDedup::awaited_bytes_min;
    for (const u64 size : {u64{5000}, least - 1, least, least + 1}) {
        const Bytes bytes = random_bytes(random_, size);
        const std::string name = "of " + std::to_string(size);
        open_with(name, bytes);
        const u64 before = shared();
        const Handle copy = open_new("copy " + name);
        const Result<u64> done = volume_->write(copy, 0, bytes, Stamp::yes, Awaited::yes);
        ASSERT_TRUE(done && *done == size);
        EXPECT_EQ(shared() - before, size < least ? 0 : size);
        EXPECT_EQ(contents(*volume_, copy), bytes);
    }
    volume_.close_and_check();
}

TEST_P(Deduplicated, ZerosAreNotWritten) {
    Bytes bytes(4 * run);
    bytes[0] = bytes.back() = std::byte{1};
    const Handle file = open_with("file", bytes);
    EXPECT_EQ(volume_->dedup_statistics().zero_bytes, bytes.size() - 2 * block_bytes);
    EXPECT_EQ(contents(*volume_, file), bytes);
    EXPECT_EQ(volume_->attributes(file)->blocks, 2u);
    put(*volume_, file, 0, Bytes(bytes.size()));
    EXPECT_EQ(contents(*volume_, file), Bytes(bytes.size()));
    EXPECT_EQ(volume_->attributes(file)->blocks, 0u);
    volume_.close_and_check();
}

TEST_P(Deduplicated, ARunMayEndWithAHole) {
    const Handle first = open_new("first");
    put(*volume_, first, 0, random_bytes(random_, run));
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = 2 * run;
    ASSERT_TRUE(volume_->set_attributes({}, first, change));
    const Bytes bytes = contents(*volume_, first);
    EXPECT_EQ(contents(*volume_, open_with("second", bytes)), bytes);
    EXPECT_EQ(shared(), bytes.size());
    volume_.close_and_check();
}

/// The index is not told when a file changes.
TEST_P(Deduplicated, WhatTheIndexNamesMayHaveChanged) {
    const Bytes bytes = random_bytes(random_, 2 * run);
    const Handle first = open_with("first", bytes);
    put(*volume_, first, run, random_bytes(random_, block_bytes));
    EXPECT_EQ(contents(*volume_, open_with("second", bytes)), bytes);
    EXPECT_EQ(shared(), run);
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = block_bytes;
    for (const char* name : {"first", "second"})
        ASSERT_TRUE(volume_->set_attributes({}, volume_->lookup({}, volume_->root(), name)->handle,
                                            change));
    EXPECT_EQ(contents(*volume_, open_with("third", bytes)), bytes);
    EXPECT_EQ(volume_->release(first), Errc::ok);
    for (const char* name : {"first", "second", "third"})
        ASSERT_EQ(volume_->unlink({}, volume_->root(), name), Errc::ok);
    EXPECT_EQ(contents(*volume_, open_with("fourth", bytes)), bytes);
    volume_.close_and_check();
}

TEST_P(Deduplicated, AFileThatIsWrittenByAnotherThreadIsLeftAlone) {
    constexpr u64 files = 4;
    const Bytes bytes = random_bytes(random_, 40 * run);
    std::vector<Handle> handles;
    for (u64 i = 0; i < files; ++i)
        handles.push_back(open_new("file " + std::to_string(i)));
    std::vector<std::jthread> writers;
    for (const Handle file : handles) {
        writers.emplace_back([&, file] {
            for (u64 at = 0; at < bytes.size(); at += 2 * run)
                put(*volume_, file, at, Bytes(&bytes[at], &bytes[at] + 2 * run));
        });
    }
    writers.clear();
    for (const Handle file : handles)
        EXPECT_EQ(contents(*volume_, file), bytes);
    volume_.close_and_check();
}

TEST_P(Deduplicated, OnAFullVolumeWhatIsWrittenCanBeRead) {
    const Bytes bytes = random_bytes(random_, 8 * mib);
    open_with("first", bytes);
    Bytes filler = random_bytes(random_, 8 * mib);
    const Handle full = open_new("full");
    Bytes wanted;
    for (;; filler = random_bytes(random_, 8 * mib)) {
        const Result<u64> done = volume_->write(full, wanted.size(), filler);
        if (!done) break;
        wanted.insert(wanted.end(), filler.begin(), filler.begin() + static_cast<i64>(*done));
        if (*done < filler.size()) break;
    }
    EXPECT_EQ(contents(*volume_, full), wanted);
    // It takes counts and leaves, but no blocks of contents.
    const Handle second = open_new("second");
    const Result<u64> done = volume_->write(second, 0, bytes);
    if (done) {
        EXPECT_EQ(contents(*volume_, second),
                  Bytes(bytes.begin(), bytes.begin() + static_cast<i64>(*done)));
    } else {
        EXPECT_EQ(done.code(), Errc::no_space);
    }
    volume_.close_and_check();
}

/// Each round leaves one more block for counts, so that sharing ends later within a run.
TEST_P(Deduplicated, AWriteThatFailsCountsWhatTheFileHas) {
    constexpr u64 extent = 256 * block_bytes;
    const Bytes bytes = random_bytes(random_, 9 * extent);
    const Handle first = open_new("first");
    for (u64 at = bytes.size(); at > 0; at -= extent)  // backwards: no extent continues another
        put(*volume_, first, at - extent, Bytes(&bytes[at - extent], &bytes[at - 1] + 1));
    const Handle second = open_new("second");
    fill_data();
    u64 links = fill_metadata();
    u64 failures = 0;
    for (Result<u64> done = Errc::no_space; !done || *done < bytes.size(); ++failures) {
        ASSERT_GT(links, 0u);
        ASSERT_EQ(volume_->unlink({}, volume_->root(), link_name(--links)), Errc::ok);
        ASSERT_EQ(volume_->sync(), Errc::ok);
        done = volume_->write(second, 0, bytes);
        const u64 count = done ? *done : 0;
        if (!done) {
            EXPECT_EQ(done.code(), Errc::no_space);
        }
        ASSERT_EQ(contents(*volume_, second), Bytes(bytes.data(), bytes.data() + count));
        AttributeChange empty;
        empty.which = AttributeChange::size;
        ASSERT_TRUE(volume_->set_attributes({}, second, empty));
    }
    EXPECT_GE(failures, 4u);
    volume_.close_and_check();
}

TEST_P(Deduplicated, ZerosOfAMappingBeforeItsDataKeepThese) {
    const Handle file = open_new("mapped");
    std::unique_ptr<MappedFile> mapped;
    ASSERT_EQ(volume_->map_file(file, {.length = 4 * run}, mapped), Errc::ok);
    Bytes bytes(4 * run);
    const Bytes data = random_bytes(random_, run);
    std::ranges::copy(data, bytes.begin() + 2 * run);
    ASSERT_EQ(mapped->copy_in(0, bytes), Errc::ok);
    ASSERT_EQ(mapped->write_back(0, bytes.size()), Errc::ok);
    EXPECT_EQ(contents(*volume_, file), bytes);
    mapped.reset();
    volume_.close_and_check();
}

TEST_P(Deduplicated, ZerosLeaveWhatIsReservedBehindTheEnd) {
    const Handle file = open_new("reserved");
    ASSERT_EQ(volume_->allocate(file, Allocate::reserve_keep_size, 0, 4 * run), Errc::ok);
    put(*volume_, file, 0, Bytes(2 * run));
    EXPECT_EQ(contents(*volume_, file), Bytes(2 * run));
    EXPECT_EQ(volume_->attributes(file)->blocks, 4 * run / block_bytes);
    volume_.close_and_check();
}

TEST_P(Deduplicated, AFullVolumeTakesZeros) {
    const Handle full = fill_data();
    const Handle file = open_new("zeros");
    put(*volume_, file, 0, Bytes(64 * block_bytes));
    EXPECT_EQ(contents(*volume_, file), Bytes(64 * block_bytes));
    // Over data they give space back.
    put(*volume_, full, 0, Bytes(64 * block_bytes));
    put(*volume_, file, 0, random_bytes(random_, 32 * block_bytes));
    volume_.close_and_check();
}

TEST_P(Deduplicated, RandomWritesAgainstAModel) {
    const Seed seed;
    Random random(seed.value());
    std::vector<Bytes> parts;
    for (u64 i = 0; i < 6; ++i)
        parts.push_back(random_bytes(random, run / 2));
    parts.push_back(Bytes(run / 2));
    std::map<std::string, std::pair<Handle, Bytes>> files;
    for (u64 step = 0; step < 400 * test_load(); ++step) {
        const std::string name = "file " + std::to_string(random.below(8));
        if (!files.contains(name)) files[name] = {open_new(name), {}};
        auto& [file, bytes] = files[name];
        if (random.one_in(20)) {
            EXPECT_EQ(volume_->release(file), Errc::ok);
            ASSERT_EQ(volume_->unlink({}, volume_->root(), name), Errc::ok);
            files.erase(name);
            continue;
        }
        if (random.one_in(6)) {
            bytes.resize(random.below(bytes.size() + 2 * block_bytes));
            AttributeChange change;
            change.which = AttributeChange::size;
            change.new_size = bytes.size();
            ASSERT_TRUE(volume_->set_attributes({}, file, change));
        } else {
            Bytes written;
            for (u64 i = 1 + random.below(8); i-- > 0;) {
                const Bytes& part = parts[random.below(parts.size())];
                written.insert(written.end(), part.begin(), part.end());
            }
            written.resize(written.size() - (random.one_in(3) ? random.below(block_bytes) : 0));
            u64 offset = random.below(20) * (random.one_in(4) ? block_bytes : run / 2);
            if (random.one_in(4)) offset += random.below(block_bytes);
            put(*volume_, file, offset, written);
            bytes.resize(std::max<u64>(bytes.size(), offset + written.size()));
            std::ranges::copy(written, bytes.begin() + static_cast<i64>(offset));
        }
        ASSERT_TRUE(contents(*volume_, file) == bytes) << "step " << step;
    }
    for (auto& [name, file] : files)
        ASSERT_EQ(contents(*volume_, file.first), file.second) << name;
    EXPECT_GT(volume_->dedup_statistics().shared_bytes, 10 * run);
    EXPECT_GT(volume_->dedup_statistics().zero_bytes, run);
    volume_.close_and_check();
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, Deduplicated, testing::ValuesIn(block_maps));

/// Only what may be shared takes the exclusive lock of its file.
TEST(DedupLocks, NewBlocksAreWrittenBesideAReader) {
    const auto disk = make_memory_disk(16 * mib);
    auto inside = open_inside(*disk, with_dedup());
    ASSERT_EQ(inside->start_dedup(), Errc::ok);
    VolumeImplementation& implementation = *inside;
    Volume volume(std::move(inside));
    const Handle file = make_file(volume, volume.root(), "file");
    ASSERT_EQ(volume.open_file(file), Errc::ok);
    Random random(7);
    const Bytes bytes = random_bytes(random, 2 * run);
    for (const bool is_new : {true, false}) {
        std::shared_lock lock(implementation.data_lock(file.inode));
        auto writing = std::async(std::launch::async,
                                  [&] { put(volume, file, is_new ? 0 : bytes.size(), bytes); });
        const auto wait = std::chrono::seconds(is_new ? 60 : 0);
        EXPECT_EQ(writing.wait_for(wait) == std::future_status::ready, is_new);
        lock.unlock();
    }
    EXPECT_EQ(volume.dedup_statistics().shared_bytes, bytes.size());
}

TEST(RememberedDedup, AnOptionOverridesWhatTheVolumeWasMadeWith) {
    for (const bool is_made_with : {false, true}) {
        MemoryDisk disk(16 * mib);
        ASSERT_EQ(make_volume_on(disk, "image", 16 * mib, "", is_made_with).code, Errc::ok);
        for (const Dedup how : {Dedup::as_made, Dedup::off, Dedup::on}) {
            for (const bool read_only : {false, true}) {
                OpenOptions options;
                options.dedup = how;
                options.read_only = read_only;
                const auto volume = open_on(disk, options);
                const bool is_on = how == Dedup::as_made ? is_made_with : how == Dedup::on;
                EXPECT_EQ(volume->dedup_statistics().is_default, is_made_with);
                EXPECT_EQ(volume->dedup_statistics().is_on, is_on && !read_only);
            }
        }
    }
}

/// The feature has no effect without shared blocks: only a caller that requires it gets an error.
TEST(RememberedDedup, AVolumeWithoutSharedBlocksOpens) {
    MemoryDisk disk(16 * mib);
    ASSERT_EQ(make_volume_on(disk, "image", 16 * mib, "", true).code, Errc::ok);
    format::Superblock superblock;
    ASSERT_EQ(read_superblock(disk, "image", superblock).code, Errc::ok);
    superblock.features_read_only_compatible = 0;
    ASSERT_EQ(write_superblock(disk, superblock, 7), Errc::ok);
    EXPECT_FALSE(open_on(disk)->dedup_statistics().is_on);
    Failure failure;
    EXPECT_EQ(open_volume(std::make_unique<PassingDisk>(disk), "image", with_dedup(), failure),
              nullptr);
    EXPECT_EQ(failure.code, Errc::not_supported);
    EXPECT_NE(failure.message.find("open it without dedup"), std::string::npos);
}

TEST(DedupIndex, HasByDefaultOneByteForEach1024OfTheVolume) {
    for (const u64 volume_bytes : {16 * mib, 64 * mib}) {
        OpenOptions options = with_dedup();
        options.dedup_index_bytes = 0;
        MemoryVolume volume(volume_bytes, options);
        EXPECT_EQ(volume->dedup_statistics().index_bytes, volume_bytes / 1024);
    }
}

}  // namespace
}  // namespace warren::inline_dedup_test

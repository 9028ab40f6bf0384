// SPDX-License-Identifier: Apache-2.0
// Files that share blocks: each keeps its own contents whatever happens to the other, blocks are
// counted once, and a check counts the same references.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/two_looks.hpp"

namespace warren::shared_blocks_test {
namespace {

class SharedBlocks : public SharingVolume {};

TEST_P(SharedBlocks, TwoFilesCostTheBlocksOfOne) {
    const Bytes bytes = random_bytes(random_, 5 * mib + 100);
    const Handle source = open_new("source");
    put(*volume_, source, 0, bytes);
    const u64 before = used_blocks(*volume_);
    const Handle target = open_new("target");
    share(source, target);
    EXPECT_EQ(contents(*volume_, target), bytes);
    // The reference counts of at most four block groups, and perhaps a leaf of extents.
    EXPECT_LE(used_blocks(*volume_) - before, 8u);
    EXPECT_EQ(volume_->attributes(target)->blocks, volume_->attributes(source)->blocks);
    remove(source, "source");
    EXPECT_EQ(contents(*volume_, target), bytes);
    remove(target, "target");
    EXPECT_EQ(volume_->release(source), Errc::stale);
    volume_.close_and_check();
}

TEST_P(SharedBlocks, AWriteChangesOneFileOnly) {
    for (const auto& [offset, length] : std::map<u64, u64>{{0, 4096},
                                                           {4096, 100},
                                                           {10'000, 20'000},
                                                           {1 * mib, 3 * mib},
                                                           {5 * mib + 50, 10'000}}) {
        SCOPED_TRACE(offset);
        const Bytes bytes = random_bytes(random_, 5 * mib + 100);
        const Handle source = open_new("source");
        put(*volume_, source, 0, bytes);
        const Handle target = open_new("target");
        share(source, target);
        for (const Handle file : {target, source}) {
            const Bytes change = random_bytes(random_, length);
            Bytes wanted = contents(*volume_, file);
            const Bytes other = contents(*volume_, file == target ? source : target);
            put(*volume_, file, offset, change);
            wanted.resize(std::max<u64>(wanted.size(), offset + length));
            std::ranges::copy(change, wanted.begin() + static_cast<i64>(offset));
            EXPECT_EQ(contents(*volume_, file), wanted);
            EXPECT_EQ(contents(*volume_, file == target ? source : target), other);
        }
        remove(source, "source");
        remove(target, "target");
    }
    volume_.close_and_check();
}

TEST_P(SharedBlocks, TheTailOfOneFileIsNotZeroedInTheOther) {
    const Bytes bytes = random_bytes(random_, 2 * block_bytes);
    const Handle source = open_new("source");
    put(*volume_, source, 0, bytes);
    const Handle target = open_new("target");
    share(source, target);
    AttributeChange change;
    change.which = AttributeChange::size;
    for (const u64 size : {block_bytes + 100, 2 * block_bytes}) {
        change.new_size = size;
        ASSERT_TRUE(volume_->set_attributes({}, target, change));
    }
    Bytes wanted = bytes;
    std::fill(wanted.begin() + block_bytes + 100, wanted.end(), std::byte{0});
    EXPECT_EQ(contents(*volume_, target), wanted);
    EXPECT_EQ(contents(*volume_, source), bytes);
    ASSERT_EQ(volume_->allocate(source, Allocate::punch_hole, 10, 20), Errc::ok);
    ASSERT_EQ(volume_->allocate(source, Allocate::zero_range, block_bytes, block_bytes), Errc::ok);
    EXPECT_EQ(contents(*volume_, target), wanted);
    volume_.close_and_check();
}

TEST_P(SharedBlocks, AFileThatWasCutShortGetsItsBytesBack) {
    const Bytes bytes = random_bytes(random_, block_bytes);
    const Handle source = open_new("source");
    put(*volume_, source, 0, bytes);
    const Handle target = open_new("target");
    share(source, target);
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = 52;  // its block stays that of the source
    ASSERT_TRUE(volume_->set_attributes({}, target, change));
    share(source, target);
    EXPECT_EQ(contents(*volume_, target), bytes);
    volume_.close_and_check();
}

/// One step frees all of them, and their counts lie in one block.
TEST_P(SharedBlocks, AFileOfManySharedExtentsCanBeRemoved) {
    constexpr u64 count = 100;
    const Bytes bytes = random_bytes(random_, count * block_bytes);
    const Handle source = open_new("source");
    put(*volume_, source, 0, bytes);
    const Handle target = open_new("target");
    for (u64 i = 0; i < count; ++i) {  // backwards: no extent goes on where another ends
        const u64 from = (count - 1 - i) * block_bytes;
        ASSERT_EQ(*volume_->share_range(source, from, target, i * block_bytes, block_bytes),
                  block_bytes);
    }
    remove(target, "target");
    EXPECT_EQ(contents(*volume_, source), bytes);
    volume_.close_and_check();
}

/// In the last commit both files share blocks that only the second one has when it writes to them.
TEST_P(SharedBlocks, ACrashShowsNoBytesThatTheOtherFileWroteSince) {
    const Bytes bytes = random_bytes(random_, 20 * block_bytes);
    const Handle source = open_new("source");
    put(*volume_, source, 0, bytes);
    const Handle target = open_new("target");
    share(source, target);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    put(*volume_, source, 0, Bytes(bytes.size(), std::byte{1}));
    put(*volume_, target, block_bytes, Bytes(3 * block_bytes + 100, std::byte{2}));
    const auto cut = volume_.disk().copy();
    const auto volume = open_on(*cut, options());
    for (const char* const name : {"source", "target"}) {
        const auto found = volume->lookup({}, volume->root(), name);
        ASSERT_TRUE(found);
        EXPECT_TRUE(contents(*volume, found->handle) == bytes) << name;
    }
}

TEST_P(SharedBlocks, WhatCannotBeSharedIsRefused) {
    const Handle source = open_new("source");
    const Handle target = open_new("target");
    put(*volume_, source, 0, Bytes(3 * block_bytes + 10, std::byte{1}));
    put(*volume_, target, 0, Bytes(3 * block_bytes, std::byte{2}));
    const auto code_of = [&](u64 offset, u64 target_offset, u64 length) {
        return volume_->share_range(source, offset, target, target_offset, length).code();
    };
    EXPECT_EQ(code_of(1, 0, block_bytes), Errc::invalid);
    EXPECT_EQ(code_of(0, 1, block_bytes), Errc::invalid);
    EXPECT_EQ(code_of(0, 0, block_bytes + 1), Errc::invalid);
    EXPECT_EQ(code_of(3 * block_bytes, 0, block_bytes), Errc::invalid) << "ends within the target";
    EXPECT_EQ(code_of(0, (u64{1} << 60), block_bytes), Errc::file_too_big);
    EXPECT_EQ(volume_->share_range(source, 0, source, block_bytes, 2 * block_bytes).code(),
              Errc::invalid)
        << "the ranges overlap";
    EXPECT_EQ(*volume_->share_range(source, 8 * block_bytes, target, 0, block_bytes), 0u);
    EXPECT_EQ(contents(*volume_, target), Bytes(3 * block_bytes, std::byte{2}));
    EXPECT_EQ(*volume_->share_range(source, 3 * block_bytes, target, 3 * block_bytes, block_bytes),
              10u);
    EXPECT_EQ(volume_->attributes(target)->size, 3 * block_bytes + 10);
    volume_.close_and_check();
}

/// The expected contents of a file, and its handle.
struct Modelled {
    std::string name;
    Handle file;
    Bytes bytes;
};

/// Random changes of files that share many blocks, compared with the model.
class RandomSharing {
 public:
    RandomSharing(MemoryVolume& volume, u64 seed) : volume_(volume), random_(seed) {}

    void step() {
        if (files_.size() < 2) return make();
        Modelled& one = pick();
        switch (random_.below(16)) {
            case 0:
                return files_.size() < 12 ? make() : remove();
            case 1:
                return remove();
            case 2:
                return resize(one);
            case 3:
                return punch(one, Allocate::punch_hole);
            case 4:
                return punch(one, Allocate::zero_range_keep_size);
            case 5:
            case 6:
            case 7:
                return write(one);
            case 8:
            case 9:
            case 10:
            case 11:
                return dedupe(one);
            default:
                return share(one);
        }
    }
    void compare() {
        for (const Modelled& each : files_)
            ASSERT_TRUE(contents(*volume_, each.file) == each.bytes) << each.name;
    }
    void release_all() {
        for (const Modelled& each : files_)
            ASSERT_EQ(volume_->release(each.file), Errc::ok);
    }
    void open_all() {
        for (Modelled& each : files_)
            ASSERT_EQ(volume_->open_file(each.file), Errc::ok);
    }
    void remove_all() {
        while (!files_.empty())
            remove();
    }

 private:
    Modelled& pick() { return files_[random_.below(files_.size())]; }
    u64 pick_offset() {
        const u64 offset = random_.below(3) == 0 ? random_.below(3 * mib) : random_.below(64 * kib);
        return random_.below(2) == 0 ? offset / block_bytes * block_bytes : offset;
    }
    u64 pick_length() {
        return 1 + (random_.below(4) == 0 ? random_.below(mib) : random_.below(20'000));
    }

    void make() {
        const std::string name = "file" + std::to_string(made_++);
        const Handle file = make_file(*volume_, volume_->root(), name);
        ASSERT_EQ(volume_->open_file(file), Errc::ok);
        files_.push_back({name, file, {}});
        write(files_.back());
    }
    void remove() {
        const u64 at = random_.below(files_.size());
        ASSERT_EQ(volume_->release(files_[at].file), Errc::ok);
        ASSERT_EQ(volume_->unlink({}, volume_->root(), files_[at].name), Errc::ok);
        files_.erase(files_.begin() + static_cast<i64>(at));
    }
    void write(Modelled& each) {
        const u64 offset = pick_offset();
        const Bytes bytes = random_bytes(random_, pick_length());
        ASSERT_NO_FATAL_FAILURE(put(*volume_, each.file, offset, bytes));
        each.bytes.resize(std::max<u64>(each.bytes.size(), offset + bytes.size()));
        std::ranges::copy(bytes, each.bytes.begin() + static_cast<i64>(offset));
    }
    void resize(Modelled& each) {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = pick_offset();
        ASSERT_TRUE(volume_->set_attributes({}, each.file, change));
        each.bytes.resize(change.new_size);
    }
    void punch(Modelled& each, Allocate how) {
        const u64 offset = pick_offset();
        const u64 length = pick_length();
        ASSERT_EQ(volume_->allocate(each.file, how, offset, length), Errc::ok);
        const u64 begin = std::min<u64>(offset, each.bytes.size());
        const u64 end = std::min<u64>(offset + length, each.bytes.size());
        std::fill(each.bytes.begin() + static_cast<i64>(begin),
                  each.bytes.begin() + static_cast<i64>(end), std::byte{0});
    }
    void share(Modelled& source) {
        Modelled& target = pick();
        const u64 offset = pick_offset() / block_bytes * block_bytes;
        const u64 target_offset = pick_offset() / block_bytes * block_bytes;
        const u64 size = source.bytes.size();
        if (offset >= size) return;
        u64 length = std::min(size - offset, pick_length() * 4);
        const bool ends_files =
            offset + length == size && target_offset + length >= target.bytes.size();
        if (!ends_files) length = length / block_bytes * block_bytes;
        if (length == 0 || (&source == &target && overlap(offset, target_offset, length))) return;
        const Result<u64> done =
            volume_->share_range(source.file, offset, target.file, target_offset, length);
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_EQ(*done, length);
        target.bytes.resize(std::max<u64>(target.bytes.size(), target_offset + length));
        std::copy_n(source.bytes.begin() + static_cast<i64>(offset), length,
                    target.bytes.begin() + static_cast<i64>(target_offset));
    }

    static bool overlap(u64 one, u64 other, u64 length) {
        return std::max(one, other) - std::min(one, other) <
               (length + block_bytes - 1) / block_bytes * block_bytes;
    }
    /// Dedupes ranges that mostly were made equal before.
    void dedupe(Modelled& source) {
        Modelled& target = pick();
        const u64 offset = pick_offset() / block_bytes * block_bytes;
        const u64 target_offset = pick_offset() / block_bytes * block_bytes;
        if (offset >= source.bytes.size()) return;
        u64 length = std::min(source.bytes.size() - offset, pick_length() * 4);
        if (&source == &target && overlap(offset, target_offset, length)) return;
        if (random_.below(4) != 0) {
            const auto begin = source.bytes.begin() + static_cast<i64>(offset);
            const Bytes bytes(begin, begin + static_cast<i64>(length));
            ASSERT_NO_FATAL_FAILURE(put(*volume_, target.file, target_offset, bytes));
            target.bytes.resize(std::max<u64>(target.bytes.size(), target_offset + length));
            std::ranges::copy(bytes, target.bytes.begin() + static_cast<i64>(target_offset));
        }
        if (target_offset >= target.bytes.size()) return;
        length = std::min(length, target.bytes.size() - target_offset);
        const bool ends_files =
            offset + length == source.bytes.size() && target_offset + length == target.bytes.size();
        const u64 whole = ends_files ? length : length / block_bytes * block_bytes;
        const auto from = source.bytes.begin() + static_cast<i64>(offset);
        const bool is_equal = std::equal(from, from + static_cast<i64>(whole),
                                         target.bytes.begin() + static_cast<i64>(target_offset));
        const Result<Deduped> done =
            volume_->dedupe_range({}, source.file, offset, target.file, target_offset, length);
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_EQ(done->differs, !is_equal);
        // A small file may lie in its inode.
        const bool may_be_less = whole <= 128 && done->bytes == 0;
        ASSERT_TRUE(may_be_less || done->bytes == (is_equal ? whole : 0)) << done->bytes;
    }

    MemoryVolume& volume_;
    Random random_;
    std::vector<Modelled> files_;
    u64 made_ = 0;
};

TEST_P(SharedBlocks, RandomChangesAgainstAModel) {
    const Seed seed;
    const u64 before = used_blocks(*volume_);
    RandomSharing sharing(volume_, seed.value());
    const u64 steps = test_operations(1500 * test_load() / volume_step);
    const u64 steps_between_opens = std::clamp<u64>(steps / 2, 1, 250);
    for (u64 i = 1; i <= steps; ++i) {
        sharing.step();
        if (HasFatalFailure()) FAIL() << "step " << i;
        if (i % 50 == 0) sharing.compare();
        if (i % steps_between_opens == 0) {
            sharing.release_all();
            volume_.close();
            ASSERT_EQ(test::expect_equal_looks(volume_.disk()).result.problems, 0u);
            volume_.open();
            sharing.open_all();
            sharing.compare();
        }
        if (HasFailure()) FAIL() << "step " << i;
    }
    sharing.remove_all();
    volume_.close_and_check();
    volume_.open();
    // Only counts of zero and the inode groups remain.
    EXPECT_LE(used_blocks(*volume_), before + 1024);
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, SharedBlocks, testing::ValuesIn(block_maps));

}  // namespace
}  // namespace warren::shared_blocks_test

// SPDX-License-Identifier: Apache-2.0
// How much of a file is shared and how much is exclusive, against a model that knows for each block
// of each file which block of the volume it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::shared_space_test {
namespace {

class SharedSpace : public SharingVolume {
 public:
    SharedSpace() : SharingVolume(128 * mib) {}

    void write(Handle file, u64 offset, u64 length) {
        const Result<u64> done =
            volume_->write(file, offset, std::vector<std::byte>(length, std::byte{0x5a}));
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_EQ(*done, length);
    }
    void expect_space(Handle file, u64 blocks, u64 shared) {
        const Result<FileSpace> space = volume_->space_of(file);
        ASSERT_TRUE(space) << static_cast<int>(space.code());
        EXPECT_EQ(space->blocks, blocks);
        EXPECT_EQ(space->shared, shared);
        EXPECT_EQ(space->exclusive(), blocks - shared);
    }
};

TEST_P(SharedSpace, WhatNothingElseRefersToIsExclusiveAgain) {
    // More block groups than one step counts, the last of them partial.
    constexpr u64 blocks = 12 * 512;
    const Handle source = open_new("source");
    write(source, 0, blocks * block_bytes - 100);
    expect_space(source, blocks, 0);
    const u64 before = used_blocks(*volume_);
    const Handle target = open_new("target");
    share(source, target);
    expect_space(source, blocks, blocks);
    expect_space(target, blocks, blocks);
    // df: the same blocks once. A count block for each block group, and leaves of extents.
    EXPECT_LE(used_blocks(*volume_) - before, 20u);
    write(target, 700 * block_bytes + 10, 1);
    expect_space(source, blocks, blocks - 1);
    expect_space(target, blocks, blocks - 1);
    EXPECT_LE(used_blocks(*volume_) - before, 21u + 4u);
    ASSERT_EQ(volume_->allocate(source, Allocate::punch_hole, 2 * mib, 4 * mib), Errc::ok);
    expect_space(source, blocks - 1024, blocks - 1024);  // the block is gone here
    ASSERT_EQ(volume_->release(source), Errc::ok);
    ASSERT_EQ(volume_->unlink({}, volume_->root(), "source"), Errc::ok);
    expect_space(target, blocks, 0);
    EXPECT_EQ(volume_->space_of(source).code(), Errc::stale);
    volume_.close_and_check();
}

TEST_P(SharedSpace, OfOtherFilesAndSmallOnes) {
    const Handle small = open_new("small");
    write(small, 0, 100);
    expect_space(small, 0, 0);
    const Handle copy = open_new("copy");
    share(small, copy);
    expect_space(small, 0, 0);
    expect_space(copy, 0, 0);
    const Handle reserved = open_new("reserved");
    ASSERT_EQ(volume_->allocate(reserved, Allocate::reserve, 0, 10 * block_bytes), Errc::ok);
    expect_space(reserved, 10, 0);
    const Handle hollow = open_new("hollow");
    share(reserved, hollow);  // bytes that were never written are holes in the copy
    expect_space(reserved, 10, 0);
    expect_space(hollow, 0, 0);
    EXPECT_EQ(volume_->space_of(volume_->root()).code(), Errc::is_directory);
    CreateOptions link;
    link.mode = 0120777;
    link.target = "small";
    const Result<Attributes> made = volume_->create({}, volume_->root(), "link", link);
    ASSERT_TRUE(made);
    EXPECT_EQ(volume_->space_of(made->handle).code(), Errc::invalid);
    volume_.close_and_check();
}

/// Two references from one file: neither removal of a part frees the block.
TEST_P(SharedSpace, AFileThatRefersToABlockTwice) {
    const Handle first = open_new("first");
    const Handle second = open_new("second");
    write(first, 0, 8 * block_bytes);
    ASSERT_TRUE(volume_->share_range(first, 0, second, 0, 4 * block_bytes));
    ASSERT_TRUE(volume_->share_range(second, 0, first, 8 * block_bytes, 4 * block_bytes));
    expect_space(first, 12, 8);
    expect_space(second, 4, 4);
    ASSERT_EQ(volume_->allocate(second, Allocate::punch_hole, 0, 4 * block_bytes), Errc::ok);
    expect_space(first, 12, 8);
    ASSERT_EQ(volume_->allocate(first, Allocate::punch_hole, 0, 4 * block_bytes), Errc::ok);
    expect_space(first, 8, 0);
    volume_.close_and_check();
}

TEST_P(SharedSpace, AScanTellsItForEachFile) {
    const Handle source = open_new("source");
    write(source, 0, 20 * block_bytes);
    const Handle target = open_new("target");
    share(source, target);
    write(target, 0, 5 * block_bytes);
    write(open_new("alone"), 0, 3 * block_bytes);
    std::map<std::string, std::array<u64, 2>> found;
    std::mutex mutex;
    const auto visit = [&](const Scanned& entry) {
        const std::lock_guard lock(mutex);
        found[std::string(entry.name)] = {entry.space.blocks, entry.space.shared};
        return true;
    };
    ASSERT_EQ(volume_->scan({}, volume_->root(), visit, {.counts_shared = true}), Errc::ok);
    const std::map<std::string, std::array<u64, 2>> wanted{
        {"", {0, 0}}, {"source", {20, 15}}, {"target", {20, 15}}, {"alone", {3, 0}}};
    EXPECT_EQ(found, wanted);
    ASSERT_EQ(volume_->scan({}, volume_->root(), visit), Errc::ok);
    EXPECT_EQ(found["source"], (std::array<u64, 2>{0, 0}));
    ASSERT_EQ(volume_->scan({}, target, visit, {.counts_shared = true}), Errc::ok);
    EXPECT_EQ(found[""], (std::array<u64, 2>{20, 15}));
}

/// Files of whole blocks; for each block its number, which is never reused.
class BlockModel {
 public:
    BlockModel(MemoryVolume& volume, u64 seed) : volume_(volume), random_(seed) {
        for (u32 i = 0; i < files_.size(); ++i)
            make(files_[i]);
    }

    void step() {
        File& file = files_[random_.below(files_.size())];
        const u64 first = random_.below(blocks_max);
        const u64 count = 1 + random_.below(std::min<u64>(blocks_max - first, 200));
        switch (random_.below(10)) {
            case 0:
                return remake(file);
            case 1:
                return resize(file, first);
            case 2:
                return punch(file, first, count);
            case 3:
                return reserve(file, first, count);
            case 4:
            case 5:
            case 6:
                return write(file, first, count);
            default:
                return share(file, first, count);
        }
    }

    void compare() {
        std::map<u64, u64> references;
        for (const File& file : files_) {
            for (const u64 number : file.blocks)
                ++references[number];
        }
        for (const File& file : files_) {
            u64 blocks = 0, shared = 0;
            for (const u64 number : file.blocks) {
                blocks += number != 0 ? 1 : 0;
                shared += number != 0 && references[number] > 1 ? 1 : 0;
            }
            const Result<FileSpace> space = volume_->space_of(file.handle);
            ASSERT_TRUE(space) << static_cast<int>(space.code());
            ASSERT_EQ(space->blocks, blocks) << file.name;
            ASSERT_EQ(space->shared, shared) << file.name;
        }
        references.erase(0);
        distinct_ = references.size();
    }
    u64 distinct_blocks() const { return distinct_; }

 private:
    static constexpr u64 blocks_max = 1200;
    struct File {
        std::string name;
        Handle handle;
        std::vector<u64> blocks;  // 0: a hole
    };

    void make(File& file) {
        file.name = "file" + std::to_string(made_++);
        file.handle = make_file(*volume_, volume_->root(), file.name);
        ASSERT_EQ(volume_->open_file(file.handle), Errc::ok);
        file.blocks.clear();
    }
    void remake(File& file) {
        ASSERT_EQ(volume_->release(file.handle), Errc::ok);
        ASSERT_EQ(volume_->unlink({}, volume_->root(), file.name), Errc::ok);
        make(file);
    }
    void resize(File& file, u64 blocks) {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = blocks * block_bytes;
        ASSERT_TRUE(volume_->set_attributes({}, file.handle, change));
        file.blocks.resize(blocks);
    }
    void punch(File& file, u64 first, u64 count) {
        ASSERT_EQ(volume_->allocate(file.handle, Allocate::punch_hole, first * block_bytes,
                                    count * block_bytes),
                  Errc::ok);
        for (u64 i = first; i < first + count && i < file.blocks.size(); ++i)
            file.blocks[i] = 0;
    }
    void reserve(File& file, u64 first, u64 count) {
        ASSERT_EQ(volume_->allocate(file.handle, Allocate::reserve, first * block_bytes,
                                    count * block_bytes),
                  Errc::ok);
        grow(file, first + count);
        for (u64 i = first; i < first + count; ++i) {
            if (file.blocks[i] != 0) continue;
            file.blocks[i] = ++last_number_;
            unwritten_.insert(last_number_);
        }
    }
    void write(File& file, u64 first, u64 count) {
        // Sometimes only a part of the first and of the last block.
        const u64 cut = random_.below(2) == 0 ? random_.below(block_bytes / 2) : 0;
        const std::vector<std::byte> bytes(count * block_bytes - 2 * cut, std::byte{7});
        const Result<u64> done = volume_->write(file.handle, first * block_bytes + cut, bytes);
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_EQ(*done, bytes.size());
        grow(file, first + count);
        if (cut != 0) {  // the size is to stay one of whole blocks
            resize(file, file.blocks.size());
        }
        for (u64 i = first; i < first + count; ++i) {
            unwritten_.erase(file.blocks[i]);
            if (file.blocks[i] == 0 || is_shared(file.blocks[i])) file.blocks[i] = ++last_number_;
        }
    }
    void share(File& source, u64 first, u64 count) {
        File& target = files_[random_.below(files_.size())];
        const u64 to = random_.below(blocks_max - count);
        if (&source == &target || first >= source.blocks.size()) return;
        count = std::min(count, source.blocks.size() - first);
        const Result<u64> done =
            volume_->share_range(source.handle, first * block_bytes, target.handle,
                                 to * block_bytes, count * block_bytes);
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_EQ(*done, count * block_bytes);
        grow(target, to + count);
        for (u64 i = 0; i < count; ++i) {
            const u64 number = source.blocks[first + i];
            target.blocks[to + i] = unwritten_.contains(number) ? 0 : number;
        }
    }
    void grow(File& file, u64 blocks) {
        if (file.blocks.size() < blocks) file.blocks.resize(blocks);
    }
    bool is_shared(u64 number) const {
        u64 references = 0;
        for (const File& file : files_)
            references += static_cast<u64>(std::ranges::count(file.blocks, number));
        return references > 1;
    }

    MemoryVolume& volume_;
    Random random_;
    std::array<File, 6> files_;
    std::set<u64> unwritten_;
    u64 last_number_ = 0;
    u64 made_ = 0;
    u64 distinct_ = 0;
};

TEST_P(SharedSpace, RandomChangesAgainstAModel) {
    const Seed seed;
    BlockModel model(volume_, seed.value());
    const u64 before = used_blocks(*volume_);
    const u64 steps = test_operations(600 * test_load());
    for (u64 i = 1; i <= steps; ++i) {
        model.step();
        if (i % 10 == 0) model.compare();
        if (HasFailure()) FAIL() << "step " << i;
    }
    model.compare();
    // statfs(2) counts each block once: the rest are counts and leaves of extents.
    const u64 used = used_blocks(*volume_) - before;
    EXPECT_GE(used, model.distinct_blocks());
    EXPECT_LE(used, model.distinct_blocks() + 64 + 40);
    volume_.close_and_check();
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, SharedSpace, testing::ValuesIn(block_maps));

}  // namespace
}  // namespace warren::shared_space_test

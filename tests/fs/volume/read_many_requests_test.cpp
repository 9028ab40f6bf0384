// SPDX-License-Identifier: Apache-2.0
// What reads of many files ask of the disk and of the engine: contents in one run of blocks are
// read in the order of their addresses and are not opened, others are opened once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/passing_engine.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::read_many_requests_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr u64 block_bytes = 4096;

/// Those of the test's thread: others load metadata ahead.
struct Requests {
    std::vector<u64> reads;    // their offsets on the disk
    std::map<u64, u64> opens;  // of each inode
    std::thread::id thread = std::this_thread::get_id();

    bool are_mine() const { return std::this_thread::get_id() == thread; }
};

class NotingDisk final : public PassingDisk {
 public:
    NotingDisk(Disk& below, Requests& requests) : PassingDisk(below), requests_(requests) {}
    Errc read(u64 offset, std::span<std::byte> target) override {
        if (requests_.are_mine()) requests_.reads.push_back(offset);
        return PassingDisk::read(offset, target);
    }

 private:
    Requests& requests_;
};

class NotingEngine final : public PassingEngine {
 public:
    NotingEngine(std::unique_ptr<Engine> below, Requests& requests)
        : PassingEngine(std::move(below)), requests_(requests) {}
    void attempt(const ops::Command& command, ops::Reply& reply) override {
        if (command.verb == ops::Verb::open_file && requests_.are_mine())
            ++requests_.opens[command.handle.inode];
        PassingEngine::attempt(command, reply);
    }

 private:
    Requests& requests_;
};

class ReadManyRequests : public testing::Test {
 protected:
    void SetUp() override {
        Failure failure;
        volume_ =
            open_on_commands(std::make_unique<NotingDisk>(*disk_, requests_), {}, failure,
                             [this](std::unique_ptr<Engine> below) {
                                 return std::make_unique<NotingEngine>(std::move(below), requests_);
                             });
        ASSERT_TRUE(volume_) << failure.message;
    }
    void TearDown() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        expect_clean(*disk_);
    }

    Handle make_file() {
        const std::string name = std::to_string(contents_.size());
        const Handle file = volume_->create(anybody, volume_->root(), name, {})->handle;
        contents_[file.inode];
        return file;
    }
    void append(Handle file, u64 bytes) {
        Bytes more(bytes);
        for (std::byte& byte : more)
            byte = static_cast<std::byte>(random_.below(256));
        Bytes& contents = contents_[file.inode];
        EXPECT_EQ(*volume_->write(file, contents.size(), more), bytes);
        contents.insert(contents.end(), more.begin(), more.end());
    }

    /// Reads all files in random order, and notes the requests.
    void read_all(std::vector<Handle> files) {
        std::vector<Bytes> targets;
        std::vector<FileRead> reads;
        for (u64 left = files.size(); left > 0; --left) {
            std::swap(files[left - 1], files[random_.below(left)]);
            const Handle file = files[left - 1];
            targets.emplace_back(contents_[file.inode].size());
            reads.push_back({.file = file, .offset = 0, .target = targets.back()});
        }
        requests_.reads.clear();
        requests_.opens.clear();
        volume_->read_many(reads);
        for (const FileRead& read : reads) {
            ASSERT_TRUE(read.done);
            EXPECT_TRUE(std::ranges::equal(contents_[read.file.inode], read.target));
        }
    }

    const Caller anybody{.check = false};
    const Seed seed_;
    Random random_{seed_.value()};
    const std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(64 * mib);
    Requests requests_;
    std::unique_ptr<Volume> volume_;
    std::map<u64, Bytes> contents_;  // of each inode
};

TEST_F(ReadManyRequests, goThroughTheDiskOnceAndOpenNothing) {
    std::vector<Handle> files;
    for (int i = 0; i < 30; ++i) {
        files.push_back(make_file());
        append(files.back(), 200 + random_.below(40'000));
    }
    read_all(files);
    EXPECT_EQ(requests_.reads.size(), files.size());
    EXPECT_TRUE(std::ranges::is_sorted(requests_.reads));
    EXPECT_TRUE(requests_.opens.empty());
}

TEST_F(ReadManyRequests, openAFileInManyRunsOnce) {
    std::vector<Handle> files;
    for (int i = 0; i < 40; ++i)
        files.push_back(make_file());
    for (int round = 0; round < 5; ++round) {
        for (const Handle file : files)
            append(file, block_bytes);
    }
    read_all(files);
    EXPECT_GT(requests_.reads.size(), files.size());
    EXPECT_EQ(requests_.opens.size(), files.size());
    for (const auto& [inode, times] : requests_.opens)
        EXPECT_EQ(times, 1u) << "inode " << inode;
}

}  // namespace
}  // namespace warren::read_many_requests_test

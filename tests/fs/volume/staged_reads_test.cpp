// SPDX-License-Identifier: Apache-2.0
// Reads through staging memory, compared with single reads: files of all kinds, with and without
// memory for contents, by several threads, beside writers, on a disk that fails.
#include "fs/volume/staged_reads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/host_lane.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::staged_reads_test {
namespace {

using Bytes = std::vector<std::byte>;

const Caller anybody{.check = false};
constexpr u64 size_max = 150'000;

Handle make_file(Volume& volume, const std::string& name, u64 offset, const Bytes& contents) {
    const Handle file = volume.create(anybody, volume.root(), name, {.open = true})->handle;
    EXPECT_EQ(*volume.write(file, offset, contents), contents.size());
    EXPECT_EQ(volume.release(file), Errc::ok);
    return file;
}

bool always() {
    return true;
}

/// The parameter is the size of the memory for contents: none, too little for all, enough.
class StagedReadsTest : public testing::TestWithParam<u64> {
 protected:
    StagedReadsTest() : volume_(64 * mib, {.file_buffer_bytes = GetParam()}) {}

    void make_files(u64 count) {
        for (u64 i = 0; i < count; ++i) {
            // Inline, one block, many blocks; some with a hole in front.
            const u64 sizes[] = {0, 100, 4096, random_.below(size_max)};
            Bytes contents(sizes[random_.below(4)]);
            for (std::byte& byte : contents)
                byte = static_cast<std::byte>(random_.below(256));
            const u64 offset = random_.one_in(4) ? 10'000 : 0;
            handles_.push_back(make_file(*volume_, std::to_string(i), offset, contents));
        }
    }
    /// Reads into one buffer, each behind the one before, with a byte between some.
    std::vector<StagedRead> any_reads(u64 count) {
        std::vector<StagedRead> reads(count);
        u64 total = 0;
        for (StagedRead& read : reads) {
            read.file = handles_[random_.below(handles_.size())];
            read.offset = random_.one_in(2) ? 0 : random_.below(size_max);
            read.bytes = random_.one_in(9) ? 0 : random_.below(size_max);
            read.target = reinterpret_cast<std::byte*>(total);
            total += read.bytes + (random_.one_in(2) ? 1 : 0);
        }
        target_.assign(total, std::byte{7});
        for (StagedRead& read : reads)
            read.target = target_.data() + reinterpret_cast<u64>(read.target);
        return reads;
    }
    void expect_equal(const StagedRead& read, AtEnd at_end) {
        Bytes wanted(read.bytes, std::byte{7});
        FileRead single{.file = read.file, .offset = read.offset, .target = wanted};
        volume_->read_many(std::span(&single, 1));
        ASSERT_TRUE(single.done);
        ASSERT_EQ(read.code, Errc::ok);
        ASSERT_EQ(read.done, *single.done);
        if (at_end == AtEnd::zeros)
            std::fill(wanted.begin() + static_cast<i64>(read.done), wanted.end(), std::byte{0});
        ASSERT_TRUE(std::ranges::equal(std::span(read.target, read.bytes), wanted));
    }

    const Seed seed_;
    Random random_{seed_.value()};
    MemoryVolume volume_;
    std::vector<Handle> handles_;
    Bytes target_;
};

TEST_P(StagedReadsTest, giveWhatSingleReadsGive) {
    make_files(60);
    u64 in_place = 0;
    for (int round = 0; round < 12; ++round) {
        std::vector<StagedRead> reads = any_reads(80);
        const AtEnd at_end = random_.one_in(2) ? AtEnd::zeros : AtEnd::nothing;
        const u64 room = random_.one_in(2) ? 64 * kib : mib;
        const u64 pieces = random_.one_in(2) ? 8 : 64;
        StagedReads staged(*volume_, reads, at_end, {room, pieces});
        std::vector<std::thread> threads;
        std::atomic<u64> shown{0};
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&, reads_held = i != 0] {
                HostLane lane(room, pieces, reads_held);
                EXPECT_EQ(staged.run(lane, always), Errc::ok);
                EXPECT_EQ(lane.wait(), Errc::ok);
                shown += lane.copied_in_place;
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        EXPECT_EQ(staged.taken(), reads.size());
        for (const StagedRead& read : reads)
            expect_equal(read, at_end);
        in_place += shown;
    }
    EXPECT_EQ(in_place > 0, GetParam() != 0);
    volume_.close_and_check();
}

TEST_P(StagedReadsTest, giveNothingBehindTheLargestFile) {
    const Bytes contents(size_max, std::byte{1});
    const Handle file = make_file(*volume_, "file", 0, contents);
    for (const u64 offset : {~u64{0}, ~u64{0} - 4095, format::file_size_max - 1}) {
        for (const AtEnd at_end : {AtEnd::nothing, AtEnd::zeros}) {
            target_.assign(size_max, std::byte{7});
            StagedRead read{
                .file = file, .offset = offset, .target = target_.data(), .bytes = size_max};
            StagedReads staged(*volume_, std::span(&read, 1), at_end, {64 * kib, 64});
            HostLane lane(64 * kib, 64, true);
            EXPECT_EQ(staged.run(lane, always), Errc::ok);
            EXPECT_EQ(lane.wait(), Errc::ok);
            EXPECT_EQ(read.code, Errc::ok);
            EXPECT_EQ(read.done, 0u);
            const std::byte wanted{at_end == AtEnd::zeros ? u8{0} : u8{7}};
            EXPECT_TRUE(std::ranges::all_of(target_, [&](std::byte b) { return b == wanted; }));
        }
    }
    volume_.close_and_check();
}

TEST_P(StagedReadsTest, spoilOnlyTheFilesThatFail) {
    handles_ = {make_file(*volume_, "a", 0, Bytes(5000, std::byte{1})),
                make_file(*volume_, "b", 0, Bytes(5000, std::byte{2}))};
    ASSERT_EQ(volume_->unlink(anybody, volume_->root(), "a"), Errc::ok);
    Bytes target(10'000, std::byte{7});
    std::vector<StagedRead> reads{{.file = handles_[0], .target = target.data(), .bytes = 5000},
                                  {.file = handles_[1], .target = &target[5000], .bytes = 5000}};
    StagedReads staged(*volume_, reads, AtEnd::zeros, {64 * kib, 64});
    HostLane lane(64 * kib, 64, true);
    ASSERT_EQ(staged.run(lane, always), Errc::ok);
    ASSERT_EQ(lane.wait(), Errc::ok);
    EXPECT_EQ(reads[0].code, Errc::stale);
    EXPECT_EQ(reads[1].code, Errc::ok);
    EXPECT_EQ(Bytes(target.begin() + 5000, target.end()), Bytes(5000, std::byte{2}));
}

TEST_P(StagedReadsTest, endWithTheirLane) {
    handles_ = {make_file(*volume_, "a", 0, Bytes(300'000, std::byte{1}))};
    Bytes target(300'000);
    StagedRead read{.file = handles_[0], .target = target.data(), .bytes = target.size()};
    StagedReads staged(*volume_, std::span(&read, 1), AtEnd::zeros, {64 * kib, 64});
    HostLane lane(64 * kib, 64, true);
    lane.code = Errc::no_device;
    EXPECT_EQ(staged.run(lane, always), Errc::no_device);
    // Nothing is held any more: the file can be written.
    ASSERT_EQ(volume_->open_file(handles_[0]), Errc::ok);
    EXPECT_TRUE(volume_->write(handles_[0], 0, target));
    EXPECT_EQ(volume_->release(handles_[0]), Errc::ok);
    StagedReads stopped(*volume_, std::span(&read, 1), AtEnd::zeros, {64 * kib, 64});
    lane.code = Errc::ok;
    EXPECT_EQ(stopped.run(lane, [] { return false; }), Errc::ok);
    EXPECT_EQ(stopped.taken(), 0u);
}

/// Each write fills a block with one value, so a block with two is a torn read. Some writers write
/// behind the end, which takes the exclusive lock of the file.
TEST_P(StagedReadsTest, goOnBesideWriters) {
    constexpr u64 blocks = 64;
    for (int i = 0; i < 4; ++i)
        handles_.push_back(
            make_file(*volume_, std::to_string(i), 0, Bytes(blocks * 4096, std::byte{1})));
    std::atomic<bool> must_end{false};
    std::vector<std::thread> writers;
    for (u64 writer = 0; writer < 2; ++writer) {
        writers.emplace_back([&, writer] {
            Random random(seed_.value() + writer);
            for (u64 round = 0; !must_end; ++round) {
                const Handle file = handles_[random.below(handles_.size())];
                ASSERT_EQ(volume_->open_file(file), Errc::ok);
                const u64 block = random.below(blocks);
                const Bytes bytes(random.one_in(4) ? 4095 : 4096, static_cast<std::byte>(round));
                EXPECT_TRUE(volume_->write(file, block * 4096, bytes));
                EXPECT_EQ(volume_->release(file), Errc::ok);
            }
        });
    }
    const u64 bytes = blocks * 4096;
    target_.resize(handles_.size() * bytes);
    for (int round = 0; round < 60; ++round) {
        std::vector<StagedRead> reads;
        for (u64 i = 0; i < handles_.size(); ++i)
            reads.push_back({.file = handles_[i], .target = &target_[i * bytes], .bytes = bytes});
        StagedReads staged(*volume_, reads, AtEnd::zeros, {64 * kib, 64});
        HostLane lane(64 * kib, 64, true);
        ASSERT_EQ(staged.run(lane, always), Errc::ok);
        ASSERT_EQ(lane.wait(), Errc::ok);
        for (const StagedRead& read : reads)
            ASSERT_TRUE(read.code == Errc::ok && read.done == bytes);
        for (u64 at = 0; GetParam() != 0 && at < target_.size(); at += 4096)
            ASSERT_EQ(std::memcmp(&target_[at], &target_[at + 1], 4094), 0) << at;
    }
    must_end = true;
    for (std::thread& writer : writers)
        writer.join();
    volume_.close_and_check();
}

INSTANTIATE_TEST_SUITE_P(MemoryForContents, StagedReadsTest,
                         testing::Values(u64{0}, 256 * kib, 32 * mib));

}  // namespace
}  // namespace warren::staged_reads_test

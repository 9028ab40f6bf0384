// SPDX-License-Identifier: Apache-2.0
// Parts of many files in one call, compared with single reads: in the order of their addresses or
// not, some of them twice, of removed files, and on a disk that fails. For concurrent changes see
// read_many_race_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::read_many_test {
namespace {

using Bytes = std::vector<std::byte>;

const Caller anybody{.check = false};
constexpr u64 files = 60;
constexpr u64 size_max = 40'000;

class ReadMany : public testing::TestWithParam<u64> {
 protected:
    ReadMany() : volume_(64 * mib, options()), random_(seed_.value()) {
        for (u64 i = 0; i < files; ++i) {
            const Handle file =
                volume_->create(anybody, volume_->root(), std::to_string(i), {.open = true})
                    ->handle;
            // Inline, one block, many blocks; some with a hole in front.
            const u64 sizes[] = {0, 100, 4096, random_.below(size_max)};
            Bytes contents(sizes[random_.below(4)]);
            for (std::byte& byte : contents)
                byte = static_cast<std::byte>(random_.below(256));
            const u64 offset = random_.one_in(4) ? 10'000 : 0;
            EXPECT_EQ(*volume_->write(file, offset, contents), contents.size());
            EXPECT_EQ(volume_->release(file), Errc::ok);
            handles_.push_back(file);
        }
    }

    static OpenOptions options() {
        OpenOptions options;
        options.file_buffer_bytes = GetParam();
        return options;
    }

    std::vector<FileRead> any_reads() {
        std::vector<FileRead> reads(100);
        for (FileRead& read : reads) {
            targets_.emplace_back(random_.below(size_max), std::byte{7});
            read = {.file = handles_[random_.below(files)],
                    .offset = random_.one_in(2) ? 0 : random_.below(size_max),
                    .target = targets_.back()};
        }
        return reads;
    }

    void expect_equal(const FileRead& read) {
        Bytes target(read.target.size(), std::byte{7});
        const Result<u64> single = volume_->read(read.file, read.offset, target);
        ASSERT_TRUE(read.done && single);
        EXPECT_EQ(*read.done, *single);
        EXPECT_TRUE(
            std::ranges::equal(std::span(target).first(*single), read.target.first(*single)));
    }

    const Seed seed_;
    MemoryVolume volume_;
    Random random_;
    std::vector<Handle> handles_;
    std::vector<Bytes> targets_;
};

TEST_P(ReadMany, givesWhatSingleReadsGive) {
    for (int round = 0; round < 5; ++round) {
        std::vector<FileRead> reads = any_reads();
        volume_->read_many(reads);
        for (const FileRead& read : reads)
            expect_equal(read);
    }
}

TEST_P(ReadMany, aRemovedFileIsStale) {
    std::vector<FileRead> reads = any_reads();
    ASSERT_EQ(volume_->unlink(anybody, volume_->root(), "5"), Errc::ok);
    volume_->read_many(reads);
    for (const FileRead& read : reads) {
        if (read.file == handles_[5]) {
            EXPECT_EQ(read.done.code(), Errc::stale);
        } else {
            expect_equal(read);
        }
    }
}

TEST_P(ReadMany, oneFailureSpoilsAtMostOneRead) {
    volume_.close();
    volume_.open();
    std::vector<FileRead> reads = any_reads();
    volume_->read_many(reads);  // metadata are in memory
    volume_.faults().set_plan({.nth = GetParam() == 0 ? u64{1} : 0, .is_once = true});
    for (FileRead& read : reads)
        std::ranges::fill(read.target, std::byte{7});
    volume_->read_many(reads);
    volume_.faults().set_plan({});
    u64 failed = 0;
    for (const FileRead& read : reads) {
        if (read.done) expect_equal(read);
        failed += read.done ? 0 : 1;
    }
    EXPECT_LE(failed, 1u);
}

TEST_P(ReadMany, aDiskThatFailsIsAnErrorOfEachFileInBlocks) {
    volume_.close();
    volume_.open();
    std::vector<FileRead> reads = any_reads();
    volume_->read_many(reads);  // metadata are in memory
    volume_.faults().set_plan({.nth = 1});
    volume_->read_many(reads);
    volume_.faults().set_plan({});
    u64 failed = 0;
    for (const FileRead& read : reads)
        failed += read.done ? 0 : 1;
    EXPECT_EQ(failed > 0, GetParam() == 0);  // else they are in the buffer
    volume_->read_many(reads);
    for (const FileRead& read : reads)
        expect_equal(read);
}

TEST_P(ReadMany, addressesAreThoseOfBlocks) {
    u64 in_blocks = 0;
    for (const Handle file : handles_) {
        const Result<u64> address = volume_->address_of(file, 5000);
        ASSERT_TRUE(address);
        in_blocks += *address != 0 ? 1 : 0;
        EXPECT_EQ(*address % 4096, *address != 0 ? 5000 % 4096 : 0);
    }
    EXPECT_GT(in_blocks, 0u);
    EXPECT_EQ(volume_->address_of({12345678, 1}, 0).code(), Errc::stale);
}

INSTANTIATE_TEST_SUITE_P(FileBuffer, ReadMany, testing::Values(0, 2 * mib));

}  // namespace
}  // namespace warren::read_many_test

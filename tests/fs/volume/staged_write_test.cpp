// SPDX-License-Identifier: Apache-2.0
// A range written by several threads, against the bytes of a model; and what is left of one that
// could not be written whole.
#include "fs/volume/staged_write.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::staged_write_test {
namespace {

using Bytes = std::vector<std::byte>;

const Caller anybody{.check = false};
constexpr u64 piece_bytes = 64 * kib;

/// The work of a thread, which ends after `most` pieces.
void put_pieces(StagedWrite& write, const Bytes& source, u64 most) {
    StagedWrite::Piece piece;
    for (; most > 0 && write.take(piece); --most)
        write.put(piece, std::span(source).subspan(piece.begin, piece.bytes));
}

/// The parameter is the size of the memory for contents.
class StagedWriteTest : public testing::TestWithParam<u64> {
 protected:
    StagedWriteTest() : volume_(16 * mib, {.file_buffer_bytes = GetParam()}) {
        file_ = volume_->create(anybody, volume_->root(), "file", {.open = true})->handle;
    }

    Bytes some_bytes(u64 count) {
        Bytes bytes(count);
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random_.below(256));
        return bytes;
    }
    Bytes contents() {
        Bytes bytes(volume_->attributes(file_)->size);
        EXPECT_EQ(*volume_->read(file_, 0, bytes), bytes.size());
        return bytes;
    }

    const Seed seed_;
    Random random_{seed_.value()};
    MemoryVolume volume_;
    Handle file_;
};

TEST_P(StagedWriteTest, agreesWithAModel) {
    Bytes model;
    for (int round = 0; round < 40; ++round) {
        const u64 offset = random_.below(600'000);
        const Bytes source =
            some_bytes(random_.one_in(8) ? random_.below(3) : random_.below(900'000));
        StagedWrite write(*volume_, file_, offset, source.size(), piece_bytes);
        ASSERT_EQ(write.begin(), Errc::ok);
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back([&] { put_pieces(write, source, ~u64{0}); });
        for (std::thread& thread : threads)
            thread.join();
        ASSERT_EQ(write.end(), Errc::ok);
        if (!source.empty()) {
            model.resize(std::max(model.size(), offset + source.size()));
            std::ranges::copy(source, model.begin() + static_cast<i64>(offset));
        }
        ASSERT_EQ(contents(), model);
        if (!random_.one_in(4)) continue;
        const AttributeChange cut{.which = AttributeChange::size,
                                  .new_size = random_.below(model.size() + 1)};
        ASSERT_TRUE(volume_->set_attributes(anybody, file_, cut));
        model.resize(cut.new_size);
    }
    ASSERT_EQ(volume_->release(file_), Errc::ok);
    volume_.close_and_check();
}

TEST_P(StagedWriteTest, writesNothingWithoutSpaceForAll) {
    const Bytes before = some_bytes(100'000);
    ASSERT_TRUE(volume_->write(file_, 0, before));
    const Bytes source = some_bytes(32 * mib);
    StagedWrite write(*volume_, file_, 50'000, source.size(), piece_bytes);
    EXPECT_EQ(write.begin(), Errc::no_space);
    put_pieces(write, source, ~u64{0});
    EXPECT_EQ(write.end(), Errc::no_space);
    EXPECT_EQ(contents(), before);
    ASSERT_EQ(volume_->release(file_), Errc::ok);
    volume_.close_and_check();
}

TEST_P(StagedWriteTest, keepsWhatWasWrittenInOneGo) {
    const Bytes before = some_bytes(100'000);
    ASSERT_TRUE(volume_->write(file_, 0, before));
    const Bytes source = some_bytes(500'000);
    StagedWrite write(*volume_, file_, 70'000, source.size(), piece_bytes);
    ASSERT_EQ(write.begin(), Errc::ok);
    StagedWrite::Piece piece;
    ASSERT_TRUE(write.take(piece));  // and never written
    put_pieces(write, source, 3);
    ASSERT_EQ(write.end(), Errc::ok);
    EXPECT_EQ(volume_->attributes(file_)->size, before.size());

    StagedWrite other(*volume_, file_, 70'000, source.size(), piece_bytes);
    ASSERT_EQ(other.begin(), Errc::ok);
    put_pieces(other, source, 3);
    ASSERT_EQ(other.end(), Errc::ok);
    const u64 end = 4 * piece_bytes;  // of the third, which is that of the file's fourth piece
    const Bytes found = contents();
    ASSERT_EQ(found.size(), end);
    EXPECT_TRUE(std::equal(found.begin() + 70'000, found.end(), source.begin()));
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + 70'000, before.begin()));
    ASSERT_EQ(volume_->release(file_), Errc::ok);
    volume_.close_and_check();
}

TEST_P(StagedWriteTest, keepsWhatAnotherWriterAppendedWhenItFails) {
    const Bytes source = some_bytes(500'000);
    StagedWrite write(*volume_, file_, 0, source.size(), piece_bytes);
    ASSERT_EQ(write.begin(), Errc::ok);
    StagedWrite::Piece piece;
    ASSERT_TRUE(write.take(piece));  // and never written
    const Bytes appended = some_bytes(1000);
    ASSERT_TRUE(volume_->write(file_, source.size(), appended));
    ASSERT_EQ(write.end(), Errc::ok);
    const Bytes found = contents();
    ASSERT_EQ(found.size(), source.size() + appended.size());
    EXPECT_TRUE(std::equal(appended.begin(), appended.end(),
                           found.begin() + static_cast<i64>(source.size())));
    ASSERT_EQ(volume_->release(file_), Errc::ok);
    volume_.close_and_check();
}

TEST_P(StagedWriteTest, tellsOfAFileThatIsGone) {
    const Bytes source = some_bytes(500'000);
    StagedWrite write(*volume_, {file_.inode, file_.generation + 1}, 0, source.size(), piece_bytes);
    EXPECT_EQ(write.begin(), Errc::stale);
    put_pieces(write, source, ~u64{0});
    EXPECT_EQ(write.end(), Errc::stale);
    ASSERT_EQ(volume_->release(file_), Errc::ok);
}

TEST_P(StagedWriteTest, refusesARangeThatNoFileCanHave) {
    const Bytes source = some_bytes(3 * piece_bytes);
    for (const u64 offset : {~u64{0}, ~u64{0} - 4095, format::file_size_max,
                             format::file_size_max - source.size() + 1}) {
        StagedWrite write(*volume_, file_, offset, source.size(), piece_bytes);
        EXPECT_EQ(write.begin(), Errc::file_too_big);
        put_pieces(write, source, ~u64{0});
        EXPECT_EQ(write.end(), Errc::file_too_big);
        EXPECT_EQ(volume_->attributes(file_)->size, 0u);
    }
    ASSERT_EQ(volume_->release(file_), Errc::ok);
    volume_.close_and_check();
}

INSTANTIATE_TEST_SUITE_P(MemoryForContents, StagedWriteTest,
                         testing::Values(u64{0}, 256 * kib, 32 * mib));

}  // namespace
}  // namespace warren::staged_write_test

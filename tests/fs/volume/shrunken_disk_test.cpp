// SPDX-License-Identifier: Apache-2.0
// An image that is truncated under an open volume. Nothing more is written to it: a write behind
// the new end would extend the image again, with zeros where files were, and an fsync would
// acknowledge lost data. The truncated part cannot be read, the rest can.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/random.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::shrunken_disk_test {
namespace {

constexpr u64 volume_bytes = 256 * mib;
constexpr u64 files_begin = volume_bytes / 4 * 3;
constexpr u64 file_count = 40;
constexpr u64 file_bytes = mib;

struct Way {
    const char* name;
    DiskAccess disk = DiskAccess::plain;
    DataMode data = DataMode::ordered;
    ErrorMode errors = ErrorMode::remount_ro;
    u64 file_buffer_bytes = 0;
};
const Way ways[] = {
    {.name = "Plain"},
    {.name = "Continue", .errors = ErrorMode::go_on},
    {.name = "Buffer", .file_buffer_bytes = 256 * kib},
    {.name = "BufferContinue", .errors = ErrorMode::go_on, .file_buffer_bytes = 256 * kib},
    {.name = "Journal", .data = DataMode::journal},
    {.name = "Ring", .disk = DiskAccess::ring},
    {.name = "Direct", .disk = DiskAccess::direct, .errors = ErrorMode::go_on}};

class ShrunkenDisk : public testing::TestWithParam<Way> {
 protected:
    void SetUp() override {
        std::string pattern = "/var/tmp/warren_XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        FormatOptions format;
        format.size_bytes = volume_bytes;
        ASSERT_EQ(make_volume(image(), format).code, Errc::ok);
        OpenOptions options;
        options.workers = 1;
        options.disk = GetParam().disk;
        options.data = GetParam().data;
        options.errors = GetParam().errors;
        options.file_buffer_bytes = GetParam().file_buffer_bytes;
        options.refused = [this](const DiskRefusal& refusal) { refusals_.push_back(refusal); };
        Failure failure;
        volume_ = Volume::open(image(), options, failure);
        if (failure.code == Errc::not_supported) GTEST_SKIP() << failure.message;
        ASSERT_TRUE(volume_) << failure.message;
        for (u64 i = 0; i < file_count; ++i) {
            const Handle file = make_file(*volume_, volume_->root(), "file" + std::to_string(i));
            ASSERT_TRUE(volume_->write(file, 0, bytes_of(i)));
            files_.push_back(file);
        }
        ASSERT_EQ(volume_->sync(), Errc::ok);
    }
    void TearDown() override {
        volume_.reset();
        std::filesystem::remove_all(folder_);
    }

    std::string image() const { return folder_ + "/image"; }
    static std::vector<std::byte> bytes_of(u64 i) {
        return std::vector<std::byte>(file_bytes, static_cast<std::byte>('A' + i));
    }
    void cut(u64 end) {
        end_ = end;
        std::filesystem::resize_file(image(), end_);
    }
    u64 size() const { return std::filesystem::file_size(image()); }

    /// Files that cannot be read; those that can have the bytes that were written.
    u64 count_lost() {
        u64 lost = 0;
        for (u64 i = 0; i < file_count; ++i) {
            std::vector<std::byte> found(file_bytes);
            const Result<u64> got = volume_->read(files_[i], 0, found);
            if (!got) {
                EXPECT_EQ(got.code(), Errc::io);
                ++lost;
                continue;
            }
            EXPECT_TRUE(found == bytes_of(i)) << "file " << i << " has other bytes";
        }
        return lost;
    }
    void expect_no_sync() {
        EXPECT_NE(volume_->sync(), Errc::ok);
        EXPECT_NE(volume_->sync_file(files_[0]), Errc::ok);
        EXPECT_EQ(size(), end_);
    }
    void expect_told_once() {
        ASSERT_EQ(refusals_.size(), 1u);
        EXPECT_EQ(refusals_[0].code, Errc::io);
        EXPECT_EQ(refusals_[0].found_size, end_ / format::block_size * format::block_size);
        EXPECT_EQ(refusals_[0].expected_size, volume_bytes);
        EXPECT_NE(refusals_[0].text().find("smaller"), std::string::npos);
        EXPECT_NE(refusals_[0].remedy().find(std::to_string(volume_bytes)), std::string::npos);
    }

    std::string folder_;
    std::unique_ptr<Volume> volume_;
    std::vector<Handle> files_;
    std::vector<DiskRefusal> refusals_;
    u64 end_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Ways, ShrunkenDisk, testing::ValuesIn(ways),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(ShrunkenDisk, takesNothingMoreAndShowsNoZeros) {
    const Seed seed;
    Random random(seed.value());
    cut(files_begin + (5 + random.below(20)) * mib + random.below(mib));
    EXPECT_GT(count_lost(), 0u);
    // Behind the remaining end, in place and new.
    u64 taken = 0;
    for (u64 i = 0; i < file_count; ++i)
        taken += volume_->write(files_[i], 0, bytes_of(i)) ? 1 : 0;
    const bool is_buffered =
        GetParam().file_buffer_bytes != 0 || GetParam().data == DataMode::journal;
    EXPECT_TRUE(taken == 0 || is_buffered) << taken;
    static_cast<void>(volume_->create(anybody, volume_->root(), "new", {}));
    expect_no_sync();
    expect_told_once();
    EXPECT_EQ(volume_->create(anybody, volume_->root(), "late", {}).code(), Errc::read_only);
    EXPECT_EQ(volume_->write(files_[0], 0, bytes_of(0)).code(), Errc::read_only);
    // Restoring the size alone does not bring back lost data.
    std::filesystem::resize_file(image(), volume_bytes);
    end_ = volume_bytes;
    expect_no_sync();
    EXPECT_EQ(volume_->create(anybody, volume_->root(), "late", {}).code(), Errc::read_only);
    EXPECT_NE(volume_->close(), Errc::ok);
    EXPECT_EQ(refusals_.size(), 1u);
}

TEST_P(ShrunkenDisk, isNoticedByACommitOfNothing) {
    cut(volume_bytes - 4096);
    expect_no_sync();
    expect_told_once();
    EXPECT_EQ(volume_->create(anybody, volume_->root(), "late", {}).code(), Errc::read_only);
}

TEST_P(ShrunkenDisk, isNoticedByTheCommitThatComesNext) {
    cut(volume_bytes - 1);
    ASSERT_TRUE(volume_->create(anybody, volume_->root(), "new", {}));
    const std::filesystem::file_time_type before = std::filesystem::last_write_time(image());
    expect_no_sync();
    EXPECT_EQ(std::filesystem::last_write_time(image()), before) << "something was written";
    expect_told_once();
}

TEST_P(ShrunkenDisk, mayBecomeLarger) {
    std::filesystem::resize_file(image(), 2 * volume_bytes);
    ASSERT_TRUE(volume_->create(anybody, volume_->root(), "new", {}));
    EXPECT_EQ(volume_->sync(), Errc::ok);
    EXPECT_EQ(count_lost(), 0u);
    EXPECT_TRUE(refusals_.empty());
    EXPECT_EQ(volume_->close(), Errc::ok);
}

}  // namespace
}  // namespace warren::shrunken_disk_test

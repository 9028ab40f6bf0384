// SPDX-License-Identifier: Apache-2.0
// A volume on a file accessed by io_uring: the power is cut between the requests that the
// kernel has completed, and each request fails once. What was synced is there, the check finds
// nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "fs/volume/open_volume.hpp"
#include "tests/support/cut_recording.hpp"
#include "tests/support/recorded_file_disk.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::ring_volume_test {
namespace {

class UringVolume : public testing::TestWithParam<DiskAccess> {
 protected:
    void SetUp() override {
        std::string pattern = "/var/tmp/warren_XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string image() const { return folder_ + "/image"; }
    void make_image() {
        FormatOptions options;
        options.size_bytes = 16 * mib;
        const Failure failure = make_volume(image(), options);
        ASSERT_EQ(failure.code, Errc::ok) << failure.message;
    }
    std::string folder_;
};
INSTANTIATE_TEST_SUITE_P(Ways, UringVolume, testing::Values(DiskAccess::ring, DiskAccess::direct),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_P(UringVolume, losesNothingSyncedWhenThePowerIsCut) {
    const Seed seed;
    std::string why;
    {
        Failure failure;
        const auto probed = FileDisk::open(folder_ + "/probed", OpenMode::create, failure);
        ASSERT_TRUE(probed) << failure.message;
        if (probed->use(GetParam(), why) != Errc::ok) GTEST_SKIP() << why;
    }
    const CutRecording recording =
        record_for_cuts(seed.value(), 250 * test_load(), 16 * mib, [&](MemoryDisk& log) {
            auto disk = RecordedFileDisk::make(image(), GetParam(), log, why);
            std::unique_ptr<Volume> volume;
            Failure failure;
            if (disk != nullptr) volume = open_volume(std::move(disk), image(), {}, failure);
            EXPECT_TRUE(volume) << why << failure.message;
            return volume;
        });
    ASSERT_GT(recording.disk().event_count(), 30u);
    expect_states_after_random_cuts(recording, seed.part(1));
}

constexpr u64 kept_bytes = 300'000;

/// Creates a file of one letter; returns the first error.
Errc write_file(Volume& volume, const std::string& name, char letter) {
    const Result<Attributes> made = volume.create(anybody, volume.root(), name, {.open = true});
    if (!made) return made.code();
    const std::vector<std::byte> bytes(kept_bytes, static_cast<std::byte>(letter));
    const Result<u64> written = volume.write(made->handle, 0, bytes);
    const Errc synced = volume.sync_file(made->handle);
    static_cast<void>(volume.release(made->handle));
    return written ? synced : written.code();
}

void expect_file(Volume& volume, const std::string& name, char letter) {
    const Result<Attributes> found = volume.lookup(anybody, volume.root(), name);
    ASSERT_TRUE(found) << name;
    std::vector<std::byte> bytes(kept_bytes + 1);
    const Result<u64> got = volume.read(found->handle, 0, bytes);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, kept_bytes);
    bytes.resize(*got);
    EXPECT_EQ(bytes, std::vector<std::byte>(kept_bytes, static_cast<std::byte>(letter))) << name;
}

TEST_P(UringVolume, tellsTheWriterOfEachRequestThatFails) {
    make_image();
    bool failed = true;
    for (u64 nth = 1; failed && !HasFailure(); ++nth) {
        SCOPED_TRACE(testing::Message() << "request " << nth);
        const std::string name = "new" + std::to_string(nth);
        Failure failure;
        auto disk = FileDisk::open(image(), OpenMode::read_write, failure);
        ASSERT_TRUE(disk) << failure.message;
        std::string why;
        if (disk->use(GetParam(), why) != Errc::ok) GTEST_SKIP() << why;
        FileDisk& file = *disk;
        auto volume = open_volume(std::move(disk), image(), {.workers = 1}, failure);
        ASSERT_TRUE(volume) << failure.message;
        ASSERT_TRUE(write_file(*volume, "kept" + std::to_string(nth), 'k') == Errc::ok);
        std::atomic<u64> seen{0};
        failed = false;
        file.set_probe([&](const DiskRequest& request, i32 result) {
            if (!request.is_write || ++seen != nth) return result;
            failed = true;
            return -EIO;
        });
        const Errc told = write_file(*volume, name, 'n');
        file.set_probe({});
        EXPECT_EQ(told == Errc::ok, !failed) << "the writer was told " << static_cast<int>(told);
        static_cast<void>(volume->close());
        volume.reset();

        volume = Volume::open(image(), {.workers = 1}, failure);
        ASSERT_TRUE(volume) << failure.message;
        expect_file(*volume, "kept" + std::to_string(nth), 'k');
        if (told == Errc::ok) expect_file(*volume, name, 'n');
        ASSERT_EQ(volume->unlink(anybody, volume->root(), "kept" + std::to_string(nth)), Errc::ok);
        static_cast<void>(volume->unlink(anybody, volume->root(), name));
        ASSERT_EQ(volume->close(), Errc::ok);
        volume.reset();
        auto checked = FileDisk::open(image(), OpenMode::read_only, failure);
        ASSERT_TRUE(checked);
        expect_clean(*checked);
    }
}

TEST_P(UringVolume, opensOnTheWayThatIsAskedFor) {
    make_image();
    Failure failure;
    for (const DiskAccess access : {GetParam(), DiskAccess::automatic, DiskAccess::plain}) {
        const auto volume = Volume::open(image(), {.disk = access}, failure);
        if (volume == nullptr && failure.code == Errc::not_supported) {
            EXPECT_NE(failure.message.find("disk=plain"), std::string::npos) << failure.message;
            GTEST_SKIP() << failure.message;
        }
        ASSERT_TRUE(volume) << failure.message;
        const std::string name(name_of(access));
        if (access == DiskAccess::automatic) {
            EXPECT_NE(volume->disk_note().find(" ("), std::string::npos) << volume->disk_note();
        } else {
            EXPECT_EQ(volume->disk_note(), name);
        }
        ASSERT_EQ(write_file(*volume, name, 'x'), Errc::ok);
        expect_file(*volume, name, 'x');
        ASSERT_EQ(volume->close(), Errc::ok);
    }
}

}  // namespace
}  // namespace warren::ring_volume_test

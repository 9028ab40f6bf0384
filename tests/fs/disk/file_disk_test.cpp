// SPDX-License-Identifier: Apache-2.0
// A file as a disk: bytes, sizes, holes, locks between processes, and the messages for a file that
// cannot be opened.
#include "fs/disk/file_disk.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/random.hpp"
#include "tests/support/seed.hpp"

namespace warren::file_disk_test {
namespace {

using Bytes = std::vector<std::byte>;

class FileDiskTest : public testing::Test {
 protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "warren_XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        path_ = folder_ + "/image";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void make_file(u64 size_bytes) {
        std::ofstream(path_).flush();
        std::filesystem::resize_file(path_, size_bytes);
    }
    void expect_failure(const std::string& path, OpenMode mode, Errc code,
                        const std::string& text) {
        Failure failure;
        EXPECT_EQ(FileDisk::open(path, mode, failure), nullptr);
        EXPECT_EQ(failure.code, code);
        EXPECT_TRUE(failure.message.starts_with(path + ": " + text)) << failure.message;
        EXPECT_EQ(failure.message.find('\n'), std::string::npos);
        EXPECT_NE(failure.message.find(';'), std::string::npos) << "says not what to do";
    }

    static std::string in_use_by_us() {
        return "in use by process " + std::to_string(::getpid()) + " (test_fs)";
    }

    std::string folder_;
    std::string path_;
};

TEST_F(FileDiskTest, readsWhatWasWritten) {
    make_file(10 * kib);
    Failure failure;
    auto disk = FileDisk::open(path_, OpenMode::read_write, failure);
    ASSERT_TRUE(disk) << failure.message;
    EXPECT_EQ(disk->size_bytes(), 8 * kib);
    EXPECT_FALSE(disk->is_device());
    EXPECT_FALSE(disk->is_new());
    Bytes bytes(4096, std::byte{5});
    EXPECT_EQ(disk->write(4096, bytes), Errc::ok);
    EXPECT_EQ(disk->flush(), Errc::ok);
    EXPECT_EQ(disk->write(4097, bytes), Errc::io);
    EXPECT_EQ(disk->read(8 * kib, std::span(bytes).first(1)), Errc::io);
    EXPECT_EQ(disk->read(~u64{0}, bytes), Errc::io);
    disk.reset();

    disk = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(disk) << failure.message;
    Bytes found(8 * kib);
    EXPECT_EQ(disk->read(0, found), Errc::ok);
    EXPECT_EQ(found[4095], std::byte{0});
    EXPECT_EQ(found[4096], std::byte{5});
    EXPECT_EQ(disk->write(0, bytes), Errc::read_only);
    EXPECT_EQ(disk->discard(0, 4096), Errc::read_only);
    EXPECT_EQ(disk->zero(0, 4096), Errc::read_only);
    EXPECT_EQ(disk->flush(), Errc::ok);
}

TEST_F(FileDiskTest, isNotExtendedOnceItsEndIsCutOff) {
    make_file(64 * kib);
    for (const DiskAccess way : {DiskAccess::plain, DiskAccess::ring, DiskAccess::direct}) {
        SCOPED_TRACE(name_of(way));
        std::filesystem::resize_file(path_, 64 * kib);
        Failure failure;
        const auto disk = FileDisk::open(path_, OpenMode::read_write, failure);
        ASSERT_TRUE(disk) << failure.message;
        std::string why;
        if (disk->use(way, why) != Errc::ok) continue;
        Bytes bytes(8192, std::byte{5});
        ASSERT_EQ(disk->write(0, bytes), Errc::ok);
        ASSERT_EQ(disk->flush(), Errc::ok);
        std::filesystem::resize_file(path_, 8192 + 100);
        EXPECT_EQ(*disk->present_size(), 8192u);
        EXPECT_EQ(disk->size_bytes(), 64 * kib);
        EXPECT_EQ(disk->write(32 * kib, bytes), Errc::io);
        EXPECT_EQ(disk->write(0, bytes), Errc::io);
        const DiskWrite one{48 * kib, bytes};
        EXPECT_EQ(disk->write_many(std::span(&one, 1)), Errc::io);
        EXPECT_EQ(disk->flush(), Errc::io);
        EXPECT_EQ(disk->discard(32 * kib, 4096), Errc::ok) << "a hint";
        EXPECT_EQ(std::filesystem::file_size(path_), 8192u + 100);
        EXPECT_EQ(disk->read(0, bytes), Errc::ok);
        for (const u64 offset : {4096u, 8192u, 32 * 1024u}) {
            Bytes lost(8192);
            EXPECT_EQ(disk->read(offset, lost), Errc::io) << offset;
        }
    }
}

TEST_F(FileDiskTest, createsResizesAndPunchesHoles) {
    Failure failure;
    auto disk = FileDisk::open(path_, OpenMode::create, failure);
    ASSERT_TRUE(disk) << failure.message;
    EXPECT_TRUE(disk->is_new());
    EXPECT_EQ(disk->size_bytes(), 0u);
    ASSERT_EQ(disk->resize(4 * mib), Errc::ok);
    const Bytes ones(1 * mib, std::byte{1});
    for (u64 i = 0; i < 4; ++i)
        ASSERT_EQ(disk->write(i * mib, ones), Errc::ok);
    EXPECT_EQ(disk->discard(0, 1 * mib), Errc::ok);
    EXPECT_EQ(disk->zero(2 * mib, 1 * mib), Errc::ok);
    Bytes found(1 * mib);
    ASSERT_EQ(disk->read(2 * mib, found), Errc::ok);
    EXPECT_EQ(found, Bytes(1 * mib));
    ASSERT_EQ(disk->read(3 * mib, found), Errc::ok);
    EXPECT_EQ(found, ones);
    EXPECT_EQ(disk->discard(4 * mib, 1), Errc::io);
    EXPECT_EQ(std::filesystem::file_size(path_), 4 * mib);
    EXPECT_EQ(disk->resize(~u64{0}), Errc::file_too_big);
}

TEST_F(FileDiskTest, writesZerosWhereHolesAreNotPossible) {
    make_file(1 * mib);
    Failure failure;
    auto disk = FileDisk::open(path_, OpenMode::read_write, failure);
    ASSERT_TRUE(disk);
    const Bytes ones(1 * mib, std::byte{1});
    ASSERT_EQ(disk->write(0, ones), Errc::ok);
    ASSERT_EQ(disk->Disk::zero(4096, 700 * kib), Errc::ok);
    Bytes found(1 * mib);
    ASSERT_EQ(disk->read(0, found), Errc::ok);
    EXPECT_EQ(found[4095], std::byte{1});
    EXPECT_EQ(found[4096], std::byte{0});
    EXPECT_EQ(found[4095 + 700 * kib], std::byte{0});
    EXPECT_EQ(found[4096 + 700 * kib], std::byte{1});
}

TEST_F(FileDiskTest, answersAnErrorWhenTheFileWasCut) {
    make_file(64 * kib);
    Failure failure;
    auto disk = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(disk);
    std::filesystem::resize_file(path_, 8 * kib);
    Bytes bytes(64 * kib);
    EXPECT_EQ(disk->read(0, bytes), Errc::io);
}

TEST_F(FileDiskTest, readsRangesThatAdjoinTogether) {
    constexpr u64 blocks = 1000;
    make_file(blocks * 4096);
    Failure failure;
    const auto disk = FileDisk::open(path_, OpenMode::read_write, failure);
    ASSERT_TRUE(disk) << failure.message;
    Bytes source(blocks * 4096);
    const Seed seed;
    Random random(seed.value());
    for (std::byte& byte : source)
        byte = static_cast<std::byte>(random.below(256));
    ASSERT_EQ(disk->write(0, source), Errc::ok);
    for (const bool is_scattered : {false, true}) {
        Bytes target(2 * source.size());
        std::vector<DiskRead> reads;
        u64 used = 0;
        for (u64 offset = 0; offset < source.size();) {
            const u64 length = std::min<u64>(random.below(4097), source.size() - offset);
            reads.push_back({offset, std::span(target).subspan(used, length)});
            offset += length + (random.one_in(50) ? 3 : 0);
            used += length + (is_scattered ? 1 : 0);
        }
        ASSERT_EQ(disk->read_many(reads), Errc::ok);
        for (const DiskRead& read : reads)
            ASSERT_EQ(
                std::memcmp(read.target.data(), source.data() + read.offset, read.target.size()), 0)
                << "at " << read.offset;
        reads.push_back({source.size() - 1, std::span(target).first(2)});
        EXPECT_EQ(disk->read_many(reads), Errc::io);
    }
    std::filesystem::resize_file(path_, 4096);
    Bytes target(8192);
    const DiskRead cut{0, target};
    EXPECT_EQ(disk->read_many(std::span(&cut, 1)), Errc::io);
}

TEST_F(FileDiskTest, oneWriterOrManyReaders) {
    make_file(64 * kib);
    Failure failure;
    {
        auto writer = FileDisk::open(path_, OpenMode::read_write, failure);
        ASSERT_TRUE(writer);
        expect_failure(path_, OpenMode::read_write, Errc::busy, in_use_by_us());
        expect_failure(path_, OpenMode::read_only, Errc::busy, in_use_by_us());
    }
    auto reader = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(reader);
    EXPECT_TRUE(FileDisk::open(path_, OpenMode::read_only, failure));
    expect_failure(path_, OpenMode::read_write, Errc::busy, in_use_by_us());
}

TEST_F(FileDiskTest, lockHoldsBetweenProcessesAndDiesWithThem) {
    make_file(64 * kib);
    int ready[2];
    int leave[2];
    ASSERT_EQ(::pipe(ready), 0);
    ASSERT_EQ(::pipe(leave), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        Failure failure;
        auto disk = FileDisk::open(path_, OpenMode::read_write, failure);
        char byte = disk ? 'y' : 'n';
        if (::write(ready[1], &byte, 1) != 1 || ::read(leave[0], &byte, 1) != 1) ::_exit(1);
        ::_exit(0);  // without closing: the lock has to go all the same
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    expect_failure(path_, OpenMode::read_write, Errc::busy,
                   "in use by process " + std::to_string(child) + " (test_fs)");
    ASSERT_EQ(::write(leave[1], &byte, 1), 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    Failure failure;
    EXPECT_TRUE(FileDisk::open(path_, OpenMode::read_write, failure)) << failure.message;
    for (const int descriptor : {ready[0], ready[1], leave[0], leave[1]})
        ::close(descriptor);
}

// The process that locked it may have passed the lock to a child, as a daemon's parent does.
TEST_F(FileDiskTest, namesTheChildThatALockWasLeftTo) {
    make_file(64 * kib);
    int leave[2];
    ASSERT_EQ(::pipe(leave), 0);
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        Failure failure;
        const auto disk = FileDisk::open(path_, OpenMode::read_write, failure);
        const pid_t daemon = ::fork();
        char byte = 0;
        if (daemon != 0 && ::write(told[1], &daemon, sizeof daemon) == sizeof daemon) ::_exit(0);
        ::close(leave[1]);
        ::_exit(static_cast<int>(::read(leave[0], &byte, 1)));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(parent, &status, 0), parent);
    pid_t daemon = 0;
    ASSERT_EQ(::read(told[0], &daemon, sizeof daemon), ssize_t{sizeof daemon});
    expect_failure(path_, OpenMode::read_write, Errc::busy,
                   "in use by process " + std::to_string(daemon) + " (test_fs)");
    for (const int descriptor : {leave[0], leave[1], told[0], told[1]})
        ::close(descriptor);
}

TEST_F(FileDiskTest, makesAnImageForItsOwnerAlone) {
    const mode_t mask = ::umask(0);
    Failure failure;
    EXPECT_TRUE(FileDisk::open(path_, OpenMode::create, failure)) << failure.message;
    ::umask(mask);
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(FileDiskTest, saysWhyAFileCannotBeOpened) {
    expect_failure(path_, OpenMode::read_write, Errc::no_entry, "No such file or directory");
    expect_failure(path_ + "/x/y", OpenMode::create, Errc::no_entry, "No such file or directory");
    expect_failure(folder_, OpenMode::read_write, Errc::is_directory, "is a directory");
    expect_failure("/dev/null", OpenMode::read_only, Errc::invalid, "is no file or block device");
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    expect_failure(path_, OpenMode::read_only, Errc::invalid, "is no file or block device");
}

TEST_F(FileDiskTest, saysThatPermissionIsMissing) {
    make_file(64 * kib);
    ASSERT_EQ(::chmod(path_.c_str(), 0400), 0);
    // Root may open every file, so another user tries.
    constexpr uid_t stranger = 65534;
    const bool is_root = ::geteuid() == 0;
    ASSERT_EQ(::chmod(folder_.c_str(), 0711), 0);
    ASSERT_TRUE(!is_root || ::seteuid(stranger) == 0);
    expect_failure(path_, OpenMode::read_write, Errc::access, "permission denied");
    ASSERT_TRUE(!is_root || ::seteuid(0) == 0);
}

}  // namespace
}  // namespace warren::file_disk_test

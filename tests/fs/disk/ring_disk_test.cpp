// SPDX-License-Identifier: Apache-2.0
// A file accessed by io_uring, through the page cache and with direct I/O: any range from any
// memory, many threads, requests that complete in part, with a transient error or a permanent one.
// Where the host refuses an access method, its tests say so and are skipped.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "fs/disk/choose_access.hpp"
#include "fs/disk/file_disk.hpp"
#include "tests/support/seed.hpp"

namespace warren::ring_disk_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr u64 file_bytes = 8 * mib;

class UringDisk : public testing::TestWithParam<DiskAccess> {
 protected:
    void SetUp() override {
        // Not on a file system in memory: there is no page cache to bypass.
        std::string pattern = "/var/tmp/warren_XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        Failure failure;
        disk_ = FileDisk::open(folder_ + "/image", OpenMode::create, failure);
        ASSERT_TRUE(disk_) << failure.message;
        ASSERT_EQ(disk_->resize(file_bytes), Errc::ok);
        std::string why;
        if (disk_->use(GetParam(), why) != Errc::ok) GTEST_SKIP() << why;
        EXPECT_EQ(disk_->access(), GetParam());
    }
    void TearDown() override {
        disk_.reset();
        if (!folder_.empty()) std::filesystem::remove_all(folder_);
    }

    /// A random range that begins and ends at any byte, or at whole blocks.
    static std::pair<u64, u64> any_range(Random& random, u64 within) {
        const u64 unit = random.one_in(2) ? 4096 : 1;
        const u64 length = (random.one_in(8) ? random.below(within / 2) : random.below(20'000));
        const u64 offset = random.below(within - length);
        // At least a byte, so that there is an address to pass.
        return {offset / unit * unit, std::max<u64>(length / unit * unit, 1)};
    }

    std::string folder_;
    std::unique_ptr<FileDisk> disk_;
};
INSTANTIATE_TEST_SUITE_P(Ways, UringDisk, testing::Values(DiskAccess::ring, DiskAccess::direct),
                         [](const auto& way) { return std::string(name_of(way.param)); });

/// Memory at any alignment, so that not all of it can be used by a device.
class AnyMemory {
 public:
    AnyMemory(u64 length, u64 shift) : bytes_(length + 4096), shift_(shift), length_(length) {}
    std::span<std::byte> span() { return std::span(bytes_).subspan(shift_, length_); }

 private:
    Bytes bytes_;
    u64 shift_;
    u64 length_;
};

void fill(std::span<std::byte> bytes, Random& random) {
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random.next());
}

TEST_P(UringDisk, holdsWhatAModelHolds) {
    const Seed seed;
    Random random(seed.value());
    Bytes model(file_bytes);
    for (int step = 0; step < 300 && !HasFailure(); ++step) {
        const auto [offset, length] = any_range(random, file_bytes);
        AnyMemory memory(length, random.one_in(2) ? 0 : random.below(4096));
        if (random.one_in(2)) {
            fill(memory.span(), random);
            ASSERT_EQ(disk_->write(offset, memory.span()), Errc::ok);
            std::memcpy(model.data() + offset, memory.span().data(), length);
        } else {
            ASSERT_EQ(disk_->read(offset, memory.span()), Errc::ok);
            ASSERT_EQ(std::memcmp(model.data() + offset, memory.span().data(), length), 0)
                << "step " << step << ": " << length << " bytes at " << offset;
        }
    }
    EXPECT_EQ(disk_->flush(), Errc::ok);
    std::string why;
    ASSERT_EQ(disk_->use(DiskAccess::plain, why), Errc::ok);
    Bytes found(file_bytes);
    ASSERT_EQ(disk_->read(0, found), Errc::ok);
    EXPECT_TRUE(found == model) << "the plain way sees something else";
}

TEST_P(UringDisk, doesManyRangesInOneCall) {
    const Seed seed;
    Random random(seed.value());
    constexpr u64 ranges = 300;  // more than a wave holds
    Bytes source(ranges * 4096);
    fill(source, random);
    std::vector<DiskWrite> writes;
    std::vector<DiskRead> reads;
    Bytes target(source.size());
    for (u64 i = 0; i < ranges; ++i) {
        // Parts of blocks, so that some are copied through the lane's bounce buffer.
        const u64 length = random.one_in(3) ? 4096 : 1 + random.below(4096);
        const u64 offset = i * 2 * 4096 + random.below(4097 - length);
        writes.push_back({offset, std::span(source).subspan(i * 4096, length)});
        reads.push_back({offset, std::span(target).subspan(i * 4096, length)});
    }
    ASSERT_EQ(disk_->write_many(writes), Errc::ok);
    ASSERT_EQ(disk_->read_many(reads), Errc::ok);
    for (u64 i = 0; i < ranges; ++i) {
        ASSERT_EQ(
            std::memcmp(reads[i].target.data(), writes[i].source.data(), writes[i].source.size()),
            0)
            << "range " << i;
    }
    writes[5].offset = file_bytes;
    EXPECT_EQ(disk_->write_many(writes), Errc::io);
    reads[5].offset = file_bytes;
    EXPECT_EQ(disk_->read_many(reads), Errc::io);
}

TEST_P(UringDisk, concurrentCallersAreServed) {
    const Seed seed;
    constexpr u64 threads = 2 * RingAccess::lanes_max;
    constexpr u64 own = file_bytes / threads;
    std::atomic<u64> wrong{0};
    std::vector<std::thread> executor;
    for (u64 t = 0; t < threads; ++t) {
        executor.emplace_back([&, t] {
            Random random(seed.part(t));
            Bytes model(own);
            for (int step = 0; step < 40; ++step) {
                const auto [offset, length] = any_range(random, own);
                Bytes bytes(length);
                if (step % 2 == 0) {
                    fill(bytes, random);
                    wrong += disk_->write(t * own + offset, bytes) != Errc::ok;
                    std::memcpy(model.data() + offset, bytes.data(), length);
                } else {
                    wrong += disk_->read(t * own + offset, bytes) != Errc::ok;
                    wrong += std::memcmp(model.data() + offset, bytes.data(), length) != 0;
                }
            }
        });
    }
    for (std::thread& one : executor)
        one.join();
    EXPECT_EQ(wrong, 0u);
}

TEST_P(UringDisk, goesOnWithWhatCameBackInPart) {
    const Seed seed;
    Random random(seed.value());
    u64 shortened = 0;
    disk_->set_probe([&](const DiskRequest&, i32 result) -> i32 {
        if (result <= 0 || random.one_in(2)) return result;
        ++shortened;
        if (random.one_in(3)) return random.one_in(2) ? -EAGAIN : -EINTR;
        return std::max(result / 2, 512);
    });
    Bytes source(3 * mib + 100), target(source.size());
    fill(source, random);
    ASSERT_EQ(disk_->write(1234, source), Errc::ok);
    ASSERT_EQ(disk_->read(1234, target), Errc::ok);
    EXPECT_EQ(source, target);
    EXPECT_GT(shortened, 0u);
}

TEST_P(UringDisk, tellsOfEachRequestThatFails) {
    const Bytes source(2 * mib, std::byte{7});
    const std::pair<int, Errc> errors[] = {
        {EIO, Errc::io}, {ENOSPC, Errc::no_space}, {EROFS, Errc::read_only}};
    for (const auto& [number, answer] : errors) {
        bool failed = true;
        u64 nth = 1;
        for (; failed; ++nth) {
            std::atomic<u64> seen{0};
            failed = false;
            disk_->set_probe([&, error = number](const DiskRequest&, i32 result) {
                if (++seen != nth) return result;
                failed = true;
                return -error;
            });
            const Errc told = disk_->write(4096, source);
            ASSERT_EQ(told, failed ? answer : Errc::ok) << "request " << nth;
        }
        EXPECT_GT(nth, 8u) << "the write went as too few requests";
    }
    disk_->set_probe({});
    Bytes target(source.size());
    ASSERT_EQ(disk_->write(4096, source), Errc::ok) << "a failed request leaves nothing behind";
    ASSERT_EQ(disk_->read(4096, target), Errc::ok);
    EXPECT_EQ(source, target);
}

TEST_P(UringDisk, doesNotAskForPatienceForEver) {
    disk_->set_probe([](const DiskRequest&, i32) { return -EAGAIN; });
    Bytes bytes(4096);
    EXPECT_EQ(disk_->read(0, bytes), Errc::io);
}

TEST_P(UringDisk, answersAnErrorWhenTheFileWasCut) {
    std::filesystem::resize_file(folder_ + "/image", 64 * kib);
    Bytes bytes(1 * mib);
    EXPECT_EQ(disk_->read(0, bytes), Errc::io);
    EXPECT_EQ(disk_->read(60 * kib, std::span(bytes).first(4096)), Errc::ok);
    EXPECT_EQ(disk_->read(64 * kib, std::span(bytes).first(1)), Errc::io);
}

TEST_P(UringDisk, measuresWithoutChangingAByte) {
    const Seed seed;
    Random random(seed.value());
    Bytes before(file_bytes), after(file_bytes);
    fill(before, random);
    ASSERT_EQ(disk_->write(0, before), Errc::ok);
    for (const WriteHabit habit : {WriteHabit::single, WriteHabit::many, WriteHabit::none}) {
        const AccessChoice choice = choose_access(*disk_, habit, 1 * mib, 2 * mib);
        EXPECT_NE(choice.access, DiskAccess::automatic);
        EXPECT_EQ(choice.access, disk_->access());
        EXPECT_TRUE(choice.text().starts_with(name_of(choice.access))) << choice.text();
        if (!choice.is_measured) continue;  // the folder lies in memory
        for (const AccessMeasure& measure : choice.measures) {
            EXPECT_TRUE(!measure.refusal.empty() || measure.read_ns > 0);
            const bool is_possible = measure.refusal.empty();
            EXPECT_EQ(measure.durable_ns > 0, is_possible && habit != WriteHabit::none);
            EXPECT_EQ(measure.write_ns > 0, is_possible && habit == WriteHabit::single);
        }
    }
    ASSERT_EQ(disk_->read(0, after), Errc::ok);
    EXPECT_TRUE(before == after);
}

TEST(UringRefused, aDiskStaysOnThePlainWay) {
    std::string path = "/var/tmp/warren_XXXXXX";
    const int made = ::mkstemp(path.data());
    ASSERT_GE(made, 0);
    Failure failure;
    const auto disk = FileDisk::open(path, OpenMode::read_write, failure);
    ASSERT_TRUE(disk) << failure.message;
    ASSERT_EQ(disk->resize(64 * kib), Errc::ok);
    ::unlink(path.c_str());
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{3, before.rlim_max};  // a ring is a descriptor
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    std::string why;
    const Errc code = disk->use(DiskAccess::direct, why);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(code, Errc::not_supported);
    EXPECT_TRUE(why.starts_with("io_uring: ")) << why;
    EXPECT_EQ(disk->access(), DiskAccess::plain);
    Bytes bytes(4096);
    EXPECT_EQ(disk->read(0, bytes), Errc::ok);
    ::close(made);
}

}  // namespace
}  // namespace warren::ring_disk_test

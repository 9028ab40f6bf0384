// SPDX-License-Identifier: Apache-2.0
// The deduplication index is filled in the background from the contents of the volume at the time
// of its opening; other work goes on, and closing does not wait.
#include "fs/volume/dedup_filler.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/rate_limit.hpp"
#include "tests/fs/volume/sharing_volume.hpp"

namespace warren::dedup_filler_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr u64 unlimited = ~u64{0};

OpenOptions filling(u64 bytes_per_second, u64 meta_buffer_bytes = 0) {
    OpenOptions options;
    options.meta_buffer_bytes = meta_buffer_bytes;
    options.dedup = Dedup::on;
    options.dedup_fill_bytes = bytes_per_second;
    return options;
}

class DedupFilling : public testing::TestWithParam<u64> {
 public:
    /// Opens the volume again, with an empty index.
    void reopen(const OpenOptions& options) {
        if (volume_ != nullptr) {
            EXPECT_EQ(volume_->close(), Errc::ok);
        }
        volume_.reset();
        volume_ = open_on(faults_, options);
        ASSERT_NE(volume_, nullptr);
    }
    Handle write_new(const std::string& name, const Bytes& bytes) {
        const Handle file = make_file(*volume_, volume_->root(), name);
        EXPECT_EQ(volume_->open_file(file), Errc::ok);
        put(*volume_, file, 0, bytes);
        return file;
    }
    DedupStatistics statistics() const { return volume_->dedup_statistics(); }
    void wait_until_filled() {
        const auto deadline = Clock::now() + 120s;
        while (statistics().is_filling && Clock::now() < deadline)
            std::this_thread::sleep_for(1ms);
        ASSERT_FALSE(statistics().is_filling);
    }
    void close_and_check() {
        EXPECT_EQ(volume_->close(), Errc::ok);
        expect_clean(*disk_);
    }

 protected:
    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(64 * mib);
    FaultDisk faults_{*disk_};
    std::unique_ptr<Volume> volume_;
    Random random_{7};
};

TEST_P(DedupFilling, WhatTheVolumeHeldIsShared) {
    reopen(filling(0, GetParam()));
    std::vector<Bytes> files;
    for (const u64 size :
         {u64{129}, u64{5000}, 8 * block_bytes, 300 * block_bytes + 1, 2000 * block_bytes})
        files.push_back(random_bytes(random_, size));
    u64 total = 0;
    for (const Bytes& bytes : files) {
        total += bytes.size();
        write_new("of " + std::to_string(bytes.size()), bytes);
    }
    // With holes and blocks of zeros, which are neither read nor indexed.
    const Handle sparse = write_new("sparse", files[2]);
    put(*volume_, sparse, 5 * mib, Bytes(16 * block_bytes));
    reopen(filling(unlimited, GetParam()));
    wait_until_filled();
    EXPECT_GE(statistics().filled_bytes, total);
    EXPECT_LT(statistics().filled_bytes, total + 64 * block_bytes);
    for (const Bytes& bytes : files) {
        const Handle copy = write_new("copy of " + std::to_string(bytes.size()), bytes);
        EXPECT_EQ(contents(*volume_, copy), bytes);
    }
    EXPECT_EQ(statistics().shared_bytes, total);
    close_and_check();
}

/// Times are those of a clock that ticks every few milliseconds.
TEST_P(DedupFilling, AFileIsReadThoughItWasMadeInTheTickOfTheOpening) {
    reopen(filling(0, GetParam()));
    for (u64 files = 1; files <= 20; ++files) {
        EXPECT_EQ(
            volume_->release(write_new(std::to_string(files), random_bytes(random_, block_bytes))),
            Errc::ok);
        reopen(filling(unlimited, GetParam()));
        wait_until_filled();
        ASSERT_EQ(statistics().filled_bytes, files * block_bytes);
    }
    close_and_check();
}

/// The index knows one anchor in two, yet nothing of long runs is lost.
TEST_P(DedupFilling, AVolumeThatIsLargerThanTheIndexIsSampled) {
    reopen(filling(0, GetParam()));
    const Bytes bytes = random_bytes(random_, 20 * mib);
    write_new("first", bytes);
    OpenOptions small = filling(unlimited, GetParam());
    small.dedup_index_bytes = 16 * kib;
    reopen(small);
    wait_until_filled();
    const Handle copy = write_new("second", bytes);
    EXPECT_EQ(contents(*volume_, copy), bytes);
    EXPECT_EQ(statistics().shared_bytes, bytes.size());
    close_and_check();
}

TEST_P(DedupFilling, ClosingDoesNotWait) {
    reopen(filling(0, GetParam()));
    write_new("file", random_bytes(random_, 4 * mib));
    reopen(filling(kib, GetParam()));  // takes more than an hour
    EXPECT_TRUE(statistics().is_filling);
    const auto start = Clock::now();
    close_and_check();
    EXPECT_LT(Clock::now() - start, 30s);
}

TEST_P(DedupFilling, WhatCannotBeReadIsLeftOut) {
    reopen(filling(0, GetParam()));
    const Bytes bytes = random_bytes(random_, 4 * mib);
    write_new("first", bytes);
    // Slow enough that the filler reads contents only after the disk fails.
    reopen(filling(16 * kib, GetParam()));
    faults_.set_plan({.writes = false, .flushes = false, .nth = 1});
    const auto deadline = Clock::now() + 60s;
    while (faults_.failed_count() == 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(1ms);
    faults_.set_plan({});
    reopen(filling(unlimited, GetParam()));
    wait_until_filled();
    write_new("second", bytes);
    EXPECT_EQ(statistics().shared_bytes, bytes.size());
    close_and_check();
}

TEST_P(DedupFilling, BesideWritersAndRemovals) {
    constexpr u64 files = 40;
    reopen(filling(0, GetParam()));
    const Bytes bytes = random_bytes(random_, 2 * mib);
    const auto name = [](u64 number) { return "file " + std::to_string(number); };
    const auto part = [&](u64 number) {
        return Bytes(bytes.data() + number * block_bytes, bytes.data() + bytes.size());
    };
    for (u64 i = 0; i < files; i += 2)
        EXPECT_EQ(volume_->release(write_new(name(i), part(i))), Errc::ok);
    reopen(filling(unlimited, GetParam()));
    for (u64 i = 0; i < files; ++i) {
        if (i % 4 == 0) {
            EXPECT_EQ(volume_->unlink({}, volume_->root(), name(i)), Errc::ok);
        } else if (i % 2 == 1) {
            const Handle file = write_new(name(i), part(i));
            EXPECT_TRUE(contents(*volume_, file) == part(i)) << i;
        }
    }
    wait_until_filled();
    close_and_check();
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, DedupFilling, testing::ValuesIn(block_maps));

TEST(RateLimit, SpreadsWorkAndSavesNothingUp) {
    RateLimit limit(1000);
    const RateLimit::Clock::time_point start{100s};
    EXPECT_EQ(limit.pause_after(500, start), 500ms);
    EXPECT_EQ(limit.pause_after(500, start + 500ms), 500ms);
    EXPECT_EQ(limit.pause_after(500, start + 800ms), 700ms);
    EXPECT_EQ(limit.pause_after(100, start + 100s), 100ms) << "after a time without work";
    RateLimit fast(u64{1} << 40);
    u64 pauses = 0;
    for (u64 i = 0; i < 1000; ++i)
        pauses += static_cast<u64>(fast.pause_after(u64{1} << 29, start).count());
    EXPECT_GT(pauses, 0u) << "short waits add up";
    EXPECT_EQ(RateLimit(0).pause_after(~u64{0}, start), 0ms);
}

}  // namespace
}  // namespace warren::dedup_filler_test

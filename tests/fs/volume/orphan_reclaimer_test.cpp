// SPDX-License-Identifier: Apache-2.0
// Files that were removed and not yet freed at a crash are freed while the volume is in use again:
// neither open nor close waits for that, a damaged orphan blocks no other work, and a write that
// finds no space gets the space of orphans.
#include "fs/volume/orphan_reclaimer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>

#include "base/notice.hpp"
#include "base/random.hpp"
#include "fs/volume/open_volume.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/check_sample.hpp"
#include "tests/support/holding_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/reused_number.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::orphan_reclaimer_test {
namespace {

using test::ImageBuilder;
using test::ImageEditor;
using Clock = std::chrono::steady_clock;

/// A volume that is open while its orphans may still be there.
struct Opened {
    std::unique_ptr<Volume> volume;
    VolumeImplementation* implementation = nullptr;

    Volume* operator->() { return volume.get(); }
    void finish() { implementation->finish_reclaiming(); }
};

/// `adjust` is called before the thread starts.
Opened open_at_once(std::unique_ptr<Disk> disk,
                    const std::function<void(VolumeImplementation&)>& adjust = {}) {
    Opened opened;
    OpenChanges changes;
    changes.adjust = [&](VolumeImplementation& volume) {
        opened.implementation = &volume;
        if (adjust) adjust(volume);
    };
    Failure failure;
    const OpenOptions options{.workers = 2, .engine = EngineChoice::cpu};
    opened.volume = open_volume(std::move(disk), "image", options, failure, changes);
    EXPECT_TRUE(opened.volume) << failure.message;
    return opened;
}
Opened open_at_once(Disk& disk) {
    return open_at_once(std::make_unique<FaultDisk>(disk));
}

/// Collects the report lines during its lifetime.
class Notices {
 public:
    Notices() {
        set_notice_sink([this](const std::string& line) { lines_.push_back(line); });
    }
    ~Notices() { set_notice_sink({}); }
    Notices(const Notices&) = delete;
    Notices& operator=(const Notices&) = delete;
    const std::vector<std::string>& lines() const { return lines_; }

 private:
    std::vector<std::string> lines_;
};

/// A volume that crashed with `count` open files of `bytes` bytes each and without a name.
std::unique_ptr<MemoryDisk> make_cut_off(u64 volume_bytes, u64 count, u64 bytes) {
    MemoryVolume volume(volume_bytes, {.workers = 2});
    const std::vector<std::byte> data(bytes, std::byte{'o'});
    for (u64 i = 0; i < count; ++i) {
        const std::string name = "doomed" + std::to_string(i);
        const auto made = volume->create(anybody, volume->root(), name, {.open = true});
        EXPECT_TRUE(made);
        EXPECT_TRUE(volume->write(made->handle, 0, data));
        EXPECT_EQ(volume->unlink(anybody, volume->root(), name), Errc::ok);
    }
    EXPECT_EQ(volume->sync(), Errc::ok);
    auto cut = volume.disk().copy();
    EXPECT_TRUE(expect_clean(*cut));
    return cut;
}

TEST(OrphanReclaimer, freesAllWithoutAnotherOpening) {
    const auto disk = make_cut_off(64 * mib, 500, 20'000);
    auto opened = open_at_once(*disk);
    opened.finish();
    EXPECT_EQ(opened->statistics().inodes_used, 2u);
    ASSERT_EQ(opened->close(), Errc::ok);
    expect_clean(*disk);
}

TEST(OrphanReclaimer, keepsNobodyFromOpening) {
    std::unique_ptr<MemoryDisk> disk;
    u64 place = 0;  // of the inode of an orphan; nobody else needs its block
    {
        MemoryVolume volume(16 * mib);
        const auto block_of = [](Handle handle) {
            return handle.inode * format::inode_size / format::block_size * format::block_size;
        };
        const u64 block = block_of(make_file(*volume, volume->root(), "file"));
        for (int i = 0; i < 100; ++i) {
            const auto made = volume->create_unnamed(anybody, volume->root(), {.open = true});
            ASSERT_TRUE(made);
            // An engine may place the file near the orphans.
            if (block_of(made->handle) != block &&
                block_of(made->handle) != block_of(volume->root()))
                place = block_of(made->handle);
        }
        ASSERT_NE(place, 0u);
        ASSERT_EQ(volume->sync(), Errc::ok);
        disk = volume.disk().copy();
    }
    auto holding = std::make_unique<HoldingDisk>(*disk);
    HoldingDisk& held = *holding;
    held.hold(place);
    auto opened = open_at_once(std::move(holding));
    ASSERT_TRUE(opened.volume);
    EXPECT_TRUE(held.wait_until_held(place));
    EXPECT_TRUE(resolve(*opened.volume, anybody, "/file"));
    EXPECT_EQ(opened->sync(), Errc::ok);
    EXPECT_GT(opened->statistics().inodes_used, 3u);
    held.let_go(place);
    opened.finish();
    EXPECT_EQ(opened->statistics().inodes_used, 3u);
    ASSERT_EQ(opened->close(), Errc::ok);
    expect_clean(*disk);
}

class DamagedOrphan : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kinds, DamagedOrphan, testing::Range(0, 4));

TEST_P(DamagedOrphan, keepsNobodyFromAnything) {
    ImageBuilder image(16 * mib);
    u64 orphans[3];
    for (u64& orphan : orphans)
        orphan = image.add_orphan(std::string(9000, 'o'));
    test::build_one_of_everything(image, 20, 14);
    const u64 bad = orphans[1];
    ImageEditor editor(image.disk());
    format::Inode inode = editor.inode(bad);
    switch (GetParam()) {
        case 0:
            editor.flip(bad * format::inode_size + offsetof(format::Inode, modified));
            break;
        case 1:
            inode.area.extents[0].length = 0;
            editor.set_inode(bad, inode);
            break;
        case 2:
            inode.attributes = format::BlockPointer::to(1);
            editor.set_inode(bad, inode);
            break;
        default:
            inode.mode = 0;
            editor.set_inode(bad, inode);
            break;
    }
    const Notices notices;
    u64 created = 0;  // it may take the number of an orphan that was freed
    {
        auto opened = open_at_once(image.disk());
        ASSERT_TRUE(opened.volume);
        opened.finish();
        created = make_file(*opened.volume, opened->root(), "new").inode;
        Removal removal;
        EXPECT_EQ(opened->remove_tree(anybody, opened->root(), "directory", removal), Errc::ok);
        ASSERT_EQ(opened->close(), Errc::ok);
    }
    ASSERT_EQ(notices.lines().size(), 1u);
    EXPECT_NE(notices.lines()[0].find("image: inode " + std::to_string(bad) + ", which was"),
              std::string::npos)
        << notices.lines()[0];
    for (const u64 good : {orphans[0], orphans[2]}) {
        const u64 first = good / format::inodes_per_frame * format::frame_size;
        const format::Block block = editor.read(first);
        const auto& bitmap = reinterpret_cast<const format::InodeBitmap&>(block);
        const u64 slot = good % format::inodes_per_frame;
        EXPECT_EQ(bitmap.used[slot / 64] >> slot % 64 & 1, good == created ? 1u : 0u) << good;
    }
    const test::Outcome found = test::check_once(image.disk(), true, false);
    EXPECT_GT(found.result.problems, 0u);
    EXPECT_EQ(found.result.repaired, found.result.problems) << found.all();
    auto opened = open_at_once(image.disk());
    opened.finish();
    ASSERT_EQ(opened->close(), Errc::ok);
    EXPECT_EQ(notices.lines().size(), 1u);
    expect_clean(image.disk());
}

TEST(OrphanReclaimer, stopsWhenTheVolumeIsClosed) {
    const auto disk = make_cut_off(64 * mib, 3000, 100);
    u64 openings = 0;
    for (u64 used = 3002; used > 2; ++openings) {
        ASSERT_LT(openings, 3000u);
        auto opened = open_at_once(*disk);
        // At least one of them is freed, however slow the machine is.
        while (opened->statistics().inodes_used >= used)
            std::this_thread::yield();
        ASSERT_EQ(opened->close(), Errc::ok);
        used = opened->statistics().inodes_used;
        ASSERT_TRUE(expect_clean(*disk));
    }
    std::printf("[ OPENINGS ] %llu\n", static_cast<unsigned long long>(openings));
}

TEST(OrphanReclaimer, stopsWithinATree) {
    const Seed seed;
    MemoryVolume volume(64 * mib, {.workers = 2});
    const Handle top = make_directory(*volume, volume->root(), "top");
    for (u64 d = 0; d < 40; ++d) {
        const Handle directory = make_directory(*volume, top, "d" + std::to_string(d));
        for (u64 f = 0; f < 250; ++f)
            make_file(*volume, directory, "f" + std::to_string(f));
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    volume.disk().start_recording();
    Removal removal;
    ASSERT_EQ(volume->remove_tree(anybody, volume->root(), "top", removal), Errc::ok);
    volume.close();
    volume.disk().stop_recording();
    Random random(seed.value());
    for (int round = 0; round < 12 && !HasFailure(); ++round) {
        const u64 event = random.below(volume.disk().event_count() + 1);
        SCOPED_TRACE(testing::Message() << "cut after event " << event);
        const auto disk = volume.disk().image_after(event);
        const u64 openings = random.below(4);
        for (u64 i = 0; i < openings; ++i) {
            auto opened = open_at_once(*disk);
            for (u64 wait = random.below(2000); wait > 0; --wait)
                std::this_thread::yield();
            ASSERT_EQ(opened->close(), Errc::ok);
            ASSERT_TRUE(expect_clean(*disk));
        }
        auto opened = open_at_once(*disk);
        opened.finish();
        const bool is_there = static_cast<bool>(resolve(*opened.volume, anybody, "/top"));
        EXPECT_EQ(opened->statistics().inodes_used, is_there ? 10'043u : 2u);
        ASSERT_EQ(opened->close(), Errc::ok);
        ASSERT_TRUE(expect_clean(*disk));
    }
}

TEST(OrphanReclaimer, givesAWriterItsSpace) {
    // 80 of the 112 MiB or so that are free belong to orphans.
    const auto disk = make_cut_off(128 * mib, 160, 512 * kib);
    auto opened = open_at_once(*disk);
    const auto made = opened->create(anybody, opened->root(), "large", {.open = true});
    ASSERT_TRUE(made);
    const std::vector<std::byte> data(mib, std::byte{'n'});
    for (u64 at = 0; at < 96 * mib; at += mib)
        ASSERT_TRUE(opened->write(made->handle, at, data)) << at;
    EXPECT_EQ(opened->release(made->handle), Errc::ok);
    ASSERT_EQ(opened->close(), Errc::ok);
    expect_clean(*disk);
}

TEST(OrphanReclaimer, isFollowedByNoSpaceWhereThereIsNone) {
    const auto disk = make_cut_off(16 * mib, 20, 100'000);
    auto opened = open_at_once(*disk);
    const auto made = opened->create(anybody, opened->root(), "large", {.open = true});
    ASSERT_TRUE(made);
    const std::vector<std::byte> data(mib, std::byte{'n'});
    u64 at = 0;
    Result<u64> wrote = u64{0};
    while ((wrote = opened->write(made->handle, at, data)))
        at += *wrote;
    EXPECT_EQ(wrote.code(), Errc::no_space);
    opened.finish();
    EXPECT_GT(at, 5 * mib);
    EXPECT_EQ(opened->release(made->handle), Errc::ok);
    ASSERT_EQ(opened->close(), Errc::ok);
    expect_clean(*disk);
}

TEST(OrphanReclaimer, leavesAloneWhatIsRemovedWhileItRuns) {
    const auto disk = make_cut_off(64 * mib, 4000, 200);
    auto opened = open_at_once(*disk);
    const std::vector<std::byte> data(10'000, std::byte{'l'});
    std::vector<Handle> open;
    std::vector<std::byte> found(data.size());
    for (int i = 0; i < 300; ++i) {
        const std::string name = "live" + std::to_string(i);
        const auto made = opened->create(anybody, opened->root(), name, {.open = true});
        ASSERT_TRUE(made);
        ASSERT_TRUE(opened->write(made->handle, 0, data));
        ASSERT_EQ(opened->unlink(anybody, opened->root(), name), Errc::ok);
        open.push_back(made->handle);
        const auto unnamed = opened->create_unnamed(anybody, opened->root(), {.open = true});
        ASSERT_TRUE(unnamed);
        open.push_back(unnamed->handle);
        ASSERT_TRUE(opened->write(unnamed->handle, 0, data));
    }
    opened.finish();
    EXPECT_EQ(opened->statistics().inodes_used, 2 + open.size());
    for (const Handle handle : open) {
        ASSERT_TRUE(opened->read(handle, 0, found));
        EXPECT_EQ(found, data);
        EXPECT_EQ(opened->release(handle), Errc::ok);
    }
    EXPECT_EQ(opened->statistics().inodes_used, 2u);
    ASSERT_EQ(opened->close(), Errc::ok);
    expect_clean(*disk);
}

TEST(OrphanReclaimer, takesNoNewDirectoryForAnOrphan) {
    std::unique_ptr<MemoryDisk> disk;
    Handle orphan;
    {
        MemoryVolume volume(16 * mib, {.workers = 2});
        // The thread meets the directory before the file.
        const Handle directory = make_directory(*volume, volume->root(), "directory");
        ASSERT_EQ(volume->open_file(directory), Errc::ok);
        ASSERT_EQ(volume->remove_directory(anybody, volume->root(), "directory"), Errc::ok);
        const auto made = volume->create_unnamed(anybody, volume->root(), {.open = true});
        ASSERT_TRUE(made);
        orphan = made->handle;
        ASSERT_EQ(volume->sync(), Errc::ok);
        disk = volume.disk().copy();
    }
    std::unique_lock<FairLock> waits;  // before its first step
    auto opened = open_at_once(std::make_unique<FaultDisk>(*disk), [&](VolumeImplementation& one) {
        waits = std::unique_lock(one.committer().steps());
    });
    ASSERT_TRUE(opened.volume);
    EXPECT_TRUE(opened->link(anybody, orphan, opened->root(), "named"));
    EXPECT_EQ(opened->unlink(anybody, opened->root(), "named"), Errc::ok);
    const Handle reused =
        make_directory_of_number(*opened.volume, *opened.implementation, orphan.inode);
    ASSERT_EQ(reused.inode, orphan.inode);
    waits.unlock();
    opened.finish();
    EXPECT_TRUE(opened->lookup(anybody, reused, "kept"));
    ASSERT_EQ(opened->close(), Errc::ok);
    expect_clean(*disk);
}

/// Opening takes as long as reading the orphans' names; compared with its time before.
TEST(OrphanReclaimer, ofAHundredThousandLong) {
    const auto disk = make_cut_off(512 * mib, 100'000, 200);
    const auto milliseconds_since = [](Clock::time_point begin) {
        return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    };
    auto begin = Clock::now();
    auto opened = open_at_once(*disk);
    const double open = milliseconds_since(begin);
    opened.finish();
    std::printf("[  OPENING ] %.1f ms, all freed after %.1f ms\n", open, milliseconds_since(begin));
    EXPECT_EQ(opened->statistics().inodes_used, 2u);
    begin = Clock::now();
    ASSERT_EQ(opened->close(), Errc::ok);
    std::printf("[  CLOSING ] %.1f ms\n", milliseconds_since(begin));
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren::orphan_reclaimer_test

// SPDX-License-Identifier: Apache-2.0
// A sound volume is clean. Damage of the volume's own structures is found without a write, is
// repaired, and is gone afterwards; an interrupted repair can be started again.
#include "fs/check/check.hpp"

#include "fs/admin/make_volume.hpp"
#include "fs/check/check_report.hpp"
#include "fs/commit/journal.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/format/check_block.hpp"
#include "tests/support/check_sample.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::test::check_test {
namespace {

TEST(Check, FreshVolumesAreClean) {
    for (const u64 size : {16 * mib, 64 * mib, 5 * gib, 200 * gib, 16 * tib}) {
        if (is_sanitized && size > tib) continue;  // for its size alone it takes a minute
        MemoryDisk disk(size);
        ASSERT_EQ(make_volume_on(disk, "image", size, "label").code, Errc::ok);
        const Outcome outcome = check(disk);
        EXPECT_EQ(outcome.failure.code, Errc::ok) << outcome.all();
        EXPECT_EQ(outcome.result.problems, 0u) << size << outcome.all();
        EXPECT_EQ(outcome.result.inodes, 2u);
        EXPECT_EQ(outcome.result.directories, 2u);
    }
}

TEST(Check, GrownVolumesAreClean) {
    MemoryDisk disk(100 * gib);
    ASSERT_EQ(make_volume_on(disk, "image", 16 * mib, "").code, Errc::ok);
    for (const u64 size : {100 * mib, 15 * gib, 100 * gib}) {
        ASSERT_EQ(grow_volume_on(disk, "image", size).code, Errc::ok);
        expect_clean(disk);
    }
}

/// Between the metadata and the first data frame, readers take all frames for free.
TEST(Check, RepairLeavesAMovedFrameTableOutOfTheFreeFrames) {
    MemoryDisk disk(31 * gib);
    ASSERT_EQ(make_volume_on(disk, "image", 1 * gib, "").code, Errc::ok);
    ASSERT_EQ(grow_volume_on(disk, "image", 31 * gib).code, Errc::ok);
    format::Superblock superblock{};
    const auto load = [&] { return read_superblock(disk, "image", superblock).code; };
    const auto store = [&] {
        return write_superblock(disk, superblock, superblock.header.transaction + 1);
    };
    ASSERT_EQ(load(), Errc::ok);
    const u64 table_frame = superblock.frame_table_offset / format::frame_size;
    ASSERT_GE(table_frame, superblock.metadata_frames_end) << "the table has not moved";
    ++superblock.blocks_used;
    ASSERT_EQ(store(), Errc::ok);
    const Outcome repaired = check(disk, true);
    EXPECT_EQ(repaired.failure.code, Errc::ok) << repaired.all();
    ASSERT_EQ(load(), Errc::ok);
    EXPECT_LE(superblock.data_frames_begin, table_frame);

    // A volume that was repaired wrongly is found out.
    superblock.data_frames_begin = superblock.frame_count;
    ASSERT_EQ(store(), Errc::ok);
    EXPECT_GT(check(disk).result.problems, 0u);
    EXPECT_EQ(check(disk, true).failure.code, Errc::ok);
    expect_clean(disk);
}

TEST(Check, WhatIsNoVolumeIsAFailure) {
    MemoryDisk disk(16 * mib);
    const Outcome outcome = check(disk);
    EXPECT_EQ(outcome.failure.code, Errc::invalid);
    EXPECT_NE(outcome.failure.message.find("image"), std::string::npos);
}

TEST_F(CheckTest, SampleIsClean) {
    const Outcome outcome = check(disk());
    EXPECT_EQ(outcome.result.problems, 0u) << outcome.all();
    EXPECT_EQ(outcome.result.directories, 6u);
    EXPECT_EQ(outcome.result.inodes, 6u + 40 + 3 + 2 + 2 + 1);
    EXPECT_GE(editor().inode(directory).height, 3);
    EXPECT_GE(editor().inode(sparse).height, 2);
}

TEST_F(CheckTest, RepairOfACleanVolumeWritesNothing) {
    disk().start_recording();
    const Outcome outcome = check(disk(), true);
    EXPECT_EQ(outcome.result.problems, 0u) << outcome.all();
    EXPECT_EQ(disk().event_count(), 0u);
}

TEST_F(CheckTest, FirstSuperblock) {
    editor().flip(100);
    expect_found_and_repaired("superblock: the first copy is damaged");
}

TEST_F(CheckTest, SecondSuperblock) {
    editor().flip(format::superblock_copy_offset + 100);
    expect_found_and_repaired("superblock: the second copy is damaged");
}

TEST_F(CheckTest, Counters) {
    Block block;
    auto& superblock = reinterpret_cast<format::Superblock&>(block);
    ASSERT_EQ(read_superblock(disk(), "image", superblock).code, Errc::ok);
    superblock.blocks_used += 1;
    superblock.inodes_used -= 1;
    superblock.metadata_frames_end = 1;
    superblock.data_frames_begin = superblock.frame_count;
    ASSERT_EQ(write_superblock(disk(), superblock, 8), Errc::ok);
    const Outcome outcome = check(disk());
    EXPECT_EQ(outcome.result.problems, 4u) << outcome.all();
    expect_found_and_repaired("superblock: counts");
}

TEST_F(CheckTest, DamagedFrameTable) {
    const u64 names = count_names(directory);
    editor().flip(image.superblock().frame_table_offset + 1000);
    expect_found_and_repaired("frame table: block 0 is damaged");
    EXPECT_EQ(count_names(directory), names);
}

TEST_F(CheckTest, LeakedBlocks) {
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
            const u64 frame = image.superblock().metadata_frames_end - 1;
            table.entries[frame].used[7] |= u64{7} << 61;
        });
    expect_found_and_repaired("blocks in use that belong to nothing: 3");
}

TEST_F(CheckTest, BlocksMarkedFree) {
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
            table.entries[image.superblock().frame_count - 1].used[7] &= ~(u64{1} << 63);
        });
    expect_found_and_repaired("blocks marked free that are in use: 1");
}

TEST_F(CheckTest, FramesOfAWrongKind) {
    for (const u64 kind : {u64{0}, u64{1}, u64{77}}) {
        change_block<format::FrameTableBlock>(
            image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
                table.entries[image.superblock().frame_count - 1].kind = kind;
            });
        expect_found_and_repaired("frame ");
        EXPECT_TRUE(has_name(grandchild, "few"));
    }
}

TEST_F(CheckTest, LostInodeFrame) {
    const u64 frame = image.root() / format::inodes_per_frame;
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset,
        [&](format::FrameTableBlock& table) { table.entries[frame] = {}; });
    expect_found_and_repaired("holds inodes but is marked otherwise");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, DamagedBitmap) {
    const u64 names = count_names(directory);
    editor().flip(image.root() / format::inodes_per_frame * format::frame_size + 100);
    expect_found_and_repaired("inode bitmap is damaged");
    EXPECT_EQ(count_names(directory), names);
    EXPECT_TRUE(has_name(grandchild, "few"));
}

TEST_F(CheckTest, DamagedInodes) {
    for (const u64 number : {small[3], directory, sparse, text, image.root(), image.orphans()}) {
        editor().flip(number * format::inode_size + offsetof(Inode, modified));
        expect_found_and_repaired("its CRC is wrong");
    }
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, DamagedGenerationIsTakenFromTheBlocks) {
    const u32 before = editor().inode(directory).generation;
    editor().flip(directory * format::inode_size + offsetof(Inode, generation), 0x40);
    expect_found_and_repaired("its CRC is wrong");
    EXPECT_EQ(editor().inode(directory).generation, before);
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, HopelessInode) {
    change_inode(small[5], [](Inode& inode) { inode.mode = 0; });
    expect_found_and_repaired("/directory/file-5: has no valid type");
    EXPECT_FALSE(has_name(directory, "file-5"));
}

/// Puts a transaction with one changed inode into the journal.
void log_change(ImageEditor edit, MemoryDisk& disk, u64 number) {
    Block superblock = edit.read(0);
    auto& changed = reinterpret_cast<format::Superblock&>(superblock);
    changed.clean = 0;
    const u64 next = changed.header.transaction + 1;
    format::seal_block(superblock, changed.header.volume, 0, next);
    const u64 place = number * format::inode_size / block_size * block_size;
    Block inodes = edit.read(place);
    reinterpret_cast<Inode*>(&inodes)[number % format::inodes_per_block].links = 9;
    format::seal_inodes(inodes, changed.header.volume, place, next);
    const auto journal = std::make_unique<Journal>(disk, edit.superblock());
    const SealedBlock blocks[] = {{0, &superblock}, {place, &inodes}};
    ASSERT_EQ(journal->write(next, blocks, FreshData::no), Errc::ok);
}

TEST_F(CheckTest, JournalIsReplayedInMemory) {
    log_change(editor(), disk(), text);
    EXPECT_EQ(editor().inode(text).links, 2u);
    disk().start_recording();
    const Outcome found = check(disk());
    EXPECT_TRUE(found.says("/text: counts 9 links, it has 2")) << found.all();
    EXPECT_EQ(found.result.problems, 1u) << found.all();
    EXPECT_EQ(disk().event_count(), 0u);
    expect_found_and_repaired("/text: counts 9 links");
    EXPECT_EQ(editor().inode(text).links, 2u);
    EXPECT_EQ(editor().superblock().clean, 1u);
}

TEST_F(CheckTest, RepairThatSaysCleanMakesTheJournalHistory) {
    for (const bool has_journal : {false, true}) {
        Block superblock = editor().read(0);
        auto& changed = reinterpret_cast<format::Superblock&>(superblock);
        changed.clean = 0;
        const u64 number = changed.header.transaction + 1;
        format::seal_block(superblock, changed.header.volume, 0, number);
        const auto journal = std::make_unique<Journal>(disk(), editor().superblock());
        const SealedBlock sealed{0, &superblock};
        if (has_journal) {
            ASSERT_EQ(journal->write(number, {&sealed, 1}, FreshData::no), Errc::ok);
        }
        ASSERT_EQ(journal->write_places({&sealed, 1}), Errc::ok);
        const Outcome outcome = check(disk(), true);
        EXPECT_EQ(outcome.failure.code, Errc::ok);
        EXPECT_EQ(outcome.result.problems, 0u) << outcome.all();
        const format::Superblock after = editor().superblock();
        EXPECT_EQ(after.clean, 1u) << "though there is an orphan";
        const Result<u64> logged = Journal::find_logged(disk(), after, [](u64, u64) {});
        EXPECT_TRUE(logged && *logged == 0u) << "a reader would read the journal";
    }
}

/// Damage of several kinds at once.
void hurt(CheckTest& test) {
    test.editor().flip(test.tree_block(test.directory, 1) + 70);
    test.change_block<DirectoryLeaf>(test.tree_block(test.child, 0),
                                     [&](DirectoryLeaf& leaf) { leaf.slots[0].target += 4000; });
    test.change_inode(test.few, [](Inode& inode) { inode.area.extents[1].file_block = 0; });
    test.editor().flip(test.image.superblock().frame_table_offset + 2000);
}

TEST_F(CheckTest, RepairSurvivesACutAfterEveryWrite) {
    hurt(*this);
    disk().start_recording();
    EXPECT_EQ(check(disk(), true).failure.code, Errc::ok);
    disk().stop_recording();
    ASSERT_GT(disk().event_count(), 2u);
    for (u64 events = 0; events <= disk().event_count(); ++events) {
        const auto cut = disk().image_after(events, {true, true, true, events});
        const Outcome again = check(*cut, true);
        ASSERT_EQ(again.failure.code, Errc::ok) << again.all();
        ASSERT_EQ(again.result.repaired, again.result.problems) << events << again.all();
        expect_clean(*cut);
        ASSERT_FALSE(HasFailure()) << "after " << events << " events";
    }
}

/// Makes each I/O of a repair fail in turn, alone or together with all later ones.
void fail_each(CheckTest& test, bool is_once) {
    const auto pristine = test.disk().copy();
    u64 count = ~u64{0};
    for (u64 nth = 1; nth <= count; nth += case_step) {
        const auto copy = pristine->copy();
        FaultDisk failing(*copy);
        failing.set_plan({true, true, true, nth, is_once, true});
        const Outcome outcome = check(failing, true);
        if (failing.failed_count() == 0)
            count = nth;
        else
            EXPECT_NE(outcome.failure.code, Errc::ok) << nth;
        const Outcome again = check(*copy, true);
        EXPECT_EQ(again.result.repaired, again.result.problems) << nth << again.all();
        // One entry was damaged; no other name may get lost.
        EXPECT_LE(again.count("is in no directory"), 1) << nth << again.all();
        expect_clean(*copy);
        ASSERT_FALSE(testing::Test::HasFailure()) << "access " << nth;
    }
    EXPECT_GT(count, 50u);
}

TEST_F(CheckTest, RepairSurvivesEachFailingAccess) {
    hurt(*this);
    fail_each(*this, true);
    fail_each(*this, false);
}

TEST_F(CheckTest, WhatCannotBeReadIsAProblem) {
    u64 nth = 1;
    for (;; ++nth) {
        FaultDisk failing(disk());
        failing.set_plan({true, false, false, nth, false, false});
        const Outcome outcome = check(failing);
        if (failing.failed_count() == 0) break;
        EXPECT_TRUE(outcome.failure.code == Errc::io || outcome.says("some blocks cannot be read"))
            << "read " << nth << ": " << outcome.all();
    }
    EXPECT_GT(nth, 8u);
}

TEST_F(CheckTest, RepairOfAFullVolume) {
    editor().flip(tree_block(directory, 1) + 70);
    // All free blocks are marked as in use: only the second round has blocks to write to.
    change_block<format::FrameTableBlock>(
        image.superblock().frame_table_offset, [&](format::FrameTableBlock& table) {
            for (u64 frame = 0; frame < image.superblock().frame_count; ++frame) {
                u64& kind = table.entries[frame].kind;
                if (kind == 0) kind = static_cast<u64>(format::FrameKind::data);
                std::ranges::fill(table.entries[frame].used, ~u64{0});
            }
        });
    expect_found_and_repaired("blocks in use that belong to nothing: ");
    EXPECT_EQ(count_names(directory), 41u);
}

TEST_F(CheckTest, LostAndFoundIsUsedAgain) {
    for (const u64 number : {child, grandchild}) {
        change_block<DirectoryLeaf>(tree_block(number, 0), [](DirectoryLeaf& leaf) {
            const format::BlockHeader header = leaf.header;
            leaf = {};
            leaf.header = header;
        });
        expect_found_and_repaired("is in no directory");
    }
    EXPECT_TRUE(has_name(image.root(), "lost+found"));
    EXPECT_FALSE(has_name(image.root(), "lost+found.2"));
}

TEST_F(CheckTest, LostFilesGoToTheRootWithoutAFreeInode) {
    change_block<DirectoryLeaf>(tree_block(grandchild, 0), [](DirectoryLeaf& leaf) {
        const format::BlockHeader header = leaf.header;
        leaf = {};
        leaf.header = header;
    });
    const u64 frame = image.root() / format::inodes_per_frame;
    Inode fifo{};
    fifo.generation = 5;
    fifo.mode = format::type_fifo | 0600;
    fifo.links = 1;
    ImageEditor edit = editor();
    for (u64 slot = format::inodes_per_block; slot < format::inodes_per_frame; ++slot) {
        const u64 number = frame * format::inodes_per_frame + slot;
        if (edit.inode(number).generation == 0) edit.set_inode(number, fifo);
    }
    change_block<format::InodeBitmap>(frame * format::frame_size, [](format::InodeBitmap& bitmap) {
        std::ranges::fill(bitmap.used, ~u64{0});
    });
    expect_found_and_repaired("is in no directory");
    EXPECT_FALSE(has_name(image.root(), "lost+found"));
    EXPECT_TRUE(has_name(image.root(), "#" + std::to_string(few)));
}

}  // namespace
}  // namespace warren::test::check_test

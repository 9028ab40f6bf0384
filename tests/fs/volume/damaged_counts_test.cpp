// SPDX-License-Identifier: Apache-2.0
// Reference counts that are damaged on the disk: operations that need them return an error and
// change nothing, a check finds them, and a repair counts the references again.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/core/shared_blocks.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/frame.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/two_looks.hpp"

namespace warren::damaged_counts_test {
namespace {

using format::FrameEntry;
using format::ReferenceBlock;

class DamagedCounts : public SharingVolume {};

using CountsChange = std::function<void(ReferenceBlock& counts, FrameEntry& entry)>;

struct Damage {
    const char* name;
    CountsChange change;
    bool is_sealed = true;  // the counts get a header and a checksum that fit
};

/// Damages the counts of the first block group that has some; `change` gets the address of the
/// counts and the block of the frame table.
void damage_counts(Disk& disk, const CountsChange& change, bool is_sealed = true) {
    const auto bytes_of = [](auto& from) { return std::as_writable_bytes(std::span(&from, 1)); };
    format::Block first;
    ASSERT_EQ(disk.read(0, bytes_of(first)), Errc::ok);
    const auto& superblock = reinterpret_cast<const format::Superblock&>(first);
    const u64 volume = superblock.header.volume;
    for (u64 i = 0; i < superblock.frame_table_blocks; ++i) {
        const u64 table_place = superblock.frame_table_offset + i * block_bytes;
        format::Block table;
        ASSERT_EQ(disk.read(table_place, bytes_of(table)), Errc::ok);
        for (format::FrameEntry& entry :
             reinterpret_cast<format::FrameTableBlock&>(table).entries) {
            if (entry.references == 0) continue;
            const u64 place = format::BlockPointer{entry.references}.offset();
            format::Block counts;
            ASSERT_EQ(disk.read(place, bytes_of(counts)), Errc::ok);
            change(reinterpret_cast<format::ReferenceBlock&>(counts), entry);
            if (is_sealed) format::seal_block(counts, volume, place, superblock.header.transaction);
            format::seal_block(table, volume, table_place, superblock.header.transaction);
            ASSERT_EQ(disk.write(place, bytes_of(counts)), Errc::ok);
            ASSERT_EQ(disk.write(table_place, bytes_of(table)), Errc::ok);
            return;
        }
    }
    FAIL() << "no frame has counts";
}

void lose_pointer(ReferenceBlock&, FrameEntry& entry) {
    entry.references = 0;
}

TEST_P(DamagedCounts, AreFoundAndCountedAgain) {
    const auto lose_block = [](ReferenceBlock& counts, FrameEntry&) { counts.header.owner = 1; };
    const auto spoil_pointer = [](ReferenceBlock&, FrameEntry& entry) { entry.references = 12345; };
    const auto count_wrong = [](ReferenceBlock& counts, FrameEntry&) { ++counts.extra[511]; };
    const std::pair<CountsChange, std::string> damages[] = {
        {lose_block, "its reference counts are damaged"},
        {lose_pointer, "reference counts that are wrong"},
        {spoil_pointer, "its pointer to reference counts makes no sense"},
        {count_wrong, "reference counts that are wrong: 1"}};
    const Bytes bytes = random_bytes(random_, 3 * mib);
    const Handle source = open_new("source");
    put(*volume_, source, 0, bytes);
    const Handle target = open_new("target");
    share(source, target);
    for (const auto& [change, text] : damages) {
        SCOPED_TRACE(text);
        ASSERT_EQ(volume_->release(source), Errc::ok);
        ASSERT_EQ(volume_->release(target), Errc::ok);
        volume_.close();
        EXPECT_EQ(test::expect_equal_looks(volume_.disk()).result.problems, 0u);
        damage_counts(volume_.disk(), change);
        const test::Outcome found = test::expect_equal_looks(volume_.disk());
        EXPECT_TRUE(found.says(text)) << found.all();
        const test::Outcome repaired = test::check_once(volume_.disk(), true, false);
        EXPECT_EQ(repaired.failure.code, Errc::ok) << repaired.all();
        EXPECT_EQ(test::expect_equal_looks(volume_.disk()).result.problems, 0u);
        volume_.open();
        ASSERT_EQ(volume_->open_file(source), Errc::ok);
        ASSERT_EQ(volume_->open_file(target), Errc::ok);
        EXPECT_EQ(contents(*volume_, source), bytes);
        put(*volume_, target, 0, Bytes(block_bytes, std::byte{9}));
        EXPECT_EQ(contents(*volume_, source), bytes) << "written through the other file";
        share(source, target);
    }
    volume_.close_and_check();
}

/// Each way in which counts cannot be read.
const Damage unreadable[] = {
    {"wrong owner", [](ReferenceBlock& counts, FrameEntry&) { counts.header.owner = 1; }},
    {"wrong kind",
     [](ReferenceBlock& counts, FrameEntry&) {
         counts.header.kind = static_cast<u16>(format::BlockKind::extent_leaf);
     }},
    {"wrong checksum", [](ReferenceBlock& counts, FrameEntry&) { ++counts.header.crc; }, false},
    {"zeros", [](ReferenceBlock& counts, FrameEntry&) { counts = {}; }, false},
    {"no pointer", [](ReferenceBlock&, FrameEntry& entry) { entry.references = 12345; }},
    {"pointer to another block",
     [](ReferenceBlock&, FrameEntry& entry) {
         entry.references = format::BlockPointer::to(0).raw;
     }},
};

/// Three files share blocks; one of them is in a directory.
class Sharers {
 public:
    explicit Sharers(Random& random) : bytes(random_bytes(random, 100 * block_bytes)) {}

    void make(Volume& volume) {
        tree = make_directory(volume, volume.root(), "tree");
        source = make_file(volume, volume.root(), "source");
        target = make_file(volume, volume.root(), "target");
        inner = make_file(volume, tree, "inner");
        other = make_file(volume, volume.root(), "other");
        open(volume);
        put(volume, source, 0, bytes);
        put(volume, other, 0, other_bytes);
        for (const Handle file : {target, inner})
            ASSERT_EQ(*volume.share_range(source, 0, file, 0, bytes.size()), bytes.size());
        release(volume);
    }
    void open(Volume& volume) const {
        for (const Handle file : {source, target, inner, other})
            ASSERT_EQ(volume.open_file(file), Errc::ok);
    }
    void release(Volume& volume) const {
        for (const Handle file : {source, target, inner, other})
            ASSERT_EQ(volume.release(file), Errc::ok);
    }
    void expect_contents(Volume& volume) const {
        for (const Handle file : {source, target, inner})
            EXPECT_TRUE(contents(volume, file) == bytes) << file.inode;
        EXPECT_TRUE(contents(volume, other) == other_bytes);
    }

    const Bytes bytes;
    const Bytes other_bytes = Bytes(20 * block_bytes, std::byte{5});
    Handle tree;
    Handle source;
    Handle target;
    Handle inner;
    Handle other;  // shares nothing
};

Bytes read_closed(Volume& volume, Handle file) {
    EXPECT_EQ(volume.open_file(file), Errc::ok);
    Bytes bytes = contents(volume, file);
    EXPECT_EQ(volume.release(file), Errc::ok);
    return bytes;
}

/// Every operation that needs the counts changes nothing; what loses its name keeps its blocks.
TEST_P(DamagedCounts, AreAnErrorUntilTheyAreRepaired) {
    for (const Damage& damage : unreadable) {
        SCOPED_TRACE(damage.name);
        MemoryVolume volume(16 * mib, options());
        Sharers files(random_);
        files.make(*volume);
        volume.close();
        damage_counts(volume.disk(), damage.change, damage.is_sealed);
        volume.open();
        files.open(*volume);
        const u64 used = used_blocks(*volume);
        const u64 inodes = volume->statistics().inodes_used;
        AttributeChange shorter;
        shorter.which = AttributeChange::size;
        for (const u64 size : {u64{0}, 10 * block_bytes}) {
            shorter.new_size = size;
            EXPECT_EQ(volume->set_attributes({}, files.target, shorter).code(), Errc::corrupt);
        }
        const auto share = [&](Handle from, Handle to) {
            return volume->share_range(from, 0, to, 0, 10 * block_bytes).code();
        };
        EXPECT_EQ(volume->write(files.target, 0, Bytes(10, std::byte{1})).code(), Errc::corrupt);
        EXPECT_EQ(volume->allocate(files.target, Allocate::punch_hole, 0, mib), Errc::corrupt);
        EXPECT_EQ(share(files.target, files.other), Errc::corrupt);
        EXPECT_EQ(share(files.other, files.target), Errc::corrupt);
        EXPECT_EQ(volume->space_of(files.target).code(), Errc::corrupt);
        ClonedTree done;
        for (const Handle from : {files.target, files.tree})
            EXPECT_EQ(volume->clone({}, from, volume->root(), "clone", done), Errc::corrupt);
        EXPECT_EQ(volume->lookup({}, volume->root(), "clone").code(), Errc::no_entry);
        files.expect_contents(*volume);
        EXPECT_EQ(volume->statistics().inodes_used, inodes);
        files.release(*volume);

        // The names go, the blocks stay in use.
        Removal removal;
        EXPECT_EQ(volume->unlink({}, volume->root(), "target"), Errc::corrupt);
        EXPECT_EQ(volume->remove_tree({}, volume->root(), "tree", removal), Errc::corrupt);
        EXPECT_EQ(list_names(*volume, volume->root()).size(), 2u);
        EXPECT_TRUE(read_closed(*volume, files.source) == files.bytes);
        ASSERT_EQ(volume->sync(), Errc::ok);
        EXPECT_GE(used_blocks(*volume), used);
        volume.close();
        volume.open();
        EXPECT_TRUE(read_closed(*volume, files.source) == files.bytes);
        volume.close();

        EXPECT_EQ(test::check_once(volume.disk(), true, false).failure.code, Errc::ok);
        EXPECT_TRUE(expect_clean(volume.disk()));
        volume.open();
        EXPECT_TRUE(read_closed(*volume, files.source) == files.bytes);
        EXPECT_TRUE(read_closed(*volume, files.other) == files.other_bytes);
        for (const char* const name : {"source", "other"})
            EXPECT_EQ(volume->unlink({}, volume->root(), name), Errc::ok);
        volume.close_and_check();
    }
}

/// A volume does not notice that the pointer to counts is lost: where all counts are 0, there need
/// be none. So it frees blocks that another file has, and discards them. A check finds that, and
/// after a repair no other file gets the blocks.
TEST_P(DamagedCounts, ThatAreLostAreFoundAfterBlocksWereFreed) {
    Sharers files(random_);
    files.make(*volume_);
    volume_.close();
    damage_counts(volume_.disk(), lose_pointer);
    volume_.open();
    Removal removal;
    EXPECT_EQ(volume_->unlink({}, volume_->root(), "target"), Errc::ok);
    EXPECT_EQ(volume_->remove_tree({}, volume_->root(), "tree", removal), Errc::ok);
    EXPECT_TRUE(read_closed(*volume_, files.source) == files.bytes) << "before the next commit";
    volume_.close();
    EXPECT_GT(test::expect_equal_looks(volume_.disk()).result.problems, 0u);
    EXPECT_EQ(test::check_once(volume_.disk(), true, false).failure.code, Errc::ok);
    EXPECT_TRUE(expect_clean(volume_.disk()));
    volume_.open();
    const Bytes rest = read_closed(*volume_, files.source);
    const Handle filler = open_new("filler");
    for (u64 end = 0;;) {
        const Result<u64> done = volume_->write(filler, end, Bytes(mib, std::byte{3}));
        if (!done) break;
        end += *done;
    }
    EXPECT_TRUE(read_closed(*volume_, files.source) == rest);
    ASSERT_EQ(volume_->release(filler), Errc::ok);
    volume_.close_and_check();
}

/// A repair leaves extents with the flag shared and no counts, where no block has two references.
TEST_P(DamagedCounts, AreNotNeededForTheFlagAlone) {
    Sharers files(random_);
    files.make(*volume_);
    Removal removal;
    EXPECT_EQ(volume_->unlink({}, volume_->root(), "source"), Errc::ok);
    EXPECT_EQ(volume_->remove_tree({}, volume_->root(), "tree", removal), Errc::ok);
    volume_.close();
    damage_counts(volume_.disk(), lose_pointer);
    const test::Outcome repaired = test::check_once(volume_.disk(), true, false);
    EXPECT_EQ(repaired.failure.code, Errc::ok) << repaired.all();
    EXPECT_FALSE(repaired.says("reference counts")) << repaired.all();
    volume_.open();
    EXPECT_TRUE(read_closed(*volume_, files.target) == files.bytes);
    ASSERT_EQ(volume_->open_file(files.target), Errc::ok);
    put(*volume_, files.target, block_bytes, Bytes(block_bytes, std::byte{1}));
    EXPECT_EQ(volume_->allocate(files.target, Allocate::punch_hole, 0, 10 * block_bytes), Errc::ok);
    EXPECT_EQ(volume_->space_of(files.target)->shared, 0u);
    const Handle copy = open_new("copy");
    share(files.target, copy);
    EXPECT_EQ(volume_->space_of(copy)->shared, 90u);
    remove(files.target, "target");
    remove(copy, "copy");
    volume_.close_and_check();
}

/// The count neither wraps around nor changes; other counts of the block may have every bit.
TEST_P(DamagedCounts, ACountThatIsFullIsNotRaised) {
    const Handle source = open_new("source");
    put(*volume_, source, 0, Bytes(8 * block_bytes, std::byte{1}));
    const Handle target = open_new("target");
    share(source, target);
    for (const u32 full : {~u32{0}, ~u32{0} - 1}) {
        ASSERT_EQ(volume_->release(source), Errc::ok);
        ASSERT_EQ(volume_->release(target), Errc::ok);
        volume_.close();
        damage_counts(volume_.disk(), [&](ReferenceBlock& counts, FrameEntry&) {
            u32* const first = std::ranges::find_if(counts.extra, [](u32 n) { return n != 0; });
            first[3] = full;
        });
        volume_.open();
        ASSERT_EQ(volume_->open_file(source), Errc::ok);
        ASSERT_EQ(volume_->open_file(target), Errc::ok);
        const Handle third = open_new("third");
        const Result<u64> shared = volume_->share_range(source, 0, third, 0, 8 * block_bytes);
        EXPECT_EQ(shared.code(), full == ~u32{0} ? Errc::too_many_links : Errc::ok);
        EXPECT_EQ(volume_->space_of(third)->shared, full == ~u32{0} ? 0u : 8u);
        remove(third, "third");
    }
    ASSERT_EQ(volume_->release(source), Errc::ok);
    ASSERT_EQ(volume_->release(target), Errc::ok);
    volume_.close();
    EXPECT_EQ(test::check_once(volume_.disk(), true, false).failure.code, Errc::ok);
    EXPECT_TRUE(expect_clean(volume_.disk()));
    volume_.open();
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, DamagedCounts, testing::ValuesIn(block_maps));

/// Sets all counts above 0 to the maximum, less `room`.
void fill_counts(ReferenceBlock& counts, u32 room) {
    for (u32& count : counts.extra)
        if (count != 0) count = core::references_max - room;
}

/// On an engine with batches, and on one without.
class FullCounts : public testing::TestWithParam<std::string> {
 protected:
    void open() {
        Failure failure;
        volume_ = open_on_engine(std::make_unique<FaultDisk>(*disk_), GetParam(), {}, failure);
        ASSERT_TRUE(volume_) << failure.message;
    }
    Errc clone(Handle source, const std::string& name) {
        ClonedTree done;
        return volume_->clone(anybody, source, volume_->root(), name, done);
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(64 * mib);
    std::unique_ptr<Volume> volume_;
};

/// A clone is refused as a whole, and leaves the counts as they were. Others succeed until the
/// counts are full.
TEST_P(FullCounts, LetClonesAddWhatFits) {
    constexpr u32 files = 40;
    open();
    const Handle tree = make_directory(*volume_, volume_->root(), "tree");
    const Handle first = make_file(*volume_, tree, "first");
    const Bytes bytes(8 * block_bytes, std::byte{1});
    ASSERT_EQ(volume_->open_file(first), Errc::ok);
    put(*volume_, first, 0, bytes);
    ASSERT_EQ(volume_->release(first), Errc::ok);
    for (u32 i = 1; i < files; ++i) {
        ClonedTree done;
        const std::string name = "file" + std::to_string(i);
        ASSERT_EQ(volume_->clone(anybody, first, tree, name, done), Errc::ok);
    }
    const u64 inodes = volume_->statistics().inodes_used;
    for (const u32 room : {0u, 1u, files - 1, files}) {
        SCOPED_TRACE(room);
        ASSERT_EQ(volume_->close(), Errc::ok);
        damage_counts(*disk_,
                      [&](ReferenceBlock& counts, FrameEntry&) { fill_counts(counts, room); });
        open();
        const bool fits = room >= files;
        EXPECT_EQ(clone(tree, "copy"), fits ? Errc::ok : Errc::too_many_links);
        EXPECT_EQ(list_names(*volume_, volume_->root()).count("copy"), fits ? 1u : 0u);
        std::vector<std::string> singles;
        Errc code = Errc::ok;
        while (singles.size() < files && code == Errc::ok) {
            singles.push_back(std::to_string(singles.size()));
            code = clone(first, singles.back());
        }
        singles.pop_back();  // was refused
        EXPECT_EQ(code, Errc::too_many_links);
        EXPECT_EQ(singles.size(), fits ? 0 : room);
        for (const std::string& name : singles) {
            const Result<Attributes> file = volume_->lookup(anybody, volume_->root(), name);
            EXPECT_TRUE(read_closed(*volume_, file->handle) == bytes);
            EXPECT_EQ(volume_->unlink(anybody, volume_->root(), name), Errc::ok);
        }
        Removal removal;
        EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "copy", removal),
                  fits ? Errc::ok : Errc::no_entry);
        EXPECT_EQ(volume_->statistics().inodes_used, inodes);
    }
    EXPECT_EQ(volume_->close(), Errc::ok);
    EXPECT_EQ(test::check_once(*disk_, true, false).failure.code, Errc::ok);
    EXPECT_TRUE(expect_clean(*disk_));
    open();
    EXPECT_EQ(clone(tree, "copy"), Errc::ok);
    expect_counts_agree(*volume_);
    EXPECT_EQ(volume_->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk_));
}

INSTANTIATE_TEST_SUITE_P(Engines, FullCounts,
                         testing::Values(std::string("cpu"), engine_of_its_own()),
                         [](const auto& engine) { return engine.param; });

/// A write that finds its bytes on the volume takes blocks of its own.
TEST(FullCountsOfDedup, MakeWritesTakeBlocks) {
    const auto disk = make_memory_disk(64 * mib);
    VolumeImplementation* inside = nullptr;
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(*disk), "cpu", {.dedup = Dedup::on}, failure,
                       ~u64{0}, [&](VolumeImplementation& opened) { inside = &opened; });
    ASSERT_TRUE(volume) << failure.message;
    Random random(7);
    const Bytes bytes = random_bytes(random, mib);
    const auto write = [&](const char* name) {
        const Handle file = make_file(*volume, volume->root(), name);
        EXPECT_EQ(volume->open_file(file), Errc::ok);
        put(*volume, file, 0, bytes);
        EXPECT_TRUE(contents(*volume, file) == bytes);
        EXPECT_EQ(volume->release(file), Errc::ok);
        return volume->space_of(file)->shared;
    };
    EXPECT_EQ(write("first"), 0u);
    EXPECT_EQ(write("second"), bytes.size() / block_bytes);
    const core::Store& store = inside->store();
    for (u64 frame = 0; frame < store.frame_count; ++frame) {
        const format::BlockPointer counts{store.frame(frame).references};
        if (counts.raw == 0) continue;
        fill_counts(*reinterpret_cast<ReferenceBlock*>(store.base + counts.offset()), 0);
    }
    EXPECT_EQ(write("third"), 0u);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_EQ(test::check_once(*disk, true, false).failure.code, Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

}  // namespace
}  // namespace warren::damaged_counts_test

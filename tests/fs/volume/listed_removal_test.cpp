// SPDX-License-Identifier: Apache-2.0
// Removal of trees that a replica lists: the same as a removal by the CPU, in counts, in space, on
// the disk and in the image. What the list cannot have, or what changes while it is made, the CPU
// removes. The replica is in the host's memory here; on a GPU see device_replica_test.cu.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fs/volume/listing_volume.hpp"
#include "tests/support/cut_recording.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/host_reader.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::listed_removal_test {
namespace {

/// As `tree` below `root`, but on the CPU: what its removal leaves.
struct ByCpu {
    explicit ByCpu(const TreeRecipe& recipe) : volume(recipe.size_bytes, {.workers = 2}) {
        const DoomedTree tree = recipe.build(*volume);
        for (const Handle file : tree.to_open)
            EXPECT_EQ(volume->open_file(file), Errc::ok);
        EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
    }
    MemoryVolume volume;
    Removal removal;
};

TEST(ListedRemoval, equalsThatOfTheCpu) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        for (const bool is_committed : {false, true}) {
            ByCpu wanted(recipe);
            ListingVolume volume(recipe.size_bytes);
            const DoomedTree tree = recipe.build(*volume);
            for (const Handle file : tree.to_open)
                EXPECT_EQ(volume->open_file(file), Errc::ok);
            if (is_committed) {
                EXPECT_EQ(volume->sync(), Errc::ok);
            }
            const u64 free_before = volume->statistics().blocks_free;
            const Removal removal = volume.remove_doomed();
            EXPECT_EQ(removal.files, tree.files);
            EXPECT_EQ(removal.directories, tree.directories);
            const u64 freed = volume->statistics().blocks_free - free_before;
            EXPECT_LE(removal.blocks > freed ? removal.blocks - freed : freed - removal.blocks, 1u)
                << "but for a leaf of the orphan directory";
            EXPECT_EQ(volume.listed(), recipe.may_be_listed ? 1u : 0u);
            expect_same_space(*volume, *wanted.volume);
            volume.expect_equal_image();
            EXPECT_EQ(volume->sync(), Errc::ok);
            volume.expect_equal_image();
            for (const Handle file : tree.to_open)
                EXPECT_EQ(volume->release(file), Errc::ok);
            volume.close_and_check();
        }
    }
}

/// Everything that can be freed at once: attributes, long symbolic links, extents, open
/// directories, looked-up files.
TEST(ListedRemoval, freesWhatInodesOwn) {
    ListingVolume volume;
    TreeBuilder builder(*volume);
    const u64 before = volume->statistics().blocks_free;
    const Handle inner = builder.add_directory(builder.root(), "inner");
    builder.set_attribute(inner, 100);
    builder.set_attribute(builder.root(), 100);
    builder.add_link(inner, "short", "target");
    builder.add_link(inner, "long", std::string(3000, 't'));
    for (const u64 blocks : {1, 5}) {
        const Handle file = builder.add_file(inner, "blocks" + std::to_string(blocks));
        builder.write_blocks(file, blocks);
    }
    builder.set_attribute(builder.add_file(inner, "noted"), 2000);
    const Handle known = builder.add_file(inner, "known");
    EXPECT_TRUE(volume->lookup(anybody, inner, "known", Hold::yes));
    const Handle opened = builder.add_directory(inner, "opened");
    EXPECT_EQ(volume->open_file(opened), Errc::ok);
    EXPECT_EQ(volume->sync(), Errc::ok);

    const Removal removal = volume.remove_doomed();
    EXPECT_EQ(volume.listed(), 1u);
    EXPECT_EQ(removal.files, builder.made.files);
    EXPECT_EQ(removal.directories, builder.made.directories);
    volume.expect_equal_image();
    // The numbers of what is known or open are not used again.
    for (u32 i = 0; i < 300; ++i) {
        const auto made = volume->create(anybody, volume->root(), "new" + std::to_string(i), {});
        ASSERT_TRUE(made);
        EXPECT_NE(made->handle.inode, known.inode);
        EXPECT_NE(made->handle.inode, opened.inode);
    }
    EXPECT_EQ(volume->attributes(known).code(), Errc::stale);
    volume->forget(known, 1);
    EXPECT_EQ(volume->release(opened), Errc::ok);
    for (u32 i = 0; i < 300; ++i)
        EXPECT_EQ(volume->unlink(anybody, volume->root(), "new" + std::to_string(i)), Errc::ok);
    EXPECT_GE(volume->statistics().blocks_free + 2, before);
    volume.close_and_check();
}

/// What needs operations of its own, or is more than one step may free, is the CPU's to remove.
TEST(ListedRemoval, leavesTreesToTheCpu) {
    using Spoil = std::function<void(ListingVolume&, Handle inner, Handle file)>;
    const std::vector<std::byte> block(4096, std::byte{3});
    const std::vector<std::pair<std::string, Spoil>> cases = {
        {"open file",
         [](auto& volume, Handle, Handle file) { EXPECT_EQ(volume->open_file(file), Errc::ok); }},
        {"another name",
         [](auto& volume, Handle, Handle file) {
             EXPECT_TRUE(volume->link(anybody, file, volume->root(), "other"));
         }},
        {"counts that are not in memory",
         [&](auto& volume, Handle inner, Handle file) {
             const Handle copy = make_file(*volume, inner, "copy");
             write_run(*volume, file, 0, 1);
             share_blocks(*volume, file, copy, 1);
             EXPECT_EQ(volume->sync(), Errc::ok);
             const core::Store& store = volume.volume.inside().store();
             for (u64 frame = 0; frame < store.frame_count; ++frame) {
                 const format::BlockPointer counts{store.frame(frame).references};
                 if (counts.raw == 0) continue;
                 EXPECT_TRUE(core::clear_bit(store.resident, counts.offset() / format::block_size));
             }
         }},
        {"many extents",
         [&](auto& volume, Handle, Handle file) {
             EXPECT_EQ(volume->open_file(file), Errc::ok);
             for (u64 i = 0; i < 9; ++i)
                 EXPECT_TRUE(volume->write(file, i * 2 * block.size(), block));
             EXPECT_EQ(volume->release(file), Errc::ok);
         }},
    };
    for (const auto& [label, spoil] : cases) {
        SCOPED_TRACE(label);
        ListingVolume volume;
        const Handle doomed = make_directory(*volume, volume->root(), "doomed");
        const Handle inner = make_directory(*volume, doomed, "inner");
        for (u32 i = 0; i < 200; ++i)
            make_file(*volume, inner, "f" + std::to_string(i));
        const Handle file = make_file(*volume, inner, "spoiled");
        spoil(volume, inner, file);
        const Removal removal = volume.remove_doomed();
        EXPECT_GE(removal.files, 201u);
        EXPECT_EQ(removal.directories, 2u);
        EXPECT_EQ(volume.listed(), 0u);
        EXPECT_EQ(volume.left(), 1u);
        EXPECT_TRUE(volume.replica.reports.empty());
        volume.expect_equal_image();
        if (label == "open file") {
            EXPECT_EQ(volume->release(file), Errc::ok);
        }
        volume.close_and_check();
    }
}

/// What changes between the list and the removal: it is listed again, and if that goes on, the CPU
/// removes the tree.
TEST(ListedRemoval, freesNothingThatHasChanged) {
    for (const u32 changes : {1, 2, 3}) {
        ListingVolume volume;
        const Handle doomed = make_directory(*volume, volume->root(), "doomed");
        const Handle inner = make_directory(*volume, doomed, "inner");
        std::vector<Handle> files;
        for (u32 i = 0; i < 200; ++i)
            files.push_back(make_file(*volume, inner, "f" + std::to_string(i)));
        u32 left = changes;
        volume.replica.reader->before_masks = [&] {
            if (left == 0) return;
            // A reference, a new name below, a name that goes elsewhere: of each the list is wrong.
            if (left == 3) {
                EXPECT_TRUE(volume->lookup(anybody, inner, "f7", Hold::yes));
            } else if (left == 2) {
                make_file(*volume, inner, "late");
            } else {
                EXPECT_EQ(volume->rename(anybody, inner, "f9", volume->root(), "saved"), Errc::ok);
            }
            --left;
        };
        const Removal removal = volume.remove_doomed();
        EXPECT_EQ(left, 0u);
        EXPECT_EQ(removal.files, changes == 1 ? 199u : 200u);
        EXPECT_EQ(removal.directories, 2u);
        EXPECT_EQ(volume.listed(), changes == 3 ? 0u : 1u);
        EXPECT_EQ(volume.replica.reader->runs, changes == 3 ? 3u : changes + 1);
        const auto saved = volume->lookup(anybody, volume->root(), "saved");
        ASSERT_TRUE(saved);
        EXPECT_EQ(saved->handle, files[9]);
        volume.expect_equal_image();
        if (changes == 3) volume->forget(files[7], 1);
        volume.close_and_check();
    }
}

/// Inodes that are not of the tree but in blocks with some of it change all the time.
TEST(ListedRemoval, goesOnBesideChangesOfOtherInodesInItsBlocks) {
    ListingVolume volume;
    const Handle other = make_file(*volume, volume->root(), "other");
    const Handle doomed = make_directory(*volume, volume->root(), "doomed");
    for (u32 i = 0; i < 200; ++i)
        make_file(*volume, doomed, "f" + std::to_string(i));
    const auto block_of = [](Handle inode) { return inode.inode / format::inodes_per_block; };
    ASSERT_EQ(block_of(other), block_of(doomed));
    volume.replica.reader->before_masks = [&] {
        EXPECT_EQ(volume->open_file(other), Errc::ok);
        EXPECT_EQ(volume->release(other), Errc::ok);
    };
    EXPECT_EQ(volume.remove_doomed().files, 200u);
    EXPECT_EQ(volume.listed(), 1u);
    EXPECT_EQ(volume.replica.reader->runs, 2u);
    EXPECT_TRUE(volume->attributes(other));
    volume.expect_equal_image();
    volume.close_and_check();
}

/// A bitmap that is not in memory is loaded by the CPU, as for any removal.
TEST(ListedRemoval, needsTheBitmapsInMemory) {
    ListingVolume volume;
    TreeBuilder builder(*volume);
    for (u32 i = 0; i < 200; ++i)
        builder.add_file(builder.root(), "f" + std::to_string(i));
    EXPECT_EQ(volume->sync(), Errc::ok);
    const u64 bitmap = builder.root().inode / format::inodes_per_frame * format::blocks_per_frame;
    EXPECT_TRUE(core::clear_bit(volume.volume.inside().store().resident, bitmap));
    EXPECT_EQ(volume.remove_doomed().files, 200u);
    EXPECT_EQ(volume.listed(), 0u);
    volume.close_and_check();
}

/// A list that contradicts itself, as of a damaged volume, frees nothing.
TEST(ListedRemoval, leavesDamagedTreesToTheCpu) {
    ListingVolume volume;
    const Handle doomed = make_directory(*volume, volume->root(), "doomed");
    const Handle file = make_file(*volume, doomed, "file");
    make_file(*volume, doomed, "other");
    const core::Store& store = volume.volume.inside().store();
    auto* const at = reinterpret_cast<format::Inode*>(store.base + file.inode * format::inode_size);
    const u32 generation = at->generation;
    at->generation = 0;
    core::note_changed(store, file.inode * format::inode_size);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::corrupt);
    EXPECT_EQ(volume.listed(), 0u);
    at->generation = generation;
    EXPECT_EQ(volume->attributes(file).code(), Errc::ok);
}

/// Whatever fails, the tree is removed, and the replica given up or not.
TEST(ListedRemoval, isTheCpusIfTheReplicaFails) {
    for (const Errc code : {Errc::io, Errc::no_memory, Errc::no_space, Errc::ok}) {
        ListingVolume volume;
        TreeBuilder builder(*volume);
        for (u32 i = 0; i < 200; ++i)
            builder.add_file(builder.root(), "f" + std::to_string(i));
        if (code == Errc::ok) {
            volume.replica.memory->fail_after(0);
        } else {
            volume.replica.reader->fails_with.store(code);
        }
        EXPECT_EQ(volume.remove_doomed().files, 200u);
        EXPECT_EQ(volume.left(), 1u);
        EXPECT_EQ(volume.replica.reports.size(), code == Errc::no_space ? 0u : 1u);
        volume.close_and_check();
    }
}

/// An allocation that fails, whichever it is, changes nothing or is made up for by the CPU.
TEST(ListedRemoval, survivesFailedAllocations) {
    u64 nth = 1;
    for (bool has_failed = true; has_failed && !HasFailure(); nth += 1 + nth / 8) {
        ListingVolume volume;
        TreeBuilder builder(*volume);
        for (u32 i = 0; i < 50; ++i)
            builder.add_file(builder.root(), "f" + std::to_string(i));
        Removal removal;
        Errc code = Errc::ok;
        {
            const FailingAllocation failing(nth);
            code = volume->remove_tree(anybody, volume->root(), "doomed", removal);
            has_failed = failing.has_failed();
        }
        EXPECT_TRUE(code == Errc::ok || code == Errc::no_memory);
        if (code == Errc::ok) {
            EXPECT_EQ(removal.files, 50u);
        }
        volume.close_and_check();
    }
    EXPECT_GT(nth, 10u);
}

/// Beside threads that work elsewhere, commit and query, and in trees that go.
TEST(ListedRemoval, runsBesideWritersAndReaders) {
    const Seed seed;
    ListingVolume volume(256 * mib);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<RandomOperations>> drivers;
    for (u32 i = 0; i < 2; ++i) {
        RandomPlan plan;
        plan.entries_max = 300;
        plan.root = make_directory(*volume, volume->root(), "own" + std::to_string(i), 040755);
        drivers.push_back(std::make_unique<RandomOperations>(*volume, seed.part(i), plan));
    }
    for (auto& driver : drivers) {
        threads.emplace_back([&] {
            while (!is_over.load(std::memory_order_relaxed) && driver->step()) {
            }
        });
    }
    std::atomic<u64> inside{0};  // the inode of the directory that goes
    threads.emplace_back([&] {
        for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
            const u64 number = inside.load();
            const Result<Handle> handle = volume->handle_of(number);
            if (number == 0 || !handle) continue;
            const Errc code =
                volume->create(anybody, *handle, "late" + std::to_string(i), {}).code();
            EXPECT_TRUE(code == Errc::ok || code == Errc::no_entry || code == Errc::stale ||
                        code == Errc::not_directory || code == Errc::exists)
                << static_cast<int>(code);
        }
    });
    const u64 files = 400;
    const u64 rounds = (is_sanitized ? 10 : 40) * test_load();
    const auto are_few = [&] { return volume.listed() <= rounds / 4; };
    for (u64 round = 0; (round < rounds || (are_few() && round < 10 * rounds)) && !HasFailure();
         ++round) {
        const Handle doomed = make_directory(*volume, volume->root(), "doomed");
        const Handle inner = make_directory(*volume, doomed, "inner");
        for (u64 i = 0; i < files; ++i)
            make_file(*volume, inner, "f" + std::to_string(i));
        inside.store(inner.inode);
        EXPECT_GE(volume.remove_doomed().files, files);
        EXPECT_EQ(volume->attributes(inner).code(), Errc::stale);
        inside.store(0);
        if (round % 4 == 0) {
            EXPECT_EQ(volume->sync(), Errc::ok);
        }
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
    for (auto& driver : drivers)
        driver->let_all_go();
    EXPECT_FALSE(are_few());
    volume.expect_equal_image();
    volume.close_and_check();
}

/// Opens volumes with a replica for tests that open them themselves.
class ListingOpener {
 public:
    std::unique_ptr<Volume> open(Disk& disk) {
        auto made = open_inside(disk, {.workers = 2});
        replicas_.push_back(std::make_unique<HostReplicaOf>(*made));
        queries()->use_only(Side::replica);
        return std::make_unique<Volume>(std::move(made));
    }
    /// Of the volume that was opened last, which is open.
    ReplicaQueries* queries() const { return replicas_.back()->queries; }
    u64 freed_trees() const { return replicas_.back()->reader->freed_trees; }

 private:
    std::vector<std::unique_ptr<HostReplicaOf>> replicas_;
};

TEST(ListedRemoval, afterRandomOperationsEqualsTheModel) {
    const Seed seed;
    u64 freed_trees = 0;
    for (u32 part = 0; (part < 4 || (freed_trees <= 2 && part < 40)) && !HasFailure(); ++part) {
        ListingOpener opener;
        const auto disk = make_memory_disk(64 * mib);
        auto volume = opener.open(*disk);
        RandomPlan plan;
        plan.entries_max = 500;
        // Of what is open, shared or large the CPU removes the tree.
        plan.opens = plan.shares = plan.large_files = part % 2 == 0;
        RandomOperations driver(*volume, seed.part(part), plan);
        ASSERT_TRUE(driver.run((is_sanitized ? 1500 : 3000) * test_load()));
        EXPECT_TRUE(driver.compare());
        driver.let_all_go();
        freed_trees += opener.freed_trees();
        EXPECT_EQ(volume->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*disk));
    }
    EXPECT_GT(freed_trees, 2u);
}

TEST(ListedRemoval, losesNothingSyncedIfThePowerIsCut) {
    const Seed seed;
    ListingOpener opener;
    const CutRecording recording =
        record_for_cuts(seed.value(), 300 * test_load(), 16 * mib,
                        [&](MemoryDisk& log) { return opener.open(log); });
    for (u64 event = seed.part(2) % volume_step;
         event <= recording.disk().event_count() && !HasFailure(); event += volume_step) {
        const auto image = recording.disk().image_after(event);
        expect_state_after(*image, recording, event);
    }
    expect_states_after_random_cuts(recording, seed.part(1));
}

/// The removal itself, cut after each write: the tree is there with all its names, or gone with all
/// its space.
TEST(ListedRemoval, isWholeOrNotBegunIfThePowerIsCut) {
    ListingOpener opener;
    const auto disk = make_memory_disk(16 * mib);
    auto volume = opener.open(*disk);
    {
        TreeBuilder builder(*volume);
        for (u32 d = 0; d < 5; ++d) {
            const Handle inner = builder.add_directory(builder.root(), "d" + std::to_string(d));
            for (u32 i = 0; i < 150; ++i)
                builder.add_file(inner, "f" + std::to_string(i));
            builder.write_blocks(builder.add_file(inner, "blocks"), 3);
        }
    }
    EXPECT_EQ(volume->sync(), Errc::ok);
    disk->start_recording();
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
    EXPECT_EQ(opener.freed_trees(), 1u);
    EXPECT_EQ(volume->close(), Errc::ok);
    disk->stop_recording();
    bool was_there = false;
    bool was_gone = false;
    for (u64 event = 0; event <= disk->event_count() && !HasFailure(); ++event) {
        const auto image = disk->image_after(event);
        expect_clean(*image);
        const auto opened = open_on(*image);
        ASSERT_NE(opened, nullptr);
        const auto doomed = opened->lookup(anybody, opened->root(), "doomed");
        if (doomed) {
            was_there = true;
            std::vector<DirectoryUsage> usage;
            EXPECT_EQ(opened->usage(anybody, doomed->handle, {}, usage), Errc::ok);
            EXPECT_EQ(usage[0].entries, 1 + 5 * 152u);
        } else {
            was_gone = true;
        }
        EXPECT_EQ(opened->close(), Errc::ok);
        expect_clean(*image);
    }
    EXPECT_TRUE(was_there && was_gone);
}

}  // namespace
}  // namespace warren::listed_removal_test

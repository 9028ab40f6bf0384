// SPDX-License-Identifier: Apache-2.0
// Trees removed on the GPU: the counts are those of the tree, the remainder of a step is linked in
// the orphan directory, and the volume copied back from the device is sound for the CPU engine.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <optional>

#include "fs/engine/cuda/launch/tree_removal.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/fs/engine/store_copies.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren::tree_removal_test {
namespace {

using cuda_engine::RemovalShape;

class TreeRemovalTest : public testing::Test {
 protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
            GTEST_SKIP() << "there is no GPU";
        }
    }
};

struct Conditions {
    std::optional<RemovalShape> shape = {};  // else as many warps as the journal has room for
    bool is_warm = true;                     // all metadata are in memory
    bool keeps_journal_room = true;          // else there is no limit
    bool has_free_blocks = true;             // in frames of metadata
    u64 free_frames = ~u64{0};               // at most
};

/// A volume in device memory whose tree "doomed" is linked in the orphan directory.
class DeviceRemoval : public cuda_engine::BulkHost {
 public:
    DeviceRemoval(const TreeRecipe& recipe, const Conditions& conditions)
        : disk_(make_memory_disk(recipe.size_bytes)) {
        {
            const auto volume = open_on(*disk_, {.engine = EngineChoice::cpu});
            tree_ = recipe.build(*volume);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        volume_ = open_inside(*disk_);
        if (conditions.is_warm) load_all();
        if (!conditions.keeps_journal_room) volume_->store().state->journal_room = u64{1} << 40;
        root_ = detach_doomed(*volume_, tree_);
        if (!conditions.has_free_blocks) reserve_blocks();
        hide_frames(conditions.free_frames);
        EXPECT_EQ(device_.open(volume_->store()), Errc::ok);
        const RemovalShape shape =
            conditions.shape.value_or(cuda_engine::removal_shape_for(volume_->store()));
        EXPECT_EQ(removal_.open(shape), Errc::ok);
    }

    Errc bring(const std::vector<u64>& places) override {
        brought_ += places.size();
        for (const u64 place : places) {
            WARREN_TRY(volume_->loader().load(place));
            WARREN_TRY(device_.show_block(place));
        }
        return Errc::ok;
    }
    Errc commit() override {
        WARREN_TRY(download(volume_->store(), device_.store()));
        WARREN_TRY(volume_->commit());
        return upload_tables(volume_->store(), device_.store());
    }
    Errc remove_leftovers(u64 /*directory*/, u64& /*files*/) override { return Errc::canceled; }

    Errc remove_by_names(u64 /*directory*/, Removal& /*removal*/) override {
        ++left_to_commands_;
        return Errc::canceled;
    }

    /// Removes the tree on the device; then the host has the volume again, which must be sound.
    void run() {
        Removal removal;
        const Errc removed = removal_.remove(device_.store(), root_, *this, removal);
        EXPECT_TRUE(removed == Errc::ok || removed == Errc::canceled) << static_cast<int>(removed);
        const bool is_whole = removed == Errc::ok;
        EXPECT_EQ(download(volume_->store(), device_.store()), Errc::ok);
        EXPECT_LE(removal.files, tree_.files);
        if (is_whole) {
            EXPECT_EQ(removal.files, tree_.files);
            EXPECT_EQ(removal.directories, tree_.directories);
        }
        if (!tree_.to_open.empty()) {
            EXPECT_FALSE(is_whole);
        }
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        if (!expect_clean(*disk_)) return;
        const auto again = open_on(*disk_, {.engine = EngineChoice::cpu});
        expect_counts_agree(*again);
        EXPECT_EQ(list_names(*again, again->root()).count("doomed"), 0u);
        if (tree_.others != 0) {
            const Result<Attributes> others = again->lookup(anybody, again->root(), "others");
            EXPECT_TRUE(others);
            EXPECT_EQ(list_names(*again, others->handle).size(), tree_.others);
        }
        EXPECT_EQ(again->close(), Errc::ok);
        expect_clean(*disk_);
    }

    u32 steps() const { return removal_.steps(); }
    u64 brought() const { return brought_; }
    u32 left_to_commands() const { return left_to_commands_; }

 private:
    void load_all() {
        const core::Store& store = volume_->store();
        for (u64 frame = 0; frame < store.frame_count; ++frame) {
            const format::FrameKind kind = core::kind_of(store, frame);
            if (kind != format::FrameKind::inodes && kind != format::FrameKind::metadata) continue;
            for (u64 block = 0; block < format::blocks_per_frame; ++block) {
                const u64 place = frame * format::frame_size + block * format::block_size;
                EXPECT_EQ(volume_->loader().load(place), Errc::ok);
            }
        }
    }

    /// Makes all free blocks of metadata block groups look reserved.
    void reserve_blocks() {
        const core::Store& store = volume_->store();
        for (u64 frame = 0; frame < store.frame_count; ++frame) {
            if (core::kind_of(store, frame) != format::FrameKind::metadata) continue;
            std::fill_n(store.overlays[frame].reserved, 8, ~u64{0});
        }
    }
    /// Makes all free block groups but the first `count` look taken.
    void hide_frames(u64 count) {
        const core::Store& store = volume_->store();
        for (u64 frame = 0; frame < store.frame_count; ++frame) {
            if (!core::test_bit(store.frames_free, frame)) continue;
            if (count > 0) {
                --count;
            } else if (core::clear_bit(store.frames_free, frame)) {
                --store.state->free_frames;
            }
        }
    }

    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<VolumeImplementation> volume_;
    cuda_engine::DeviceStore device_;
    cuda_engine::TreeRemoval removal_;
    DoomedTree tree_;
    u64 root_ = 0;
    u64 brought_ = 0;
    u32 left_to_commands_ = 0;
};

void remove_all(const std::vector<TreeRecipe>& recipes, const Conditions& conditions) {
    for (const TreeRecipe& recipe : recipes) {
        SCOPED_TRACE(recipe.label);
        DeviceRemoval(recipe, conditions).run();
        if (testing::Test::HasFailure()) return;
    }
}

TEST_F(TreeRemovalTest, SmallTrees) {
    remove_all(small_trees(), {});
}

TEST_F(TreeRemovalTest, OneWarp) {
    remove_all(small_trees(), {.shape = RemovalShape{.blocks = 1, .warps_per_block = 1}});
}

TEST_F(TreeRemovalTest, ColdTrees) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        DeviceRemoval removal(recipe, {.is_warm = false});
        removal.run();
        EXPECT_GT(removal.brought() + (recipe.label == "empty" ? 1 : 0), 0u);
    }
}

TEST_F(TreeRemovalTest, LargeTrees) {
    const std::vector<TreeRecipe> recipes = {
        {"deep", 256 * mib, [](Volume& volume) { return build_deep(volume, 1000); }},
        {"wide", 256 * mib, [](Volume& volume) { return build_flat(volume, 1, 10'000, true); }},
        {"mix", 256 * mib, [](Volume& volume) { return build_flat(volume, 100, 100, true); }},
        {"files", 256 * mib, [](Volume& volume) { return build_flat(volume, 50, 1000, false); }},
        {"one", 256 * mib, [](Volume& volume) { return build_flat(volume, 1, 60'000, false); }},
    };
    remove_all(recipes, {.keeps_journal_room = false});
    remove_all(recipes, {});
}

/// Pointer jumping visits all directories of the volume, and selects only those of the tree.
TEST_F(TreeRemovalTest, DeepAmongOthers) {
    remove_all({{"deep among others", 512 * mib,
                 [](Volume& volume) { return build_deep_among(volume, 1000, 100'000); }}},
               {});
}

TEST_F(TreeRemovalTest, SmallQueueSpills) {
    const Conditions conditions{
        .shape = RemovalShape{.blocks = 2, .warps_per_block = 1, .queue_capacity = 128}};
    remove_all(small_trees(), conditions);
    DeviceRemoval removal(
        {"parents", 64 * mib, [](Volume& volume) { return build_flat(volume, 300, 2, false); }},
        conditions);
    removal.run();
    EXPECT_GT(removal.steps(), 1u);
}

TEST_F(TreeRemovalTest, WhatIsLeftFindsRoomInAFrameThatWasHeld) {
    const TreeRecipe recipe{"parents", 64 * mib,
                            [](Volume& volume) { return build_flat(volume, 2000, 1, false); }};
    DeviceRemoval removal(
        recipe, {.shape = RemovalShape{.blocks = 2, .warps_per_block = 1, .queue_capacity = 128},
                 .has_free_blocks = false,
                 .free_frames = 1});
    removal.run();
    EXPECT_GT(removal.steps(), 1u);
    EXPECT_EQ(removal.left_to_commands(), 1u);  // then there is no other frame
}

TEST_F(TreeRemovalTest, BeginsNothingWithoutRoomForWhatMayBeLeft) {
    DeviceRemoval removal(small_trees().back(), {.has_free_blocks = false, .free_frames = 0});
    removal.run();
    EXPECT_EQ(removal.left_to_commands(), 1u);
}

TEST_F(TreeRemovalTest, RandomTrees) {
    for (u64 seed = 1; seed <= 20; ++seed) {
        const TreeRecipe recipe{"random " + std::to_string(seed), 64 * mib, [seed](Volume& volume) {
                                    return build_random(volume, seed, 1500);
                                }};
        remove_all({recipe}, {.is_warm = seed % 3 != 0});
        if (testing::Test::HasFailure()) return;
    }
}

}  // namespace
}  // namespace warren::tree_removal_test

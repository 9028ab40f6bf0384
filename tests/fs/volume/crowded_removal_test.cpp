// SPDX-License-Identifier: Apache-2.0
// A tree is removed while other threads change so much that after each commit for the removal's
// next step the journal is full again before the step starts. The removal must still end.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "fs/ops/remove_tree.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::crowded_removal_test {
namespace {

/// Makes changes as soon as a commit has taken its snapshot: during its flushes.
class CrowdedDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc flush() override {
        if (executor) executor();
        return fails ? Errc::io : PassingDisk::flush();
    }
    std::function<void()> executor;
    bool fails = false;
};

TEST(CrowdedRemoval, comesToAnEndThoughNoCommitGivesItsStepsRoom) {
    constexpr u32 workers = 8;  // a step reserves credits for each
    const auto memory = make_memory_disk(16 * mib);
    auto owned = std::make_unique<CrowdedDisk>(*memory);
    CrowdedDisk& disk = *owned;
    VolumeImplementation* implementation = nullptr;
    Failure failure;
    const auto volume =
        open_on_engine(std::move(owned), "cpu", {.workers = workers}, failure, ~u64{0},
                       [&](VolumeImplementation& opened) { implementation = &opened; });
    ASSERT_TRUE(volume) << failure.message;
    const Handle others = make_directory(*volume, volume->root(), "others");
    std::set<u64> blocks;
    std::vector<Handle> executor;
    for (u32 i = 0; blocks.size() < 80; ++i) {
        const Handle file = make_file(*volume, others, "other" + std::to_string(i));
        if (blocks.insert(file.inode / format::inodes_per_block).second) executor.push_back(file);
    }
    Handle at = volume->root();
    for (u32 i = 0; i < 10; ++i) {
        at = make_directory(*volume, at, "tree");
        for (u32 k = 0; k < 20; ++k)
            make_file(*volume, at, "file" + std::to_string(k));
    }
    ASSERT_EQ(volume->sync(), Errc::ok);

    const core::StoreState& state = *implementation->store().state;
    const u64 room = relaxed_load(state.journal_room);
    // Enough that operations still find journal room, and removal steps do not.
    const u64 crowded = room - core::journal_room_min;
    ASSERT_GT(crowded + room / 4 + ops::dirtied_when_full(implementation->store(), workers), room);
    u64 commits = 0;
    disk.executor = [&] {
        ++commits;
        // If the removal does not end by itself it gets an error.
        if (commits > 10'000) disk.fails = true;
        AttributeChange touch;
        touch.which = AttributeChange::modified;
        for (const Handle file : executor) {
            if (relaxed_load(state.dirty_blocks) >= crowded) break;
            touch.new_modified = static_cast<i64>(commits);
            EXPECT_TRUE(volume->set_attributes(anybody, file, touch));
        }
    };
    ASSERT_EQ(volume->sync(), Errc::ok);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    disk.executor = {};
    EXPECT_GT(commits, ops::roomless_commits_max);
    EXPECT_EQ(removal.files, 200u);
    EXPECT_EQ(removal.directories, 10u);
    EXPECT_EQ(list_names(*volume, volume->root()).size(), 1u);
    expect_counts_agree(*volume);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*memory));
}

}  // namespace
}  // namespace warren::crowded_removal_test

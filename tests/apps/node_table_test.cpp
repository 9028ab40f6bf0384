// SPDX-License-Identifier: Apache-2.0
// The kernel's references to an inode, of which it may take any number, and the references that the
// volume counts for them, in 32 bits.
#include "apps/fuse/node_table.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.hpp"
#include "fs/ops/references.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/apps/starved_mount.hpp"
#include "tests/support/seed.hpp"

namespace warren::fuse::test::node_table_test {
namespace {

TEST(NodeTable, TheVolumeCountsFewReferencesForThoseOfTheKernel) {
    const Seed seed;
    Random random(seed.value());
    NodeTable nodes({16, 1});
    struct File {
        u64 of_kernel = 0;
        u64 of_volume = 0;
    };
    std::vector<File> files(8);
    for (int step = 0; step < 100'000; ++step) {
        const u64 which = random.below(files.size());
        const Handle handle{100 + which, 7};
        File& file = files[which];
        if (random.one_in(200)) {
            const u64 count = 1 + random.below(file.of_kernel + 1);
            if (const auto gone = nodes.forget(handle.inode, count)) {
                EXPECT_EQ(gone->handle, handle);
                ASSERT_LE(gone->held, file.of_volume);
                file.of_volume -= gone->held;
            }
            file.of_kernel -= std::min(count, file.of_kernel);
        } else {
            NodeTable::prepare();
            Attributes attributes;
            attributes.handle = handle;
            const NodeTable::Remembered remembered = nodes.remember(attributes);
            EXPECT_EQ(remembered.generation, 7u);
            ++file.of_kernel;
            file.of_volume += 1;
            ASSERT_LE(remembered.surplus, file.of_volume);
            file.of_volume -= remembered.surplus;
        }
        ASSERT_EQ(file.of_volume != 0, file.of_kernel != 0) << step;
        ASSERT_LT(file.of_volume, NodeTable::held_max) << step;
        ASSERT_EQ(nodes.find(handle.inode).has_value(), file.of_kernel != 0) << step;
    }
}

TEST(NodeTable, ANumberThatIsUsedAgainIsHeldAnew) {
    NodeTable nodes({16, 1});
    Attributes attributes;
    for (const u32 generation : {1u, 2u}) {
        attributes.handle = {100, generation};
        for (u32 i = 0; i + 2 < NodeTable::held_max; ++i) {
            NodeTable::prepare();
            EXPECT_EQ(nodes.remember(attributes).surplus, 0u);
        }
    }
    EXPECT_FALSE(nodes.forget(100, NodeTable::held_max));
    const auto gone = nodes.forget(100, ~u64{0});
    ASSERT_TRUE(gone);
    EXPECT_EQ(gone->handle, (Handle{100, 2}));
    EXPECT_EQ(gone->held, NodeTable::held_max - 2);
}

/// Look-ups by the kernel when the volume's count for the file is nearly at its maximum.
TEST(NodeTable, LookUpsOfTheKernelNeverRunIntoTheCountOfOpens) {
    const auto disk = make_memory_disk(volume_bytes);
    Failure failure;
    VolumeImplementation* inside = nullptr;
    auto opened =
        open_on_engine(std::make_unique<UncountedDisk>(*disk), "cpu", {.workers = 1}, failure,
                       ~u64{0}, [&](VolumeImplementation& volume) { inside = &volume; });
    ASSERT_TRUE(opened) << failure.message;
    const Handle file = make_file(*opened, opened->root(), "file");
    const auto* inode = reinterpret_cast<const format::Inode*>(inside->store().base +
                                                               file.inode * format::inode_size);
    constexpr u64 before = ops::lookups_mask - 2 * NodeTable::held_max;
    ASSERT_TRUE(inside->ask<ops::Verb::get_attributes>([&](ops::Command& command) {
        command.handle = file;
        command.references = before;
    }));
    {
        DamageLog damage("image");
        MountState state(std::move(opened), Mount::options(), {}, damage);
        FakeKernel kernel(state);
        LateSeeker seeker(kernel.session());
        state.late_seeker = &seeker;
        for (int i = 0; i < 1000; ++i)
            ASSERT_NE(kernel.look_up(root, "file"), 0u) << i;
        EXPECT_GT(inode->references, before);
        EXPECT_LE(inode->references, before + NodeTable::held_max);
        kernel.give_back();
        EXPECT_EQ(inode->references, before);
        state.volume.access()->forget(file, before);
        EXPECT_EQ(inode->references, 0u);
        EXPECT_EQ(state.volume.close(), Errc::ok);
    }
    EXPECT_TRUE(expect_clean(*disk));
}

}  // namespace
}  // namespace warren::fuse::test::node_table_test

// SPDX-License-Identifier: Apache-2.0
// Removal of trees that a replica lists and of which files share blocks: the same as a removal by
// the CPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/fs/volume/listing_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::listed_sharing_test {
namespace {

/// Blocks that others have too, in the tree and outside of it: the counts say which are freed.
TEST(ListedSharing, dropsReferences) {
    const Seed seed;
    Random random(seed.value());
    for (u32 round = 0; round < 4; ++round) {
        ListingVolume volume;
        MemoryVolume by_cpu(64 * mib, {.workers = 2});
        const u64 choices = random.next();
        const auto build = [&](Volume& on) {
            Random choice(choices);
            TreeBuilder builder(on);
            const Handle outside = make_directory(on, on.root(), "outside");
            std::vector<Handle> files;
            for (u32 i = 0; i < 300; ++i) {
                const std::string name = "f" + std::to_string(i);
                const Handle file = builder.add_file(builder.root(), name);
                write_run(on, file, 0, 1 + choice.below(3));
                if (choice.below(3) == 0) share_blocks(on, file, make_file(on, outside, name), 2);
                if (!files.empty() && choice.below(3) == 0) {
                    share_blocks(on, files[choice.below(files.size())], file, 1);
                }
                if (choice.below(4) == 0) write_run(on, file, 4, 1);
                files.push_back(file);
            }
            EXPECT_EQ(on.sync(), Errc::ok);
        };
        build(*volume);
        build(*by_cpu);
        const u64 before = volume->statistics().blocks_free;
        const Removal removal = volume.remove_doomed();
        EXPECT_EQ(volume.listed(), 1u);
        const u64 freed = volume->statistics().blocks_free - before;
        EXPECT_LE(removal.blocks > freed ? removal.blocks - freed : freed - removal.blocks, 1u)
            << "but for a leaf of the orphan directory";
        Removal wanted;
        EXPECT_EQ(by_cpu->remove_tree(anybody, by_cpu->root(), "doomed", wanted), Errc::ok);
        EXPECT_EQ(removal.files, wanted.files);
        expect_same_space(*volume, *by_cpu);
        volume.expect_equal_image();
        volume.close_and_check();
        by_cpu.close_and_check();
    }
}

}  // namespace
}  // namespace warren::listed_sharing_test

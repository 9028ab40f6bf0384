// SPDX-License-Identifier: Apache-2.0
// The name once named an empty directory, whose inode number was reused for `top`.
#include "tests/support/directory_circle.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "fs/format/directory.hpp"
#include "tests/support/block_history.hpp"
#include "tests/support/memory_volume.hpp"
#include "warren/volume.hpp"

namespace warren {

std::unique_ptr<MemoryDisk> make_directory_circle() {
    auto disk = make_memory_disk(16 * mib);
    disk->start_recording();
    const auto volume = open_on(*disk, {.workers = 1, .engine = EngineChoice::cpu});
    const Caller nobody{.check = false};
    const Caller owner{.user = 1000, .group = 1000, .check = false};
    const auto make = [&](Handle in, const char* name, u32 mode) {
        const auto made = volume->create(owner, in, name, {.mode = mode});
        EXPECT_TRUE(made) << name;
        return made ? made->handle : Handle{};
    };
    const auto sync_twice = [&] {
        EXPECT_EQ(volume->sync(), Errc::ok);
        EXPECT_EQ(volume->sync(), Errc::ok);
    };
    const Handle root = volume->root();
    const Handle middle = make(root, "middle", 0040755);
    const Handle low = make(middle, "low", 0040755);
    const Handle empty = make(low, "empty", 0040755);
    make(low, "file", 0100644);
    sync_twice();
    EXPECT_EQ(volume->remove_directory(nobody, low, "empty"), Errc::ok);
    sync_twice();
    const Handle top = make(root, "top", 0040755);
    EXPECT_EQ(top.inode, empty.inode);
    EXPECT_EQ(volume->rename(nobody, root, "middle", top, "middle"), Errc::ok);
    EXPECT_EQ(volume->close(), Errc::ok);
    disk->stop_recording();
    const auto contents = earlier_contents(*disk);
    const auto with_name = std::ranges::find_if(contents, [&](const EarlierContent& content) {
        const auto& leaf = reinterpret_cast<const format::DirectoryLeaf&>(content.block);
        return content.kind == format::BlockKind::directory_leaf &&
               leaf.header.owner == low.inode && leaf.count == 2;
    });
    EXPECT_NE(with_name, contents.end());
    if (with_name != contents.end()) put_back(*disk, *with_name);
    return disk;
}

}  // namespace warren

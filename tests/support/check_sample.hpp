// SPDX-License-Identifier: Apache-2.0
// A volume with at least one object of each kind, for tests that damage it and examine what a check
// reports. It is built without the engine, so that a bug of the engine cannot hide one here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "fs/check/check.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/frame.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/two_looks.hpp"

namespace warren::test {

using format::Block;
using format::block_size;
using format::BlockPointer;
using format::DirectoryLeaf;
using format::DirectorySlot;
using format::Inode;

/// Checks the volume, in both ways if the disk does not count its reads.
inline Outcome check(Disk& disk, bool repair = false) {
    if (dynamic_cast<MemoryDisk*>(&disk) != nullptr) expect_equal_looks(disk);
    return check_once(disk, repair, false);
}

/// A volume with an object of each kind, in trees with several levels.
class CheckTest : public testing::Test {
 public:
    CheckTest() : image(16 * mib) {
        image.limits = {4, 3, 3, 2};
        const u64 root = image.root();
        directory = image.add_directory(root, "directory");
        for (int i = 0; i < 40; ++i) {
            const std::string name = "file-" + std::to_string(i);
            small.push_back(image.add_file(directory, name, "contents of " + name));
        }
        parent = image.add_directory(root, "parent");
        child = image.add_directory(parent, "child");
        grandchild = image.add_directory(child, "grandchild");
        text = image.add_file(root, "text", std::string(1000, 't'));
        image.add_name(directory, "text-again", text);
        sparse = image.add_runs(root, "sparse", 60 * block_size - 5, runs());
        few = image.add_runs(grandchild, "few", 3 * block_size, {{0, 1}, {2, 1}, {9, 2, true}});
        image.add_link(root, "link", "text");
        long_link = image.add_link(root, "long-link", std::string(300, 'l'));
        image.add_node(root, "device", format::type_character | 0600, 1u << 20 | 3);
        image.add_node(parent, "fifo", format::type_fifo | 0600, 0);
        image.set_attribute(text, "user.note", "some value");
        image.set_attribute(text, "user.other", "");
        image.set_attribute(directory, "user.note", std::string(500, 'v'));
        image.add_orphan("unlinked but open");
        image.finish();
    }

    static std::vector<FileRun> runs() {
        std::vector<FileRun> all;
        for (u32 i = 0; i < 20; ++i)
            all.push_back({i * 3, 1 + i % 2, i % 5 == 0});
        return all;
    }
    MemoryDisk& disk() { return image.disk(); }
    ImageEditor editor() { return ImageEditor(disk()); }

    /// The address of the leftmost leaf or, for a height above 0, node of an inode's tree.
    u64 tree_block(u64 number, u32 height) {
        ImageEditor edit = editor();
        const Inode inode = edit.inode(number);
        u64 place = inode.area.pairs[0].child.offset();
        for (u32 at = inode.height - 1u; at > height; --at) {
            const Block block = edit.read(place);
            place = reinterpret_cast<const format::TreeNode&>(block).pairs[0].child.offset();
        }
        return place;
    }

    template <class T>
    void change_block(u64 place, const std::function<void(T&)>& change) {
        ImageEditor edit = editor();
        Block block = edit.read(place);
        change(reinterpret_cast<T&>(block));
        edit.write(place, block);
    }
    void change_inode(u64 number, const std::function<void(Inode&)>& change) {
        ImageEditor edit = editor();
        Inode inode = edit.inode(number);
        change(inode);
        edit.set_inode(number, inode);
    }

    /// Whatever damage a test has done: the check finds it and writes nothing; a repair mends it.
    void expect_found_and_repaired(const std::string& line) {
        disk().start_recording();
        const Outcome found = check(disk());
        EXPECT_EQ(disk().event_count(), 0u) << "a check without repair has written";
        EXPECT_EQ(found.failure.code, Errc::ok) << found.all();
        EXPECT_GT(found.result.problems, 0u);
        EXPECT_TRUE(found.says(line)) << "instead of '" << line << "':\n" << found.all();
        EXPECT_EQ(found.result.repaired, 0u);
        const Outcome repaired = check(disk(), true);
        EXPECT_EQ(repaired.failure.code, Errc::ok) << repaired.all();
        EXPECT_EQ(repaired.result.problems, found.result.problems) << repaired.all();
        EXPECT_EQ(repaired.result.repaired, repaired.result.problems) << repaired.all();
        expect_clean(disk());
    }

    /// Searches each leaf of a directory for `name`.
    bool has_name(u64 number, const std::string& name) {
        bool found = false;
        for_each_leaf(number, [&](const DirectoryLeaf& leaf) {
            for (const DirectorySlot slot : leaf.slots) {
                const char* heap = reinterpret_cast<const char*>(leaf.heap);
                found =
                    found || (slot.inode() != 0 &&
                              name == std::string(heap + slot.name_offset(), slot.name_length()));
            }
        });
        return found;
    }
    u64 count_names(u64 number) {
        u64 count = 0;
        for_each_leaf(number, [&](const DirectoryLeaf& leaf) { count += leaf.count; });
        return count;
    }
    void for_each_leaf(u64 number, const std::function<void(const DirectoryLeaf&)>& visit) {
        ImageEditor edit = editor();
        for (u64 place = 0; place < image.superblock().size_bytes; place += block_size) {
            const Block block = edit.read(place);
            const auto& leaf = reinterpret_cast<const DirectoryLeaf&>(block);
            const bool is_leaf =
                leaf.header.kind == static_cast<u16>(format::BlockKind::directory_leaf) &&
                leaf.header.owner == number && leaf.header.place == place;
            if (is_leaf && is_used(edit, place)) visit(leaf);
        }
    }
    bool is_used(ImageEditor& edit, u64 place) {
        const Block block = edit.read(image.superblock().frame_table_offset);
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
        const u64 bit = place / block_size % format::blocks_per_frame;
        return (table.entries[place / format::frame_size].used[bit / 64] >> bit % 64 & 1) != 0;
    }

    ImageBuilder image;
    u64 directory = 0, parent = 0, child = 0, grandchild = 0;
    u64 text = 0, sparse = 0, few = 0, long_link = 0;
    std::vector<u64> small;
};

}  // namespace warren::test

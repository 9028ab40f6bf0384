// SPDX-License-Identifier: Apache-2.0
// remove_many() against unlink() and remove_directory() one by one: names removed in place,
// directories that are rewritten or lose all names, directories that become empty within the call,
// and the contents of the files, which must be free afterwards.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fs/volume/batch_twins.hpp"

namespace warren::remove_many_test {
namespace {

TEST(RemoveMany, RemoveFewFilesWhereTheyLie) {
    BatchTwins twins(512 * mib);
    for (u32 i = 0; i < 3; ++i)
        twins.add_directory(0, "directory" + std::to_string(i), 0755, root_user);
    twins.create(root_user, files_to(1, 1, 1, 0, 2000));
    twins.create(root_user, files_to(2, 2, 1, 0, 40));
    const u64 blocks = twins.blocks(1);
    ASSERT_GT(blocks, 20u);
    twins.remove(root_user, files_to(1, 1, 1, 100, 200));
    EXPECT_EQ(twins.blocks(1), blocks) << "it was written anew";
    // Some are gone already, and one is named twice.
    std::vector<BatchTwins::Item> items = files_to(1, 1, 1, 150, 300);
    items[90].name = items[70].name;
    twins.remove(root_user, items);
    EXPECT_EQ(twins.blocks(1), blocks);
    twins.remove(root_user, files_to(2, 2, 1, 0, 40));
    EXPECT_EQ(twins.blocks(2), 0u);
    twins.end();
}

TEST(RemoveMany, RemoveAllFilesOfADirectory) {
    // Trees of one leaf, of several, and with nodes; even numbers are removed in place.
    for (const u32 count : {16u, 77u, 300u, 1000u, 1001u, 5000u}) {
        SCOPED_TRACE(count);
        BatchTwins twins(512 * mib);
        twins.add_directory(0, "one", 0755, root_user);
        twins.create(root_user, files_to(1, 1, 1, 0, count));
        twins.remove(root_user, files_to(1, 1, 1, 0, count));
        EXPECT_EQ(twins.blocks(1), 0u);
        std::vector<BatchTwins::Item> items(1);
        items[0].name = "one";
        items[0].mode = 040755;
        twins.remove(root_user, items);
        twins.end();
    }
}

/// Several leaves become empty, but not all of them.
TEST(RemoveMany, RemoveAllFilesButAFew) {
    for (const u32 count : {300u, 1000u}) {
        SCOPED_TRACE(count);
        BatchTwins twins(512 * mib);
        twins.add_directory(0, "one", 0755, root_user);
        twins.create(root_user, files_to(1, 1, 1, 0, count));
        twins.remove(root_user, files_to(1, 1, 1, 2, count));
        twins.compare();
        if (twins.makes_batches()) {
            EXPECT_EQ(twins.blocks(1), 1u) << "it was not written anew";
        } else {
            EXPECT_LE(twins.blocks(1), 3u);  // two leaves at most, and the node above
        }
        twins.remove(root_user, files_to(1, 1, 1, 0, count));
        EXPECT_EQ(twins.blocks(1), 0u);
        twins.end();
    }
}

/// A directory can be removed only if its entries came before it in the same call.
TEST(RemoveMany, RemoveDirectoriesInOrder) {
    BatchTwins twins(512 * mib);
    std::vector<BatchTwins::Item> items;
    for (u32 i = 0; i < 40; ++i) {
        // Each inside the previous one, then in the root.
        const u32 in = i < 20 ? i : 0;
        twins.add_directory(in, "directory" + std::to_string(i), 0755, root_user);
        twins.create(root_user, files_to(i + 1, i + 1, 1, 0, 30));
    }
    const auto add = [&](u32 in, const std::string& name, u32 mode) {
        items.push_back({in, 0, name, "", mode});
    };
    for (u32 i = 40; i-- > 0;) {
        const std::string name = "directory" + std::to_string(i);
        const u32 in = i < 20 ? i : 0;
        if (i % 3 == 0) add(in, name, 040755);  // not empty yet
        for (u32 file = 0; file < 30; ++file)
            add(i + 1, "file" + std::to_string(file), 0100644);
        add(in, name, i % 7 == 0 ? 0100644u : 040755u);  // sometimes as what it is not
    }
    twins.remove(root_user, items);
    twins.compare();
    items.clear();
    for (u32 i = 40; i-- > 0;)
        add(i < 20 ? i : 0, "directory" + std::to_string(i), 040755);
    twins.remove(root_user, items);
    twins.compare();
    twins.end();
}

/// Files of all kinds in turn, each with other contents.
class Kinds {
 public:
    explicit Kinds(Volume& volume) : volume_(volume) {
        in_ = make("in", 040755, {});
        other_ = make("other", 040755, {});
    }

    /// Creates `count` files, each kind in turn.
    void fill(u32 count) {
        for (u32 i = 0; i < count; ++i) {
            names_.push_back("file" + std::to_string(i));
            make_kind(i % 6, names_.back());
        }
    }
    std::vector<Errc> remove() {
        std::vector<Unlink> names;
        for (const std::string& name : names_)
            names.push_back({in_, name});
        std::vector<Errc> results(names.size(), Errc::io);
        volume_.remove_many(root_user, names, results);
        return results;
    }
    /// Removes what keeps files alive: other names, and opens.
    void let_go() {
        for (const std::string& name : linked_)
            EXPECT_EQ(volume_.unlink(root_user, other_, name), Errc::ok) << name;
        for (const Handle file : open_) {
            EXPECT_EQ(volume_.attributes(file)->links, 0u);
            EXPECT_EQ(volume_.release(file), Errc::ok);
        }
        for (const Handle file : held_)
            volume_.forget(file, 1);
    }
    Handle in() const { return in_; }

 private:
    Handle make(const std::string& name, u32 mode, const CreateOptions& options) {
        CreateOptions chosen = options;
        chosen.mode = mode;
        const Handle in = name.starts_with("file") ? in_ : volume_.root();
        const auto made = volume_.create(root_user, in, name, chosen);
        EXPECT_TRUE(made) << name;
        return made ? made->handle : Handle{};
    }

    void make_kind(u32 kind, const std::string& name) {
        const std::string target(300, 't');
        const std::vector<std::byte> bytes(20'000 + 4096 * names_.size(), std::byte{7});
        const Handle file = kind == 1   ? make(name, 0120777, {.target = target})
                            : kind == 2 ? make(name, 0100644, {.hold = Hold::yes})
                                        : make(name, 0100644, {.open = kind == 0 || kind == 4});
        if (kind == 0 || kind == 4) {
            EXPECT_TRUE(volume_.write(file, 0, bytes));
        }
        if (kind == 0) {
            EXPECT_EQ(volume_.release(file), Errc::ok);
        }
        if (kind == 2) held_.push_back(file);
        if (kind == 3) {
            EXPECT_TRUE(volume_.link(root_user, file, other_, name));
            linked_.push_back(name);
        }
        if (kind == 4) open_.push_back(file);
        if (kind == 5) {
            EXPECT_EQ(
                volume_.set_attribute(root_user, file, "user.kind", std::span(bytes).first(9)),
                Errc::ok);
        }
    }

    Volume& volume_;
    Handle in_;
    Handle other_;
    std::vector<std::string> names_;
    std::vector<std::string> linked_;
    std::vector<Handle> open_;
    std::vector<Handle> held_;
};

TEST(RemoveMany, GiveBackAllThatRemovedFilesHeld) {
    for (const u32 count : {60u, 61u}) {
        MemoryVolume volume(512 * mib, {.workers = 2});
        Kinds kinds(*volume);
        ASSERT_EQ(volume->sync(), Errc::ok);
        const Statistics before = volume->statistics();
        kinds.fill(count);
        ASSERT_EQ(volume->sync(), Errc::ok);
        for (const Errc result : kinds.remove())
            EXPECT_EQ(result, Errc::ok);
        for (const Errc result : kinds.remove())
            EXPECT_EQ(result, Errc::no_entry);
        EXPECT_EQ(volume->statistics().inodes_used, before.inodes_used + 20);
        kinds.let_go();
        ASSERT_EQ(volume->sync(), Errc::ok);
        EXPECT_EQ(volume->statistics().inodes_used, before.inodes_used);
        // Directories without leaves keep no block; inode groups stay.
        EXPECT_GE(volume->statistics().blocks_free + 1, before.blocks_free);
        EXPECT_EQ(volume->attributes(kinds.in())->blocks, 0u);
        volume.close_and_check();
    }
}

}  // namespace
}  // namespace warren::remove_many_test

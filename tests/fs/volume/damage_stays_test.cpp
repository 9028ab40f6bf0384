// SPDX-License-Identifier: Apache-2.0
// Damaged metadata and unreadable blocks affect only the object that they belong to: access to it
// returns an error and never another object's bytes; everything else stays usable, writes included.
#include <map>
#include <string>

#include "tests/support/check_sample.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::test::damage_stays_test {
namespace {

/// A volume's answers about one path: error codes, and the contents.
std::string answers_about(Volume& volume, const std::string& path) {
    const Result<Attributes> found = resolve(volume, anybody, path);
    if (!found) return "resolve " + std::to_string(static_cast<int>(found.code()));
    const u32 type = found->mode & 0170000;
    std::string text = std::to_string(found->mode) + " " + std::to_string(found->size);
    const auto add = [&](Errc code) { text += " " + std::to_string(static_cast<int>(code)); };
    if (type == 0100000) {
        std::vector<char> bytes(found->size);
        add(volume.open_file(found->handle));
        add(volume.read(found->handle, 0, std::as_writable_bytes(std::span(bytes))).code());
        add(volume.release(found->handle));
        text += std::to_string(std::hash<std::string_view>()({bytes.data(), bytes.size()}));
    } else if (type == 0120000) {
        add(volume.read_link(found->handle).code());
    } else if (type == 0040000) {
        add(volume.read_directory(found->handle, 0, [](const DirectoryEntry&) { return true; }));
    }
    add(volume.list_attributes(found->handle, {}).code());
    return text;
}

class DamageStays : public CheckTest {
 protected:
    DamageStays() {
        const auto volume = open_on(disk(), {.workers = 1});
        collect(*volume, volume->root(), "");
        for (auto& [path, answers] : sound_)
            answers = answers_about(*volume, path);
        EXPECT_EQ(volume->close(), Errc::ok);
    }

    /// The damage is in place: only these paths and those below them return errors.
    void expect_only(const std::vector<std::string>& damaged) {
        const auto copy = disk().copy();
        const auto volume = open_on(*copy, {.workers = 1});
        ASSERT_TRUE(volume);
        u64 changed = 0;
        for (const auto& [path, wanted] : sound_) {
            const std::string found = answers_about(*volume, path);
            const bool may_change = std::ranges::any_of(
                damaged, [&](const std::string& one) { return path.starts_with(one); });
            EXPECT_TRUE(found == wanted || may_change) << path << ": " << found;
            if (found == wanted) continue;
            ++changed;
            const std::string code = " " + std::to_string(static_cast<int>(Errc::corrupt));
            EXPECT_NE((found + " ").find(code + " "), std::string::npos)
                << path << " does not tell of damage but answers " << found;
        }
        EXPECT_GT(changed, 0u) << "nobody has noticed";
        const auto made = volume->create(anybody, volume->root(), "after", {.open = true});
        ASSERT_TRUE(made) << static_cast<int>(made.code());
        EXPECT_TRUE(volume->write(made->handle, 0, std::vector(5000, std::byte{'a'})));
        EXPECT_EQ(volume->sync_file(made->handle), Errc::ok);
        EXPECT_EQ(volume->release(made->handle), Errc::ok);
        EXPECT_EQ(volume->close(), Errc::ok);
    }

    std::map<std::string, std::string> sound_;  // what each path answers

 private:
    void collect(Volume& volume, Handle in, const std::string& path) {
        for (const auto& [name, number] : list_names(volume, in)) {
            const std::string below = path + "/" + name;
            sound_[below];
            const Result<Handle> handle = volume.handle_of(number);
            ASSERT_TRUE(handle);
            const bool is_directory = (volume.attributes(*handle)->mode & 0170000) == 0040000;
            if (is_directory) collect(volume, *handle, below);
        }
    }
};

TEST_F(DamageStays, withTheFileWhoseExtentsAreDamaged) {
    editor().flip(tree_block(sparse, 0) + 70);
    expect_only({"/sparse"});
}

TEST_F(DamageStays, withTheFileWhoseAttributesAreDamaged) {
    editor().flip(editor().inode(text).attributes.offset() + 100);
    expect_only({"/text", "/directory/text-again"});
}

TEST_F(DamageStays, withTheLinkWhoseTargetIsDamaged) {
    editor().flip(BlockPointer{editor().inode(long_link).area.words[0]}.offset() + 100);
    expect_only({"/long-link"});
}

TEST_F(DamageStays, withTheNamesOfADamagedLeaf) {
    editor().flip(tree_block(directory, 0) + 100);
    expect_only({"/directory"});
}

/// Packing the directory would move names from that leaf into itself.
TEST_F(DamageStays, withTheDirectoryWhereTwoPairsLeadToOneLeaf) {
    change_block<format::TreeNode>(tree_block(directory, 1), [](format::TreeNode& node) {
        node.pairs[1].child = node.pairs[0].child;
    });
    const u64 names = count_names(directory);
    const auto volume = open_on(disk(), {.workers = 1});
    const Result<Attributes> found = resolve(*volume, anybody, "/directory");
    ASSERT_TRUE(found);
    Rebuilt rebuilt;
    EXPECT_EQ(volume->rebuild(anybody, found->handle, rebuilt), Errc::corrupt);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_EQ(count_names(directory), names);
}

TEST_F(DamageStays, withTheNamesOfADamagedInode) {
    editor().flip(small[3] * format::inode_size + 8);
    expect_only({"/directory/file-3"});
}

TEST(DamageOfContents, isToldAndNeverReadAsZeros) {
    for (const u64 buffer_bytes : {u64{0}, 256 * kib}) {
        const std::vector<std::byte> wanted(300'000, std::byte{'d'});
        MemoryVolume volume(16 * mib, {.workers = 1, .file_buffer_bytes = buffer_bytes});
        const Handle file = make_file(*volume, volume->root(), "file");
        ASSERT_EQ(volume->open_file(file), Errc::ok);
        ASSERT_TRUE(volume->write(file, 0, wanted));
        ASSERT_EQ(volume->release(file), Errc::ok);
        volume.close();
        bool failed = true;
        for (u64 nth = 1; failed && !HasFailure(); ++nth) {
            volume.open();
            const Handle again = volume->lookup(anybody, volume->root(), "file")->handle;
            ASSERT_EQ(volume->open_file(again), Errc::ok);
            volume.faults().set_plan(
                {.writes = false, .flushes = false, .nth = nth, .is_once = true});
            std::vector<std::byte> found(wanted.size());
            const Result<u64> got = volume->read(again, 0, found);
            failed = volume.faults().failed_count() != 0;
            EXPECT_EQ(got.code(), failed ? Errc::io : Errc::ok);
            EXPECT_TRUE(failed || found == wanted);
            volume.faults().set_plan({});
            // The next read gets the bytes: no bad data was cached.
            EXPECT_TRUE(volume->read(again, 0, found));
            EXPECT_EQ(found, wanted);
            ASSERT_EQ(volume->release(again), Errc::ok);
            volume.close();
        }
    }
}

/// Inodes that a removal freed before it met the damage have numbers that others may reuse.
TEST(DamageStaysInADyingTree, andInodesThatGetItsNumbersAreSafe) {
    const auto disk = make_memory_disk(64 * mib);
    Handle doomed;
    Handle bad;
    {
        const auto volume = open_on(*disk, {.workers = 1});
        doomed = make_directory(*volume, volume->root(), "doomed");
        bad = make_directory(*volume, doomed, "bad");
        make_file(*volume, bad, "file");
        ASSERT_EQ(volume->close(), Errc::ok);
    }
    format::Block block;
    const u64 place = bad.inode * format::inode_size;
    const u64 in_block = place % format::block_size;
    ASSERT_EQ(disk->read(place - in_block, std::as_writable_bytes(std::span(&block, 1))), Errc::ok);
    const auto& inode = reinterpret_cast<const format::Inode&>(block.words[in_block / 8]);
    const std::vector<std::byte> noise(8, std::byte{0x55});
    ASSERT_EQ(disk->write(inode.area.pairs[0].child.offset() + 100, noise), Errc::ok);

    const auto volume = open_on(*disk, {.workers = 1});
    ASSERT_TRUE(volume);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::corrupt);
    bool has_number = false;
    for (u32 i = 0; i < 20; ++i) {
        const std::string name = "new" + std::to_string(i);
        const Handle made = make_directory(*volume, volume->root(), name);
        make_file(*volume, made, "file");
        has_number = has_number || made.inode == doomed.inode;
    }
    EXPECT_TRUE(has_number);
    EXPECT_EQ(volume->sync(), Errc::ok);
    for (u32 i = 0; i < 20; ++i) {
        const std::string name = "new" + std::to_string(i);
        EXPECT_TRUE(resolve(*volume, anybody, "/" + name + "/file"));
        EXPECT_EQ(volume->remove_tree(anybody, volume->root(), name, removal), Errc::ok);
    }
    EXPECT_EQ(volume->close(), Errc::ok);
}

}  // namespace
}  // namespace warren::test::damage_stays_test

// SPDX-License-Identifier: Apache-2.0
// A metadata write that the disk has lost: the block still holds the contents of an earlier inode
// of the same number, with a right checksum, and may point to blocks that belong to others. A
// caller that follows it gets an error, and can neither read nor change another inode's data.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tests/support/block_history.hpp"
#include "tests/support/directory_circle.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"
#include "tests/support/watchdog.hpp"

namespace warren::stale_owner_test {
namespace {

using format::block_size;
using format::BlockKind;

const Caller root{.user = 0, .group = 0};
const Caller user{.user = 1000, .group = 1000};

std::vector<std::byte> bytes_of(char letter, u64 blocks) {
    return std::vector<std::byte>(blocks * block_size, static_cast<std::byte>(letter));
}

/// An ACL that gives `user` all that the owner has, and nothing to others.
std::vector<std::byte> acl_for(u32 who) {
    std::vector<std::byte> value;
    const auto add = [&](u32 number, u32 bytes) {
        for (u32 i = 0; i < bytes; ++i)
            value.push_back(static_cast<std::byte>(number >> 8 * i));
    };
    add(2, 4);
    const auto entry = [&](u32 tag, u32 permissions, u32 id) {
        add(tag, 2);
        add(permissions, 2);
        add(id, 4);
    };
    entry(0x01, 7, ~0u);
    entry(0x02, 7, who);
    entry(0x04, 0, ~0u);
    entry(0x10, 7, ~0u);
    entry(0x20, 0, ~0u);
    return value;
}

bool is_corrupt(const Result<Attributes>& answer) {
    return answer.code() == Errc::corrupt;
}

class StaleOwner : public testing::TestWithParam<u64> {
 protected:
    StaleOwner() {
        disk_->start_recording();
        volume_ = open_on(*disk_, {.workers = 1, .engine = EngineChoice::cpu});
        AttributeChange all;
        all.which = AttributeChange::mode;
        all.new_mode = 0777;
        EXPECT_TRUE(volume_->set_attributes(root, volume_->root(), all));
    }

    /// From here on freed blocks can be used again.
    void end_life() {
        EXPECT_EQ(volume_->sync(), Errc::ok);
        EXPECT_EQ(volume_->sync(), Errc::ok);
    }
    format::Inode inode_on_disk(Handle handle) {
        return test::ImageEditor(*disk_).inode(handle.inode);
    }
    Handle create(const Caller& caller, Handle in, const char* name, u32 mode,
                  std::string_view target = {}) {
        const auto made = volume_->create(caller, in, name, {.mode = mode, .target = target});
        EXPECT_TRUE(made) << name;
        return made ? made->handle : Handle{};
    }
    void write(Handle file, u64 offset, std::span<const std::byte> bytes) {
        EXPECT_EQ(volume_->open_file(file), Errc::ok);
        EXPECT_TRUE(volume_->write(file, offset, bytes));
        EXPECT_EQ(volume_->release(file), Errc::ok);
    }

    /// Closes the volume, puts back the contents that the block at `place` had for the earlier
    /// inode, and opens the volume on the engine of the tests.
    void lose_last_write_of(u64 place, BlockKind kind) {
        EXPECT_EQ(volume_->close(), Errc::ok);
        disk_->stop_recording();
        const auto before = foreign_content(*disk_, place);
        ASSERT_TRUE(before) << "nobody else had this block";
        ASSERT_EQ(before->kind, kind);
        put_back(*disk_, *before);
        volume_ = open_on(*disk_, {.workers = 1, .meta_buffer_bytes = GetParam()});
        ASSERT_TRUE(volume_);
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(16 * mib);
    std::unique_ptr<Volume> volume_;
};
INSTANTIATE_TEST_SUITE_P(BlockMaps, StaleOwner, testing::ValuesIn(block_maps));

TEST_P(StaleOwner, ofExtentsShowsAndChangesNobodysFile) {
    constexpr u64 pieces = 8;  // more than an inode has room for
    const auto write_pieces = [&](Handle file, char letter) {
        for (u64 i = 0; i < pieces; ++i)
            write(file, 2 * i * block_size, bytes_of(letter, 1));
    };
    const Handle old = create(user, volume_->root(), "old", 0100600);
    write_pieces(old, 'o');
    ASSERT_EQ(volume_->sync(), Errc::ok);
    const u64 leaf = inode_on_disk(old).area.pairs[0].child.offset();
    ASSERT_EQ(volume_->unlink(user, volume_->root(), "old"), Errc::ok);
    end_life();
    const Handle mine = create(user, volume_->root(), "mine", 0100600);
    ASSERT_EQ(mine.inode, old.inode);
    const Handle secret = create(root, volume_->root(), "secret", 0100600);
    write(secret, 0, bytes_of('s', 2 * pieces));
    write_pieces(mine, 'm');
    ASSERT_EQ(volume_->sync(), Errc::ok);
    ASSERT_EQ(inode_on_disk(mine).area.pairs[0].child.offset(), leaf);
    lose_last_write_of(leaf, BlockKind::extent_leaf);

    std::vector<std::byte> found(2 * pieces * block_size);
    ASSERT_EQ(volume_->open_file(mine), Errc::ok);
    for (u64 i = 0; i < pieces; ++i) {
        std::span<std::byte> target(found);
        EXPECT_EQ(volume_->read(mine, 2 * i * block_size, target.first(block_size)).code(),
                  Errc::corrupt);
        EXPECT_EQ(volume_->write(mine, 2 * i * block_size, bytes_of('x', 1)).code(), Errc::corrupt);
    }
    EXPECT_EQ(std::ranges::count(found, std::byte{'s'}), 0);
    EXPECT_EQ(volume_->seek(mine, 0, Seek::hole).code(), Errc::corrupt);
    EXPECT_EQ(volume_->allocate(mine, Allocate::punch_hole, 0, mib), Errc::corrupt);
    AttributeChange cut;
    cut.which = AttributeChange::size;
    EXPECT_EQ(volume_->set_attributes(user, mine, cut).code(), Errc::corrupt);
    EXPECT_EQ(volume_->release(mine), Errc::ok);
    // The remains after the removal must not give the other's blocks to a third file.
    static_cast<void>(volume_->unlink(user, volume_->root(), "mine"));
    end_life();
    write(create(user, volume_->root(), "third", 0100600), 0, bytes_of('t', 512));
    ASSERT_EQ(volume_->open_file(secret), Errc::ok);
    EXPECT_TRUE(volume_->read(secret, 0, found));
    EXPECT_EQ(found, bytes_of('s', 2 * pieces));
    EXPECT_EQ(volume_->release(secret), Errc::ok);
    EXPECT_EQ(volume_->close(), Errc::ok);
}

TEST_P(StaleOwner, ofAnAccessListOpensNothing) {
    const auto make_vault = [&](u32 who) {
        const Handle vault = create(root, volume_->root(), "vault", 0040700);
        EXPECT_EQ(volume_->set_attribute(root, vault, "system.posix_acl_access", acl_for(who)),
                  Errc::ok);
        EXPECT_EQ(volume_->set_attribute(root, vault, "system.posix_acl_default", acl_for(who)),
                  Errc::ok);
        EXPECT_EQ(volume_->sync(), Errc::ok);
        return vault;
    };
    const Handle old = make_vault(user.user);
    const u64 block = inode_on_disk(old).attributes.offset();
    ASSERT_EQ(volume_->remove_directory(root, volume_->root(), "vault"), Errc::ok);
    end_life();
    const Handle vault = make_vault(user.user + 1);
    ASSERT_EQ(vault.inode, old.inode);
    ASSERT_EQ(inode_on_disk(vault).attributes.offset(), block);
    create(root, vault, "secret", 0100644);
    lose_last_write_of(block, BlockKind::attributes);

    EXPECT_EQ(volume_->check_access(user, vault, 4), Errc::corrupt);
    EXPECT_EQ(volume_->lookup(user, vault, "secret").code(), Errc::corrupt);
    std::vector<Lookup> lookups(20, Lookup{vault, "secret"});
    std::vector<Result<Attributes>> looked(lookups.size(), Errc::ok);
    volume_->lookup_many(user, lookups, looked);
    EXPECT_TRUE(std::ranges::all_of(looked, is_corrupt));
    EXPECT_EQ(volume_->scan(user, vault, [](const Scanned&) { return true; }), Errc::corrupt);
    EXPECT_EQ(volume_->create(user, vault, "new", {}).code(), Errc::corrupt);
    EXPECT_EQ(volume_->create(root, vault, "new", {}).code(), Errc::corrupt);
    EXPECT_EQ(volume_->unlink(user, vault, "secret"), Errc::corrupt);
    Removal removal;
    EXPECT_EQ(volume_->remove_tree(user, vault, "secret", removal), Errc::corrupt);
    std::byte value[200];
    EXPECT_EQ(volume_->get_attribute(vault, "system.posix_acl_access", value).code(),
              Errc::corrupt);
    char names[200];
    EXPECT_EQ(volume_->list_attributes(vault, names).code(), Errc::corrupt);
    EXPECT_EQ(volume_->set_attribute(root, vault, "system.posix_acl_access", acl_for(1)),
              Errc::corrupt);
    AttributeChange mode;
    mode.which = AttributeChange::mode;
    mode.new_mode = 0700;
    EXPECT_EQ(volume_->set_attributes(root, vault, mode).code(), Errc::corrupt);
    EXPECT_EQ(volume_->close(), Errc::ok);
}

TEST_P(StaleOwner, ofNamesLeadsToNobodysFile) {
    const Handle before = create(user, volume_->root(), "before", 0040700);
    const Handle old = create(user, before, "name", 0100600);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    const u64 leaf = inode_on_disk(before).area.pairs[0].child.offset();
    ASSERT_EQ(volume_->unlink(user, before, "name"), Errc::ok);
    ASSERT_EQ(volume_->remove_directory(user, volume_->root(), "before"), Errc::ok);
    end_life();
    const Handle mine = create(user, volume_->root(), "mine", 0040700);
    ASSERT_EQ(mine.inode, before.inode);
    const Handle secret = create(root, volume_->root(), "secret", 0100600);
    ASSERT_EQ(secret.inode, old.inode);
    create(user, mine, "other", 0100600);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    ASSERT_EQ(inode_on_disk(mine).area.pairs[0].child.offset(), leaf);
    lose_last_write_of(leaf, BlockKind::directory_leaf);

    EXPECT_EQ(volume_->lookup(user, mine, "name").code(), Errc::corrupt);
    std::vector<Lookup> lookups(1100, Lookup{mine, "name"});
    std::vector<Result<Attributes>> looked(lookups.size(), Errc::ok);
    volume_->lookup_many(user, lookups, looked);
    EXPECT_TRUE(std::ranges::all_of(looked, is_corrupt));
    u64 seen = 0;
    EXPECT_EQ(volume_->read_directory(mine, 0, [&](const DirectoryEntry&) { return ++seen; }),
              Errc::corrupt);
    const auto count = [&](const Scanned& found) { return seen += found.depth, true; };
    EXPECT_EQ(volume_->scan(user, mine, count), Errc::corrupt);
    EXPECT_EQ(seen, 0u);
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume_->usage(user, mine, {}, usage), Errc::corrupt);
    EXPECT_EQ(volume_->unlink(user, mine, "name"), Errc::corrupt);
    EXPECT_EQ(volume_->rename(user, mine, "name", volume_->root(), "got"), Errc::corrupt);
    EXPECT_EQ(volume_->rename(user, volume_->root(), "secret", mine, "name"), Errc::corrupt);
    EXPECT_EQ(volume_->create(user, mine, "new", {}).code(), Errc::corrupt);
    const std::vector<Unlink> unlinks(20, Unlink{mine, "name"});
    std::vector<Errc> results(20, Errc::ok);
    volume_->remove_many(user, unlinks, results);
    EXPECT_EQ(results, std::vector<Errc>(20, Errc::corrupt));
    const std::vector<Move> moves(20, Move{mine, "name", volume_->root(), "got"});
    volume_->move_many(user, moves, results);
    EXPECT_EQ(results, std::vector<Errc>(20, Errc::corrupt));
    Rebuilt rebuilt;
    EXPECT_EQ(volume_->rebuild(user, mine, rebuilt), Errc::corrupt);
    Removal removal;
    EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "mine", removal), Errc::corrupt);
    const auto still = volume_->lookup(root, volume_->root(), "secret");
    ASSERT_TRUE(still);
    EXPECT_EQ(still->handle, secret);
    EXPECT_EQ(still->links, 1u);
    EXPECT_EQ(volume_->close(), Errc::ok);
}

TEST_P(StaleOwner, ofALinksTargetIsNotShown) {
    const std::string old_target(300, 'o');
    const std::string new_target(300, 'n');
    const Handle old = create(user, volume_->root(), "old", 0120777, old_target);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    const u64 block = format::BlockPointer{inode_on_disk(old).area.words[0]}.offset();
    ASSERT_EQ(volume_->unlink(user, volume_->root(), "old"), Errc::ok);
    end_life();
    const Handle link = create(root, volume_->root(), "link", 0120777, new_target);
    ASSERT_EQ(link.inode, old.inode);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    ASSERT_EQ(format::BlockPointer{inode_on_disk(link).area.words[0]}.offset(), block);
    lose_last_write_of(block, BlockKind::link_target);
    EXPECT_EQ(volume_->read_link(link).code(), Errc::corrupt);
    EXPECT_EQ(volume_->close(), Errc::ok);
}

class StaleName : public testing::TestWithParam<u64> {};
INSTANTIATE_TEST_SUITE_P(BlockMaps, StaleName, testing::ValuesIn(block_maps));

/// An earlier name of the same directory cannot be told from a present one. But no walk may loop
/// for ever.
TEST_P(StaleName, leadsNobodyInACircle) {
    Watchdog watchdog;
    const auto disk = make_directory_circle();
    const auto volume = open_on(*disk, {.workers = 2, .meta_buffer_bytes = GetParam()});
    ASSERT_TRUE(volume);
    std::atomic<u64> visits = 0;
    const auto count = [&](const Scanned&) { return ++visits < 1000; };
    EXPECT_EQ(volume->scan(anybody, volume->root(), count), Errc::corrupt);
    EXPECT_LT(visits, 1000u);
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::corrupt);
    Removal removal;
    const auto top = volume->lookup(anybody, volume->root(), "top");
    ASSERT_TRUE(top);
    EXPECT_EQ(volume->remove_tree(user, top->handle, "middle", removal), Errc::corrupt);
    EXPECT_TRUE(resolve(*volume, anybody, "/top/middle/low/file"));
    EXPECT_TRUE(is_final(volume->remove_tree(root, volume->root(), "top", removal)));
    EXPECT_TRUE(is_final(volume->close()));
}

/// Not even if each directory of the cycle names its parent in the cycle.
TEST_P(StaleName, leadsNobodyInACircleThatAgrees) {
    Watchdog watchdog;
    const auto disk = make_directory_circle();
    {
        const auto volume = open_on(*disk, {.read_only = true, .engine = EngineChoice::cpu});
        const u64 top = resolve(*volume, anybody, "/top")->handle.inode;
        const u64 low = resolve(*volume, anybody, "/top/middle/low")->handle.inode;
        test::ImageEditor editor(*disk);
        format::Inode inode = editor.inode(top);
        inode.parent = low;
        editor.set_inode(top, inode);
    }
    const auto volume = open_on(*disk, {.workers = 2, .meta_buffer_bytes = GetParam()});
    ASSERT_TRUE(volume);
    std::atomic<u64> visits = 0;
    const auto count = [&](const Scanned&) { return ++visits < 1000; };
    for (const char* path : {"/", "/top", "/top/middle", "/top/middle/low"}) {
        const auto found = resolve(*volume, anybody, path);
        ASSERT_TRUE(found) << path;
        EXPECT_EQ(volume->scan(anybody, found->handle, count), Errc::corrupt) << path;
    }
    EXPECT_LT(visits, 1000u);
    EXPECT_TRUE(is_final(volume->close()));
}

}  // namespace
}  // namespace warren::stale_owner_test

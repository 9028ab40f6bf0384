// SPDX-License-Identifier: Apache-2.0
// The attributes of a new inode, against inode(7), and the fate of one that loses a name.
#include <gtest/gtest.h>

#include <cstring>

#include "fs/engine/cpu/store_memory.hpp"
#include "fs/ops/new_inode.hpp"
#include "fs/ops/removal_rules.hpp"

namespace warren::ops::inode_rules_test {
namespace {

constexpr u32 directory_group = 100;
constexpr u32 own_group = 200;

Credentials caller_in(u32 user, u32 group) {
    Credentials caller;
    caller.user = user;
    caller.group = group;
    caller.umask = 027;
    return caller;
}

TEST(NewInode, TakesTheGroupOfASetgidDirectory) {
    const Credentials caller = caller_in(7, own_group);
    EXPECT_EQ(new_group(caller, {format::mode_setgid | 0777, directory_group}), directory_group);
    EXPECT_EQ(new_group(caller, {0777, directory_group}), own_group);
}

TEST(NewInode, OnlyDirectoriesInheritTheSetgidBit) {
    const Credentials caller = caller_in(7, own_group);
    const Inherited from{format::mode_setgid | 0777, directory_group};
    EXPECT_EQ(new_mode(caller, from, directory_group, format::type_directory | 0755),
              format::type_directory | format::mode_setgid | 0755);
    EXPECT_EQ(new_mode(caller, from, directory_group, format::type_regular | 0644),
              format::type_regular | 0644u);
    // A file keeps the bit that its creator asks for if he is in the group or root.
    constexpr u32 wanted = format::type_regular | format::mode_setgid | 0755;
    EXPECT_EQ(new_mode(caller, from, directory_group, wanted), format::type_regular | 0755u);
    EXPECT_EQ(new_mode(caller, from, own_group, wanted), wanted);
    EXPECT_EQ(new_mode(caller_in(0, own_group), from, directory_group, wanted), wanted);
}

TEST(NewInode, TheUmaskTakesPermissionsAndNothingElse) {
    EXPECT_EQ(masked(caller_in(7, own_group), format::type_regular | 07777),
              format::type_regular | 07750u);
}

TEST(NewInode, IsWrittenOverWhatWasThere) {
    format::Block block;
    std::memset(&block, 0xff, sizeof block);
    auto& inode = reinterpret_cast<format::Inode&>(block);
    Attributes made = new_attributes({77, 5}, format::type_directory | 0700, 1, 2, 33, 44);
    write_new_inode(ThreadTeam{}, inode, made, {});
    format::Block zeros{};
    auto& expected = reinterpret_cast<format::Inode&>(zeros);
    expected.generation = 5;
    expected.mode = format::type_directory | 0700;
    expected.links = 2;
    expected.user = 1;
    expected.group = 2;
    expected.parent = 33;
    expected.area_kind = static_cast<u8>(format::AreaKind::tree);
    expected.accessed = expected.modified = expected.changed = expected.born = 44;
    EXPECT_EQ(std::memcmp(&block, &zeros, sizeof inode), 0);
    made = new_attributes({77, 5}, format::type_regular | 0600, 1, 2, 33, 44);
    EXPECT_EQ(made.links, 1u);
    EXPECT_EQ(made.parent, 0u) << "files have several";
}

class InodeFate : public testing::Test {
 protected:
    void SetUp() override {
        constexpr u64 frames = 4;
        const StoreShape shape{frames * format::frame_size, 4 * format::block_size, 1, 64};
        ASSERT_EQ(memory_.open(shape), Errc::ok);
        inode_.mode = format::type_regular | 0644;
        inode_.links = 1;
    }
    Fate fate(bool although_open = false) {
        InodeRef ref;
        ref.at = &inode_;
        const InodeParts seen(inode_);
        return fate_of(memory_.store(), ref, seen, seen.is_directory(), although_open);
    }
    void set_kind(AreaKind kind, u16 count) {
        inode_.area_kind = static_cast<u8>(kind);
        inode_.area_count = count;
    }
    static u64 pointer_to(u64 place) { return BlockPointer::to(place).raw; }

    StoreMemory memory_;
    format::Block block_{};
    format::Inode& inode_ = reinterpret_cast<format::Inode&>(block_);
};

TEST_F(InodeFate, OfAnEmptyFileDependsOnNamesAndOpens) {
    EXPECT_EQ(fate(), Fate::free);
    inode_.references = one_open - 1;  // looked up, however often
    EXPECT_EQ(fate(), Fate::free);
    inode_.references = one_open;
    EXPECT_EQ(fate(), Fate::orphan);
    EXPECT_EQ(fate(true), Fate::free);
    inode_.links = 2;
    EXPECT_EQ(fate(), Fate::keep);
    EXPECT_EQ(fate(true), Fate::keep);
}

TEST_F(InodeFate, OfADirectoryDependsOnItsTree) {
    inode_.mode = format::type_directory | 0755;
    inode_.links = 2;
    set_kind(AreaKind::tree, 0);
    EXPECT_EQ(fate(), Fate::free) << "the second link is its own";
    set_kind(AreaKind::tree, format::root_pairs_max);
    inode_.height = 1;
    EXPECT_EQ(fate(), Fate::free_leaves);
    inode_.references = one_open;
    EXPECT_EQ(fate(), Fate::orphan);
    EXPECT_EQ(fate(true), Fate::free_leaves);
    inode_.references = 0;
    inode_.height = 2;
    EXPECT_EQ(fate(), Fate::orphan);
    inode_.mode = format::type_regular | 0644;
    inode_.links = 1;
    inode_.height = 1;
    EXPECT_EQ(fate(), Fate::orphan) << "a tree of extents";
}

TEST_F(InodeFate, OfDamageIsSeenBeforeAnythingIsFreed) {
    const u64 outside = memory_.store().size_bytes;
    inode_.attributes.raw = pointer_to(outside);
    EXPECT_EQ(fate(), Fate::damaged);
    inode_.attributes.raw = pointer_to(format::block_size);
    EXPECT_EQ(fate(), Fate::free);
    inode_.attributes.raw = 0;
    set_kind(AreaKind::target, 0);
    inode_.area.words[0] = pointer_to(outside);
    EXPECT_EQ(fate(), Fate::damaged);
    inode_.area.words[0] = pointer_to(format::block_size);
    EXPECT_EQ(fate(), Fate::free);
    set_kind(AreaKind::extents, format::inline_extents_max + 1);
    EXPECT_EQ(fate(), Fate::damaged);
    set_kind(AreaKind::extents, 1);
    EXPECT_EQ(fate(), Fate::damaged) << "a target is no extent";
    inode_.area_kind = 77;
    EXPECT_EQ(fate(), Fate::damaged);
}

}  // namespace
}  // namespace warren::ops::inode_rules_test

// SPDX-License-Identifier: Apache-2.0
// Inode numbers while a removal races with an operation that creates, holds or forgets an inode:
// each case replays two operations in the order in which threads once collided.
#include <gtest/gtest.h>

#include "fs/core/inode_table.hpp"
#include "fs/ops/answer.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::removal_races_test {
namespace {

constexpr core::Credentials anyone{.check = false};

/// A new volume on which operations are run one by one.
class RemovalRaces : public testing::Test {
 protected:
    void SetUp() override {
        disk_ = make_memory_disk(64 * mib);
        volume_ = open_inside(*disk_);
        const auto root =
            volume_->run([&](CpuOperation& op) { return ops::handle_of(op, op.store.root_inode); });
        ASSERT_TRUE(root);
        root_ = *root;
    }
    void TearDown() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        expect_clean(*disk_);
    }

    Handle make(const std::string& name, u64 references = 0) {
        const auto made =
            volume_->run([&](CpuOperation& op) { return make_in(op, name, references); });
        EXPECT_TRUE(made);
        return made->handle;
    }
    Result<Attributes> make_in(CpuOperation& op, const std::string& name, u64 references) {
        const ops::CreateArguments arguments{.mode = 0100644, .references = references};
        return ops::create(op, anyone, root_, name.data(), static_cast<u32>(name.size()),
                           arguments);
    }
    void unlink(const std::string& name) {
        EXPECT_EQ(volume_->remove_name<ops::Verb::unlink>({.check = false}, root_, name), Errc::ok);
    }
    void forget(Handle handle, Errc wanted = Errc::ok) {
        EXPECT_EQ(volume_->run([&](CpuOperation& op) { return ops::forget(op, handle, 1); }),
                  wanted);
    }
    /// Creates files until one gets the number of `handle`, at most 9,000.
    bool gets_number_of(Handle handle) {
        bool found = false;
        for (u32 i = 0; i < 9000 && !found; ++i, ++next_) {
            const std::string name = "next" + std::to_string(next_);
            found = make(name).inode == handle.inode;
            const bool is_due = i % 256 == 255;
            EXPECT_EQ(is_due ? volume_->commit() : Errc::ok, Errc::ok);
        }
        return found;
    }

    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<VolumeImplementation> volume_;
    Handle root_;
    u32 next_ = 0;
};

/// The file is removed after it was created and before its creator has released all that it held.
TEST_F(RemovalRaces, AFileIsRemovedBeforeItsMakerIsDone) {
    make("first");  // the directory has its leaf
    CpuOperation op(ThreadTeam{}, volume_->store());
    const auto made = make_in(op, "file", ops::one_lookup);
    ASSERT_TRUE(made);
    unlink("file");
    core::finish(op);
    EXPECT_FALSE(gets_number_of(made->handle));
    forget(made->handle);
    EXPECT_TRUE(gets_number_of(made->handle));
}

/// A client that looks up a stale handle and then forgets it takes no other client's reference.
TEST_F(RemovalRaces, ForgettingAStaleHandleLetsNoNumberGo) {
    const Handle old = make("old");
    unlink("old");
    Handle again{};
    for (u32 i = 0; again.inode != old.inode; ++i) {
        ASSERT_LT(i, 9000u);
        again = make("again" + std::to_string(i), ops::one_lookup);
        unlink("again" + std::to_string(i));
        if (again.inode != old.inode) forget(again);
    }
    forget(old, Errc::stale);
    EXPECT_FALSE(gets_number_of(again));
    forget(again);
}

/// The hint where to look for free inode numbers may be set after the frame has been freed.
TEST_F(RemovalRaces, AFrameWithoutInodesIsNotLookedAtForEver) {
    const core::Store& store = volume_->store();
    u64* room = core::space_hints(store, format::FrameKind::inodes);
    u64 stale = 0;
    while (core::kind_of(store, stale) != format::FrameKind::free)
        ++stale;
    for (u64 frame = 0; frame < store.frame_count; ++frame)
        core::clear_bit(room, frame);
    core::set_bit(room, stale);
    make("file");  // in a frame that is new
}

}  // namespace
}  // namespace warren::removal_races_test

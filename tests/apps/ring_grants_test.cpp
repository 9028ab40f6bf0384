// SPDX-License-Identifier: Apache-2.0
// What a client of a ring can rely on: attached directories, and the handles that it used last.
// What the daemon can rely on: a client costs bounded memory, however many names it finds.
#include "apps/fuse/ring_grants.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>

#include "apps/fuse/ring_commands.hpp"
#include "base/random.hpp"
#include "tests/apps/starved_mount.hpp"
#include "tests/support/seed.hpp"

namespace warren::fuse::test::ring_grants_test {
namespace {

const auto is_always_there = [](Handle) { return true; };

TEST(RingGrants, NewHandlesAreGrantedBehindMoreThanTheLimit) {
    RingGrants grants;
    constexpr u64 count = 2 * MountRing::found_kept + 10;
    for (u64 i = 1; i <= count; ++i)
        grants.add({i, 1}, true);
    for (u64 i = count - MountRing::found_kept + 1; i <= count; ++i)
        ASSERT_EQ(grants.check({i, 1}, true), Errc::ok) << i;
    EXPECT_EQ(grants.check({1, 1}, false), Errc::bad_handle);
}

TEST(RingGrants, AttachedDirectoriesStay) {
    RingGrants grants({.attached = 3, .found = 10});
    for (u64 i = 1; i <= 3; ++i)
        ASSERT_EQ(grants.attach({i, 1}, i != 2, is_always_there), Errc::ok);
    for (u64 i = 100; i < 200; ++i)
        grants.add({i, 1}, true);
    EXPECT_EQ(grants.check({1, 1}, true), Errc::ok);
    EXPECT_EQ(grants.check({2, 1}, false), Errc::ok);
    EXPECT_EQ(grants.check({2, 1}, true), Errc::read_only);
    EXPECT_EQ(grants.check({3, 2}, false), Errc::bad_handle);
    // There is room only for one that is attached already, or in place of one that is gone.
    EXPECT_EQ(grants.attach({4, 1}, true, is_always_there), Errc::too_many_files);
    EXPECT_EQ(grants.check({4, 1}, false), Errc::bad_handle);
    EXPECT_EQ(grants.attach({2, 1}, true, is_always_there), Errc::ok);
    EXPECT_EQ(grants.check({2, 1}, true), Errc::ok);
    EXPECT_EQ(grants.attach({4, 1}, true, [](Handle one) { return one.inode != 3; }), Errc::ok);
    EXPECT_EQ(grants.check({3, 1}, false), Errc::bad_handle);
    EXPECT_EQ(grants.check({4, 1}, true), Errc::ok);
    // An inode number that was reused.
    grants.add({4, 2}, false);
    EXPECT_EQ(grants.check({4, 1}, false), Errc::bad_handle);
    EXPECT_EQ(grants.check({4, 2}, true), Errc::read_only);
    grants.add({4, 2}, true);
    grants.add({4, 2}, false);
    EXPECT_EQ(grants.check({4, 2}, true), Errc::ok);
}

TEST(RingGrants, TheLastUsedAreKeptOfAnyOrder) {
    const Seed seed;
    Random random(seed.value());
    constexpr std::size_t kept = 50;
    RingGrants grants({.attached = 0, .found = kept});
    std::list<u64> used;  // the most recent one first
    const auto use = [&](u64 inode) {
        used.remove(inode);
        used.push_front(inode);
        if (used.size() > kept) used.pop_back();
    };
    for (int step = 0; step < 20'000; ++step) {
        const u64 inode = 1 + random.below(random.one_in(2) ? 60 : 400);
        if (random.one_in(3)) {
            grants.add({inode, 1}, false);
            use(inode);
            continue;
        }
        const bool is_kept = std::find(used.begin(), used.end(), inode) != used.end();
        const Errc code = grants.check({inode, 1}, false);
        if (is_kept) {
            ASSERT_EQ(code, Errc::ok) << inode << " at " << step;
        }
        if (code == Errc::ok) use(inode);
        ASSERT_LE(grants.size(), 2 * kept);
    }
}

/// The commands of a ring, without the ring and with few grants.
class FewGrants : public testing::Test {
 protected:
    FewGrants() {
        const auto volume = Mount::open(*disk_, "cpu");
        make_base(*volume);
        EXPECT_EQ(volume->close(), Errc::ok);
        mount_ = std::make_unique<Mount>(*disk_, "cpu");
        invalidator_ = std::make_unique<Invalidator>(mount_->kernel.session(),
                                                     [](u64, const std::string&) { return false; });
        commands_ = std::make_unique<RingCommands>(mount_->state, *invalidator_, Peer{},
                                                   RingGrants::Limits{.attached = 1, .found = 4});
    }
    ~FewGrants() override {
        mount_->kernel.give_back();
        EXPECT_EQ(mount_->state.volume.close(), Errc::ok);
    }
    Errc look_up(Handle directory, const std::string& name, Handle& found) {
        ring::Received received;
        received.command.verb = ops::Verb::lookup;
        received.command.handle = directory;
        received.command.name = name.data();
        received.command.name_length = static_cast<u32>(name.size());
        ops::Reply reply;
        commands_->run({&received, 1}, {&reply, 1});
        found = reply.attributes.handle;
        return reply.code;
    }
    Errc attributes(Handle handle) {
        ring::Received received;
        received.command.verb = ops::Verb::get_attributes;
        received.command.handle = handle;
        ops::Reply reply;
        commands_->run({&received, 1}, {&reply, 1});
        return reply.code;
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(volume_bytes);
    std::unique_ptr<Mount> mount_;
    std::unique_ptr<Invalidator> invalidator_;
    std::unique_ptr<RingCommands> commands_;
};

TEST_F(FewGrants, WhatWasDroppedIsLookedUpAgain) {
    const Handle root = mount_->volume().root();
    ASSERT_EQ(commands_->grants().attach(root, true, is_always_there), Errc::ok);
    std::vector<Handle> files(20);
    for (std::size_t i = 0; i < files.size(); ++i)
        make_file(mount_->volume(), root, "f" + std::to_string(i));
    for (std::size_t i = 0; i < files.size(); ++i)
        ASSERT_EQ(look_up(root, "f" + std::to_string(i), files[i]), Errc::ok);
    EXPECT_EQ(attributes(files[19]), Errc::ok);
    EXPECT_EQ(attributes(files[0]), Errc::bad_handle);
    Handle again;
    ASSERT_EQ(look_up(root, "f0", again), Errc::ok);
    EXPECT_EQ(again, files[0]);
    EXPECT_EQ(attributes(files[0]), Errc::ok);
}

}  // namespace
}  // namespace warren::fuse::test::ring_grants_test

// SPDX-License-Identifier: Apache-2.0
// A tree is removed only if its caller may remove all of it, whatever others change between the
// check and the detachment of its name.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::remove_permission_test {
namespace {

using ops::Verb;

const Caller remover{.user = 1, .group = 1};
const Caller owner{.user = 2, .group = 2};

/// user::rwx, user:3:rwx, group::rwx, mask::rwx, other::---
constexpr u8 closing_acl[] = {2,  0, 0, 0,                      //
                              1,  0, 7, 0, 255, 255, 255, 255,  //
                              2,  0, 7, 0, 3,   0,   0,   0,    //
                              4,  0, 7, 0, 255, 255, 255, 255,  //
                              16, 0, 7, 0, 255, 255, 255, 255,  //
                              32, 0, 0, 0, 255, 255, 255, 255};

/// The remover's tree "t" with another user's directory "t/inner", writable by all, and the files
/// that may appear in it.
class RemovePermission : public testing::TestWithParam<std::string> {
 protected:
    void SetUp() override { open(); }
    void TearDown() override {
        if (volume_ == nullptr) return;
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        EXPECT_TRUE(expect_clean(*disk_));
    }

    void open() {
        disk_ = make_memory_disk(64 * mib);
        Failure failure;
        volume_ =
            open_on_engine(std::make_unique<FaultDisk>(*disk_), GetParam(), {.workers = 2}, failure,
                           ~u64{0}, [&](VolumeImplementation& inside) { inside_ = &inside; });
        ASSERT_NE(volume_, nullptr) << failure.message;
        AttributeChange open_to_all;
        open_to_all.which = AttributeChange::mode;
        open_to_all.new_mode = 0777;
        ASSERT_TRUE(volume_->set_attributes(anybody, root(), open_to_all));
        tree_ = make(remover, root(), "t", 040777);
        inner_ = make(owner, tree_, "inner", 040777);
        file_ = make(owner, inner_, "f", 0100666);
        outside_ = make(owner, root(), "outside", 040777);
        make(owner, outside_, "closed", 040700);
        make(owner, outside_, "file", 0100600);
    }

    Handle root() { return volume_->root(); }
    Handle make(const Caller& caller, Handle in, std::string_view name, u32 mode) {
        const auto made = volume_->create(caller, in, name, {.mode = mode});
        EXPECT_TRUE(made) << name << ": " << static_cast<int>(made.code());
        return made->handle;
    }
    void change(const Caller& caller, Handle of, const AttributeChange& change) {
        EXPECT_TRUE(volume_->set_attributes(caller, of, change));
    }
    void change_mode(Handle of, u32 mode) {
        AttributeChange wanted;
        wanted.which = AttributeChange::mode;
        wanted.new_mode = mode;
        change(owner, of, wanted);
    }
    Errc remove() {
        Removal removal;
        return volume_->remove_tree(remover, root(), "t", removal);
    }
    bool is_there(const std::string& path) {
        return static_cast<bool>(resolve(*volume_, anybody, path));
    }
    /// The fate of the tree if `meddle` happens between the check and the detachment.
    Errc detach_after(const std::function<void()>& meddle) {
        ops::Command command = command_on(root(), remover);
        set_name(command, "t");
        const auto tree = inside_->ask<Verb::look_at_tree>(command);
        EXPECT_TRUE(tree);
        EXPECT_EQ(
            inside_->check_removable(credentials_of(remover), tree->root, core::TreeCheck::whole),
            Errc::ok);
        meddle();
        command.how = 1;
        command.target = tree->root;
        command.from = tree->rights_changes;
        return inside_->ask<Verb::detach_tree>(command).code();
    }

    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<Volume> volume_;
    VolumeImplementation* inside_ = nullptr;
    Handle tree_;
    Handle inner_;
    Handle file_;
    Handle outside_;
};
INSTANTIATE_TEST_SUITE_P(Engines, RemovePermission,
                         testing::Values(std::string("cpu"), engine_of_its_own()));

TEST_P(RemovePermission, detachmentSeesWhatMayRefuseTheRemover) {
    const std::pair<const char*, std::function<void()>> changes[] = {
        {"chmod", [&] { change_mode(inner_, 0700); }},
        {"chown",
         [&] {
             AttributeChange wanted;
             wanted.which = AttributeChange::user | AttributeChange::group;
             wanted.new_user = 3;
             wanted.new_group = 3;
             change(anybody, inner_, wanted);
         }},
        {"access list",
         [&] {
             EXPECT_EQ(volume_->set_attribute(owner, inner_, "system.posix_acl_access",
                                              std::as_bytes(std::span(closing_acl))),
                       Errc::ok);
         }},
        {"mkdir of a closed directory", [&] { make(owner, inner_, "closed", 040700); }},
        {"mkdir of a sticky directory", [&] { make(owner, inner_, "sticky", 041777); }},
        {"mkdir by somebody else", [&] { make(owner, tree_, "other", 040777); }},
        {"many mkdirs",
         [&] {
             std::vector<std::string> names;
             for (u32 i = 0; i < 100; ++i)
                 names.push_back("d" + std::to_string(i));
             std::vector<Creation> creations;
             for (const std::string& name : names)
                 creations.push_back({inner_, name, {.mode = 040700}});
             std::vector<Result<Attributes>> made(names.size(), Errc::io);
             volume_->create_many(owner, creations, made);
             for (const auto& one : made)
                 EXPECT_TRUE(one);
         }},
        {"move into it",
         [&] {
             EXPECT_EQ(volume_->rename(owner, outside_, "closed", inner_, "closed"), Errc::ok);
         }},
        {"exchange",
         [&] {
             EXPECT_EQ(volume_->rename(owner, outside_, "closed", inner_, "f", Rename::exchange),
                       Errc::ok);
         }},
        {"rename of a directory within its own",
         [&] { EXPECT_EQ(volume_->rename(owner, tree_, "inner", tree_, "other"), Errc::ok); }},
        {"another tree takes the name",
         [&] {
             make(remover, root(), "t2", 040777);
             EXPECT_EQ(volume_->rename(anybody, root(), "t", root(), "t2", Rename::exchange),
                       Errc::ok);
         }},
    };
    for (const auto& [name, meddle] : changes) {
        SCOPED_TRACE(name);
        TearDown();
        open();
        EXPECT_EQ(detach_after(meddle), Errc::canceled);
        EXPECT_TRUE(is_there("/t"));
    }
}

/// Constant changes by others must not prevent the removal as a whole.
TEST_P(RemovePermission, detachmentMindsNothingElse) {
    const auto meddle = [&] {
        make(owner, inner_, "new", 0100600);
        make(owner, inner_, "directory", 040777);
        change_mode(file_, 0);
        EXPECT_EQ(volume_->unlink(owner, inner_, "new"), Errc::ok);
        EXPECT_EQ(volume_->rename(owner, inner_, "f", inner_, "g"), Errc::ok);
        EXPECT_EQ(volume_->rename(owner, outside_, "file", inner_, "file"), Errc::ok);
        EXPECT_EQ(volume_->set_attribute(owner, inner_, "user.x", {}), Errc::ok);
        AttributeChange times;
        times.which = AttributeChange::modified;
        change(owner, inner_, times);
        change_mode(inner_, 0777);
    };
    EXPECT_EQ(detach_after(meddle), Errc::ok);
    EXPECT_FALSE(is_there("/t"));
}

TEST_P(RemovePermission, whatIsClosedStopsTheRemoval) {
    change_mode(inner_, 0700);
    EXPECT_EQ(remove(), Errc::access);
    EXPECT_TRUE(is_there("/t/inner/f"));
    change_mode(inner_, 01777);
    EXPECT_EQ(remove(), Errc::not_permitted);
    EXPECT_TRUE(is_there("/t/inner/f"));
}

/// Where the remover's rights depend on more than the permissions of directories, the tree is
/// removed name by name, with the same answer.
TEST_P(RemovePermission, emptyAndStickyDirectoriesGoAsWithRm) {
    EXPECT_EQ(volume_->unlink(owner, inner_, "f"), Errc::ok);
    make(remover, inner_, "mine", 0100600);
    for (u32 i = 0; i < 3000; ++i)
        make(remover, tree_, "f" + std::to_string(i), 0100600);
    Handle deep = tree_;
    for (u32 i = 0; i < 300; ++i)
        deep = make(remover, deep, "d", 040755);
    make(owner, inner_, "empty", 040000);
    change_mode(inner_, 01777);
    EXPECT_EQ(remove(), Errc::not_permitted) << "the empty directory is another's";
    EXPECT_TRUE(is_there("/t/inner/mine"));
    EXPECT_EQ(volume_->remove_directory(owner, inner_, "empty"), Errc::ok);
    make(owner, tree_, "empty", 040000);
    Removal removal;
    EXPECT_EQ(volume_->remove_tree(remover, root(), "t", removal), Errc::ok);
    EXPECT_EQ(removal.files, 3001u);
    EXPECT_EQ(removal.directories, 303u);
    EXPECT_GT(removal.blocks, 0u);
    EXPECT_FALSE(is_there("/t"));
}

/// A directory that its owner made inaccessible while its path still existed keeps its entries.
TEST_P(RemovePermission, whatWasClosedInTimeStays) {
    const Seed seed;
    constexpr u32 directories = 150;
    const Deadline deadline(std::chrono::milliseconds(1500));
    u32 refused = 0;
    for (u64 round = 0; !deadline.is_over() || (refused == 0 && round < 10'000); ++round) {
        if (round != 0) tree_ = make(remover, root(), "t", 040777);
        std::vector<Handle> closable;
        for (u32 i = 0; i < directories; ++i) {
            const std::string name = "c" + std::to_string(i);
            closable.push_back(make(owner, tree_, name, 040777));
            make(owner, closable.back(), "f", 0100666);
        }
        std::string closed;
        Errc removed = Errc::ok;
        const auto close_one = [&](Random& random) {
            const u64 spins = random.below(20'000);
            for (std::atomic<u64> i{0}; i < spins; ++i) {
            }
            const u64 which = random.below(directories);
            AttributeChange wanted;
            wanted.which = AttributeChange::mode;
            wanted.new_mode = 0700;
            if (!volume_->set_attributes(owner, closable[which], wanted)) return;
            const std::string path = "/t/c" + std::to_string(which) + "/f";
            if (is_there(path)) closed = path;
        };
        run_executor(seed.part(round), {[&](Random&) { removed = remove(); }, close_one});
        if (closed.empty()) {
            EXPECT_EQ(removed, Errc::ok);
        } else {
            EXPECT_TRUE(is_there(closed)) << closed;
            EXPECT_EQ(removed, Errc::access);
            ++refused;
        }
        Removal rest;
        if (is_there("/t")) {
            ASSERT_EQ(volume_->remove_tree(anybody, root(), "t", rest), Errc::ok);
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(refused, 0u) << "nothing was ever closed in time";
}

}  // namespace
}  // namespace warren::remove_permission_test

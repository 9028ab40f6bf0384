// SPDX-License-Identifier: Apache-2.0
// The beeline is a shortcut: whatever it says must be what the plain way says, and it must say
// something in the common case, or nobody would notice that it has become a detour.
#include "fs/core/beeline.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fs/ops/create.hpp"
#include "fs/ops/unlink.hpp"
#include "fs/volume/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren {
namespace {

using Team = LockstepTeam<4>;

/// What the beeline says of a name: nothing at all, that it is not there, or its inode.
struct Word {
    bool is_said = false;
    bool exists = false;
    u64 inode = 0;
    u64 key = 0;

    friend bool operator==(const Word&, const Word&) = default;
};

class Beeline : public testing::Test {
 protected:
    explicit Beeline(u64 hash_mask = ~u64{0}) : disk_(make_memory_disk(256 * mib)) {
        format::Superblock superblock;
        EXPECT_EQ(read_superblock(*disk_, "image", superblock).code, Errc::ok);
        auto implementation = std::make_unique<VolumeImplementation>(
            std::make_unique<FaultDisk>(*disk_), superblock,
            OpenOptions{.workers = 1, .engine = EngineChoice::cpu}, hash_mask);
        implementation_ = implementation.get();
        EXPECT_EQ(implementation_->start(), Errc::ok);
        volume_ = std::make_unique<Volume>(std::move(implementation));
    }
    ~Beeline() override { EXPECT_EQ(volume_->close(), Errc::ok); }

    Handle make(Handle in, const std::string& name, u32 mode = 0100644) {
        const auto made = volume_->create({}, in, name, {.mode = mode});
        EXPECT_TRUE(made) << name;
        return made ? made->handle : Handle{};
    }

    Word ask(Handle directory, const std::string& name,
             const core::Credentials& caller = {.check = false}) {
        for (core::KnownDirectory<Team>& known : known_)
            known = {};
        return ask_again(directory, name, caller);
    }

    /// As above of lanes that may know the directory from the time before.
    Word ask_again(Handle directory, const std::string& name,
                   const core::Credentials& caller = {.check = false}) {
        return lanes_.run([&](const Team& team) {
            core::Sighting<Team> seen;
            const bool said = core::sight(team, implementation_->store(), caller, directory,
                                          name.data(), static_cast<u32>(name.size()),
                                          core::may_execute, seen, known_[team.lane()]);
            if (!said) return Word{};
            return Word{true, seen.entry.exists, seen.entry.inode, seen.entry.key};
        });
    }

    std::unique_ptr<MemoryDisk> disk_;
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
    Lockstep<4> lanes_{0};
    core::KnownDirectory<Team> known_[Team::width];
};

TEST_F(Beeline, findsAllNamesOfADirectoryOfAnyHeight) {
    const Handle directory = make(volume_->root(), "directory", 040755);
    std::vector<std::string> names;
    std::vector<u64> inodes;
    for (u32 i = 0; i < 3000; ++i) {
        names.push_back("name " + std::to_string(i) + std::string(i % 100, 'x'));
        inodes.push_back(make(directory, names.back()).inode);
    }
    for (u32 i = 0; i < names.size(); i += 61) {
        const Word word = ask(directory, names[i]);
        EXPECT_TRUE(word.is_said && word.exists) << names[i];
        EXPECT_EQ(word.inode, inodes[i]) << names[i];
        const Word absent = ask(directory, names[i] + "y");
        EXPECT_TRUE(absent.is_said && !absent.exists) << names[i];
    }
    EXPECT_TRUE(ask(volume_->root(), "directory").exists);
}

TEST_F(Beeline, saysNothingOfWhatIsOutOfTheOrdinary) {
    const Handle directory = make(volume_->root(), "directory", 040700);
    const Handle file = make(directory, "file");
    const std::string longest(224, 'a');
    make(directory, longest);
    make(directory, longest + "b");
    EXPECT_TRUE(ask(directory, longest).exists);
    for (const std::string& name :
         {longest + "b", std::string(), std::string("."), std::string(".."), std::string("a/b"),
          std::string("/"), std::string("12345678/"), std::string("a\0b", 3)}) {
        EXPECT_EQ(ask(directory, name), Word{}) << name;
    }
    EXPECT_EQ(ask(file, "name"), Word{});
    EXPECT_EQ(ask({directory.inode, directory.generation + 1}, "file"), Word{});
    EXPECT_EQ(ask({~u64{0}, 1}, "file"), Word{});
    const core::Credentials stranger{.user = 5, .group = 5};
    EXPECT_EQ(ask(directory, "file", stranger), Word{});
    EXPECT_TRUE(ask(directory, "file", {.user = 0, .group = 0}).exists);
    EXPECT_EQ(ask(make(directory, "empty", 040755), "file"), Word{});
}

TEST_F(Beeline, seesWhatIsRemovedAndMadeAgain) {
    const Handle directory = make(volume_->root(), "directory", 040755);
    make(directory, "other");
    for (u32 round = 0; round < 5; ++round) {
        const u64 inode = make(directory, "name").inode;
        EXPECT_EQ(ask(directory, "name").inode, inode);
        EXPECT_EQ(volume_->unlink({}, directory, "name"), Errc::ok);
        const Word word = ask(directory, "name");
        EXPECT_TRUE(word.is_said && !word.exists);
    }
}

TEST_F(Beeline, believesTheDirectoryItKnowsForAsLongAsItStands) {
    const Handle directory = make(volume_->root(), "directory", 040755);
    const Handle other = make(volume_->root(), "other", 040755);
    for (u32 i = 0; i < 10; ++i)
        make(other, "name " + std::to_string(i));
    u32 silent = 0;
    for (u32 i = 0; i < 1500; ++i) {
        const std::string name = "name " + std::to_string(i);
        const u64 inode = make(directory, name).inode;
        if (i % 5 != 0) continue;
        Word word = ask_again(directory, name);
        if (!word.is_said) {
            // The directory has changed; then it is looked at again.
            ++silent;
            word = ask_again(directory, name);
        }
        ASSERT_TRUE(word.is_said && word.exists) << name;
        EXPECT_EQ(word.inode, inode) << name;
        EXPECT_EQ(ask_again(directory, name + "y"), ask(directory, name + "y")) << name;
        EXPECT_TRUE(i % 100 != 0 || ask_again(other, "name 1").exists);
    }
    EXPECT_GT(silent, 0u);
    EXPECT_LT(silent, 100u);
}

TEST_F(Beeline, asksForPermissionWhereItKnowsTheDirectory) {
    const Handle directory = make(volume_->root(), "directory", 040755);
    make(directory, "file");
    const core::Credentials stranger{.user = 5, .group = 5};
    EXPECT_TRUE(ask_again(directory, "file").exists);
    EXPECT_TRUE(ask_again(directory, "file", stranger).exists);
    ASSERT_TRUE(
        volume_->set_attributes({}, directory, {.which = AttributeChange::mode, .new_mode = 0700}));
    for (u32 round = 0; round < 3; ++round)
        EXPECT_EQ(ask_again(directory, "file", stranger), Word{});
    EXPECT_TRUE(ask_again(directory, "file", {.user = 0, .group = 0}).exists);
    EXPECT_EQ(ask_again(directory, "file", stranger), Word{});
    EXPECT_EQ(ask_again({directory.inode, directory.generation + 1}, "file"), Word{});
}

class BeelineOfFewHashes : public Beeline {
 protected:
    BeelineOfFewHashes() : Beeline(7) {}
};

TEST_F(BeelineOfFewHashes, saysNothingOfSharedHashes) {
    const Handle directory = make(volume_->root(), "directory", 040755);
    for (u32 i = 0; i < 64; ++i)
        make(directory, "name " + std::to_string(i));
    for (u32 i = 0; i < 64; ++i)
        EXPECT_EQ(ask(directory, "name " + std::to_string(i)), Word{});
}

}  // namespace
}  // namespace warren

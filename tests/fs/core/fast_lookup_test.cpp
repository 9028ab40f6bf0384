// SPDX-License-Identifier: Apache-2.0
// The fast lookup is an optimization: each of its answers must equal that of the regular lookup,
// and it must have an answer in the common case; otherwise it would cost time without notice.
#include "fs/core/fast_lookup.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fs/ops/create.hpp"
#include "fs/ops/unlink.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren::fast_lookup_test {
namespace {

using Team = LockstepTeam<4>;

/// The answer of the fast lookup for a name: none, that the name is absent, or its inode.
struct Word {
    bool is_said = false;
    bool exists = false;
    u64 inode = 0;
    u64 key = 0;

    friend bool operator==(const Word&, const Word&) = default;
};

class FastLookup : public testing::Test {
 protected:
    explicit FastLookup(u64 hash_mask = ~u64{0}) : disk_(make_memory_disk(256 * mib)) {
        auto implementation = open_inside(*disk_, {.workers = 1}, hash_mask);
        implementation_ = implementation.get();
        volume_ = std::make_unique<Volume>(std::move(implementation));
    }
    ~FastLookup() override { EXPECT_EQ(volume_->close(), Errc::ok); }

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

    /// As above, by lanes that may have cached notes of the directory from earlier lookups;
    /// is_used_ says whether they used them.
    Word ask_again(Handle directory, const std::string& name,
                   const core::Credentials& caller = {.check = false}) {
        return lanes_.run([&](const Team& team) {
            core::FastEntry<Team> seen;
            core::NameWords<Team> words;
            core::KnownDirectory<Team>& known = known_[team.lane()];
            const bool said = words.take(team, name.data(), static_cast<u32>(name.size())) &&
                              core::fast_lookup(team, implementation_->store(), caller, directory,
                                                words, core::may_execute, seen, known);
            if (team.is_leader()) is_used_ = known.is_used;
            if (!said) return Word{};
            return Word{true, seen.entry.exists, seen.entry.inode, seen.entry.key};
        });
    }

    /// Answers from here on may rely on cached notes of versions.
    void take_notes() {
        for (core::KnownDirectory<Team>& known : known_) {
            known.node = &node_;
            known.notes = &notes_;
        }
    }

    std::unique_ptr<MemoryDisk> disk_;
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
    Lockstep<4> lanes_{0};
    core::KnownDirectory<Team> known_[Team::width];
    core::VersionNotes notes_;
    core::NodeCopy node_;
    bool is_used_ = false;
};

TEST_F(FastLookup, findsAllNamesOfADirectoryOfAnyHeight) {
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

TEST_F(FastLookup, saysNothingOfWhatIsOutOfTheOrdinary) {
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

TEST_F(FastLookup, seesWhatIsRemovedAndMadeAgain) {
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

/// Looks up names of a directory that changes while notes of it are cached.
class FastLookupThatRemembers : public FastLookup, public testing::WithParamInterface<bool> {
 protected:
    void SetUp() override {
        if (GetParam()) take_notes();
        directory_ = make(volume_->root(), "directory", 040755);
        other_ = make(volume_->root(), "other", 040755);
        for (u32 i = 0; i < 10; ++i)
            make(other_, name_of(i));
    }
    static std::string name_of(u32 number) { return "name " + std::to_string(number); }

    /// Counts one more change if the number of the tree's blocks has changed since the last call.
    void note_changes() {
        const auto attributes = volume_->attributes(directory_);
        ASSERT_TRUE(attributes);
        if (std::exchange(blocks_, attributes->blocks) != attributes->blocks) ++changes_;
    }
    /// Looks in another directory, which evicts the notes of this one.
    void ask_other() {
        EXPECT_TRUE(ask_again(other_, name_of(1)).exists);
        ++changes_;
    }

    /// Whether `name` is there, according to a lookup with cached notes and one without.
    void expect(const std::string& name, bool exists, u64 inode) {
        const Word word = ask_again(directory_, name);
        uses_ += is_used_ ? 1 : 0;
        ++asks_;
        ASSERT_TRUE(word.is_said) << name;
        EXPECT_EQ(word.exists, exists) << name;
        EXPECT_EQ(word.inode, exists ? inode : 0) << name;
    }

    Handle directory_;
    Handle other_;
    u64 blocks_ = 0;
    u32 changes_ = 0;
    u32 uses_ = 0;
    u32 asks_ = 0;
};

TEST_P(FastLookupThatRemembers, saysWhatIsThereWhileTheTreeGrowsAndShrinks) {
    constexpr u32 files = 1500;
    std::vector<u64> inodes;
    for (u32 i = 0; i < files; ++i) {
        inodes.push_back(make(directory_, name_of(i)).inode);
        if (i % 10 != 0) continue;
        note_changes();
        expect(name_of(i), true, inodes[i]);
        expect(name_of(i / 2), true, inodes[i / 2]);
        expect(name_of(files + i), false, 0);
        if (i % 100 == 0) ask_other();
    }
    for (u32 i = 0; i < files - 20; ++i) {
        ASSERT_EQ(volume_->unlink({}, directory_, name_of(i)), Errc::ok);
        if (i % 10 != 0) continue;
        note_changes();
        expect(name_of(i), false, 0);
        const u32 later = i + (files - i) / 2;
        expect(name_of(later), true, inodes[later]);
        if (i % 100 == 0) ask_other();
    }
    // Leaves change all the time without a new note: a lookup that finds its note outdated still
    // knows the way to the leaf. That is lost only if the tree has changed or another directory was
    // asked; and sometimes because the version of another object shares the same word.
    EXPECT_LE(asks_ - uses_, changes_ + asks_ / 100);
    EXPECT_GT(uses_, asks_ * 3 / 4);
}

TEST_P(FastLookupThatRemembers, isNotDeceivedByAnotherDirectoryInTheSameBlocks) {
    for (u32 round = 0; round < 4; ++round) {
        std::vector<Creation> creations;
        std::vector<std::string> names;
        for (u32 i = 0; i < 1500; ++i)
            names.push_back(name_of(i * 7 + round));
        for (const std::string& name : names)
            creations.push_back({directory_, name, {}});
        std::vector<Result<Attributes>> made(names.size(), Errc::io);
        volume_->create_many({}, creations, made);
        for (u32 i = 0; i < names.size(); i += 50)
            expect(names[i], true, made[i]->handle.inode);
        Removal removal;
        ASSERT_EQ(volume_->remove_tree({}, volume_->root(), "directory", removal), Errc::ok);
        ASSERT_EQ(volume_->sync(), Errc::ok);  // from now on its blocks may be used again
        EXPECT_EQ(ask_again(directory_, names[0]), Word{});
        directory_ = make(volume_->root(), "directory", 040755);
    }
}

TEST_P(FastLookupThatRemembers, unlinksByWhatItKnows) {
    constexpr u32 files = 600;
    for (u32 i = 0; i < files; ++i)
        make(directory_, name_of(i));
    u32 others = 0;
    for (u32 i = 0; i < files; ++i) {
        const std::string name = name_of(i);
        u32 tellings = 0;
        const Errc code = lanes_.run([&](const Team& team) {
            core::Operation<Team> op(team, implementation_->store());
            core::KnownDirectory<Team>& known = known_[team.lane()];
            core::NameWords<Team> words;
            Result<ops::Removed> outcome;
            core::Seen changed;
            const auto tell = [&] {
                const u64 version =
                    load(team, implementation_->store().versions[core::stripe_of(changed.place)]);
                EXPECT_EQ(version, changed.version - 1) << "the leaf is not locked";
                if (team.is_leader()) ++tellings;
            };
            if (!words.take(team, name.data(), static_cast<u32>(name.size())) ||
                !ops::unlink_simply(op, {.check = false}, directory_, words, 1, outcome, changed,
                                    known, tell)) {
                return Errc::retry;
            }
            if (team.is_leader()) is_used_ = known.is_used;
            if (!outcome) return outcome.code();
            op.end_apply();
            if (known.notes != nullptr) known.notes->write(team, changed);
            return Errc::ok;
        });
        if (code == Errc::retry) {
            // The last name of its leaf needs the regular removal, for the leaf goes with it.
            EXPECT_EQ(tellings, 0u) << name;
            ASSERT_EQ(volume_->unlink({}, directory_, name), Errc::ok) << name;
            ++others;
            continue;
        }
        ASSERT_EQ(code, Errc::ok) << name;
        EXPECT_EQ(tellings, 1u) << name;
        EXPECT_EQ(volume_->lookup({}, directory_, name).code(), Errc::no_entry) << name;
        uses_ += is_used_ ? 1 : 0;
    }
    EXPECT_GT(uses_, files - files / 10);
    EXPECT_GT(others, 0u);
    EXPECT_LT(others, files / 20);
    EXPECT_EQ(volume_->remove_directory({}, volume_->root(), "directory"), Errc::ok);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutNotes, FastLookupThatRemembers, testing::Bool());

TEST_F(FastLookup, asksForPermissionWhereItKnowsTheDirectory) {
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

class FastLookupOfFewHashes : public FastLookup {
 protected:
    FastLookupOfFewHashes() : FastLookup(7) {}
};

TEST_F(FastLookupOfFewHashes, saysNothingOfSharedHashes) {
    const Handle directory = make(volume_->root(), "directory", 040755);
    for (u32 i = 0; i < 64; ++i)
        make(directory, "name " + std::to_string(i));
    for (u32 i = 0; i < 64; ++i)
        EXPECT_EQ(ask(directory, "name " + std::to_string(i)), Word{});
}

}  // namespace
}  // namespace warren::fast_lookup_test

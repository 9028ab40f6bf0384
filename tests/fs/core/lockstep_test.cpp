// SPDX-License-Identifier: Apache-2.0
// The operations run by a team of four lanes, on a store whose volume is otherwise at rest, and
// compared with a map. If a value differs between lanes where it must not, the lanes diverge, which
// LockstepTeam reports.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/random.hpp"
#include "fs/ops/allocate.hpp"
#include "fs/ops/change_structure.hpp"
#include "fs/ops/create.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/lookup.hpp"
#include "fs/ops/reclaim.hpp"
#include "fs/ops/rename.hpp"
#include "fs/ops/set_attributes.hpp"
#include "fs/ops/unlink.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::lockstep_test {
namespace {

using Team = LockstepTeam<4>;
using TeamOperation = core::Operation<Team>;

const core::Credentials anyone{.check = false};

/// A volume whose operations are run by a lockstep team instead of by its own driver.
class TeamVolume {
 public:
    TeamVolume(Disk& disk, u64 meta_buffer_bytes) : lanes_(0) {
        implementation_ = open_inside(disk, {.workers = 1, .meta_buffer_bytes = meta_buffer_bytes});
    }
    ~TeamVolume() { EXPECT_EQ(implementation_->close(), Errc::ok); }
    TeamVolume(const TeamVolume&) = delete;
    TeamVolume& operator=(const TeamVolume&) = delete;

    /// Runs `body(op)` on all lanes until it has an answer for the caller.
    template <class Body>
    auto run(const Body& body) {
        for (u32 attempts = 0;; ++attempts) {
            RetryReason retry_reason;
            const auto answer = lanes_.run([&](const Team& team) {
                TeamOperation op(team, implementation_->store());
                auto result = body(op);
                if (team.is_leader()) {
                    retry_reason = {code_of(result), op.needed_place, op.needed_inode,
                                    op.needed_key};
                }
                core::finish(op);
                return result;
            });
            if (is_final(retry_reason.code)) return answer;
            EXPECT_LT(attempts, 1000u) << static_cast<int>(retry_reason.code);
            serve(retry_reason);
        }
    }

    Handle root() {
        return *run([](TeamOperation& op) { return ops::handle_of(op, op.store.root_inode); });
    }
    void commit() { EXPECT_EQ(implementation_->commit(), Errc::ok); }
    const core::Store& store() { return implementation_->store(); }
    Disk& disk() { return implementation_->disk(); }

    /// Prunes the tree after a removal, and frees an orphan.
    void settle(const ops::Removed& removed) {
        if (removed.prune_inode != 0) {
            serve({Errc::need_prune, 0, removed.prune_inode, removed.prune_key});
        }
        if (removed.reclaim.inode == 0) return;
        for (;;) {
            const auto step = run([&](TeamOperation& op) {
                return ops::reclaim_step(op, removed.reclaim, now_nanoseconds());
            });
            ASSERT_TRUE(step);
            if (step->is_done) return settle(step->removed);
        }
    }

 private:
    struct RetryReason {
        Errc code = Errc::ok;
        u64 place = 0;
        u64 inode = 0;
        u64 key = 0;
    };

    void serve(const RetryReason& retry_reason) {
        switch (retry_reason.code) {
            case Errc::need_block: {
                const Errc loaded = implementation_->loader().load(retry_reason.place);
                if (loaded == Errc::need_commit) return commit();
                EXPECT_EQ(loaded, Errc::ok);
                return;
            }
            case Errc::need_split:
            case Errc::need_prune:
                static_cast<void>(
                    run([&](TeamOperation& op) { return change_tree(op, retry_reason); }));
                return;
            case Errc::need_inodes: {
                const Result<u64> frame =
                    core::claim_frame(implementation_->store(), format::FrameKind::inodes);
                ASSERT_TRUE(frame);
                EXPECT_EQ(
                    run([&](TeamOperation& op) { return ops::start_inode_frame(op, *frame); }),
                    Errc::ok);
                return;
            }
            case Errc::retry:
                return;
            default:
                return commit();
        }
    }

    static Errc change_tree(TeamOperation& op, const RetryReason& retry_reason) {
        op.may_use_reserve = true;
        return ops::change_structure(op, retry_reason.code, retry_reason.inode, retry_reason.key);
    }

    Lockstep<4> lanes_;
    std::unique_ptr<VolumeImplementation> implementation_;
};

/// A directory that a team changes, and the names that it must hold.
class TeamDirectory {
 public:
    TeamDirectory(TeamVolume& volume, Handle handle) : volume_(volume), handle_(handle) {}

    Handle handle() const { return handle_; }
    const std::map<std::string, Handle>& names() const { return names_; }

    void create(const std::string& name, u32 mode = 0100644) {
        ops::CreateArguments arguments;
        arguments.mode = mode;
        arguments.now = now_nanoseconds();
        const auto made = volume_.run([&](TeamOperation& op) {
            return ops::create(op, anyone, handle_, name.data(), length_of(name), arguments);
        });
        EXPECT_EQ(made.code(), names_.contains(name) ? Errc::exists : Errc::ok) << name;
        if (made) names_[name] = made->handle;
    }

    void unlink(const std::string& name) {
        const auto removed = volume_.run([&](TeamOperation& op) {
            return ops::unlink(op, anyone, handle_, name.data(), length_of(name), false,
                               now_nanoseconds());
        });
        EXPECT_EQ(removed.code(), names_.erase(name) > 0 ? Errc::ok : Errc::no_entry) << name;
        if (removed) volume_.settle(*removed);
    }

    void lookup(const std::string& name) {
        const auto found = volume_.run([&](TeamOperation& op) {
            return ops::lookup(op, anyone, handle_, name.data(), length_of(name), 0);
        });
        const auto known = names_.find(name);
        if (known == names_.end()) {
            EXPECT_EQ(found.code(), Errc::no_entry) << name;
        } else {
            EXPECT_TRUE(found && found->handle == known->second) << name;
        }
    }

    void rename(const std::string& from, const std::string& to, Rename how) {
        const auto removed = volume_.run([&](TeamOperation& op) {
            return ops::rename(op, anyone, handle_, from.data(), length_of(from), handle_,
                               to.data(), length_of(to), how, now_nanoseconds());
        });
        const bool has_from = names_.contains(from);
        const bool has_to = names_.contains(to);
        Errc wanted = has_from ? Errc::ok : Errc::no_entry;
        const bool may_replace = how != Rename::no_replace && how != Rename::whiteout_no_replace;
        if (has_from && !may_replace && has_to) wanted = Errc::exists;
        if (has_from && how == Rename::exchange && !has_to) wanted = Errc::no_entry;
        EXPECT_EQ(removed.code(), wanted) << from << " to " << to;
        if (!removed) return;
        volume_.settle(*removed);
        if (from == to) return;
        if (how == Rename::exchange) return std::swap(names_[from], names_[to]);
        names_[to] = names_[from];
        names_.erase(from);
        if (!ops::leaves_whiteout(how)) return;
        const auto whiteout = volume_.run([&](TeamOperation& op) {
            return ops::lookup(op, anyone, handle_, from.data(), length_of(from), 0);
        });
        EXPECT_TRUE(whiteout && whiteout->mode == format::type_character) << from;
        if (whiteout) names_[from] = whiteout->handle;
    }

    /// Lists the directory leaf by leaf and compares.
    void expect_listing() {
        std::map<std::string, u64> found;
        auto leaf = std::make_unique<format::DirectoryLeaf>();
        for (u64 key = 0; key != core::key_end;) {
            // The copy belongs to the team: its lanes fill it together.
            const Result<u64> next = volume_.run(
                [&](TeamOperation& op) { return ops::read_leaf(op, handle_, key, *leaf); });
            ASSERT_TRUE(next);
            for (u32 i = 0; i < format::leaf_entries_max; ++i) {
                const format::DirectorySlot slot = leaf->slots[i];
                if (slot.inode() == 0 || format::entry_key(leaf->hashes[i], slot) < key) continue;
                const char* name = reinterpret_cast<const char*>(leaf->heap) + slot.name_offset();
                EXPECT_TRUE(
                    found.emplace(std::string(name, slot.name_length()), slot.inode()).second);
            }
            key = *next;
        }
        std::map<std::string, u64> wanted;
        for (const auto& [name, handle] : names_)
            wanted[name] = handle.inode;
        EXPECT_EQ(found, wanted);
    }

 private:
    static u32 length_of(const std::string& name) { return static_cast<u32>(name.size()); }

    TeamVolume& volume_;
    const Handle handle_;
    std::map<std::string, Handle> names_;
};

class LockstepOperations : public testing::TestWithParam<u64> {
 protected:
    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(256 * mib);
};
INSTANTIATE_TEST_SUITE_P(BlockMaps, LockstepOperations, testing::ValuesIn(block_maps));

std::string some_name(Random& random, u64 among) {
    const u64 number = random.below(among);
    return std::to_string(number) + std::string(number % 11 * 20, 'n');
}

TEST_P(LockstepOperations, onNamesAgreeWithAMap) {
    const Seed seed;
    {
        TeamVolume volume(*disk_, GetParam());
        TeamDirectory directory(volume, volume.root());
        Random random(seed.value());
        // First the directory grows to more than one level of nodes, then most names are removed.
        const u64 steps = (is_sanitized ? 1200 : 2500) * test_load();
        for (u64 step = 0; step < steps && !HasFailure(); ++step) {
            const std::string name = some_name(random, 1500);
            const u64 choice = random.below(10);
            const bool grows = step < steps / 5 * 3;
            if (choice < (grows ? 6 : 1)) {
                directory.create(name);
            } else if (choice < 7) {
                directory.unlink(name);
            } else if (choice < 9) {
                directory.rename(name, some_name(random, 1500),
                                 static_cast<Rename>(random.below(5)));
            } else {
                directory.lookup(name);
            }
            if (step % 500 == 499) directory.expect_listing();
            if (step % 300 == 299) volume.commit();
        }
        for (u64 i = 0; i < 300; ++i)
            directory.lookup(some_name(random, 1500));
        directory.expect_listing();
        while (!directory.names().empty() && !HasFailure()) {
            directory.unlink(directory.names().begin()->first);
        }
        directory.expect_listing();
    }
    expect_clean(*disk_);
}

TEST_P(LockstepOperations, onDirectoriesKeepTheirRules) {
    {
        TeamVolume volume(*disk_, GetParam());
        TeamDirectory root(volume, volume.root());
        root.create("a", 040755);
        root.create("b", 040755);
        TeamDirectory a(volume, root.names().at("a"));
        a.create("inner", 040755);
        ASSERT_TRUE(a.names().contains("inner"));
        const Handle inner = a.names().at("inner");
        const auto rename = [&](Handle from, std::string name, Handle to, std::string new_name) {
            return volume
                .run([&](TeamOperation& op) {
                    return ops::rename(op, anyone, from, name.data(), static_cast<u32>(name.size()),
                                       to, new_name.data(), static_cast<u32>(new_name.size()),
                                       Rename::replace, now_nanoseconds());
                })
                .code();
        };
        EXPECT_EQ(rename(volume.root(), "a", inner, "circle"), Errc::invalid);
        EXPECT_EQ(rename(a.handle(), "inner", volume.root(), "b"), Errc::ok);
        const auto attributes = [&](Handle handle) {
            return volume.run(
                [&](TeamOperation& op) { return ops::get_attributes(op, handle, 0); });
        };
        EXPECT_EQ(attributes(inner)->parent, volume.root().inode);
        EXPECT_EQ(attributes(volume.root())->links, 4u);
        EXPECT_EQ(attributes(a.handle())->links, 2u);
        EXPECT_EQ(attributes(root.names().at("b")).code(), Errc::stale);
        const Handle top = volume.root();
        const auto removed = volume.run([&](TeamOperation& op) {
            return ops::unlink(op, anyone, top, "b", 1, true, now_nanoseconds());
        });
        ASSERT_TRUE(removed);
        volume.settle(*removed);
        EXPECT_EQ(attributes(volume.root())->links, 3u);
    }
    expect_clean(*disk_);
}

/// Copies bytes into and out of a file by its extents, with a disk of blocks as the reference.
TEST_P(LockstepOperations, onContentsAgreeWithABlockMap) {
    const Seed seed;
    {
        TeamVolume volume(*disk_, GetParam());
        TeamDirectory root(volume, volume.root());
        root.create("f");
        const Handle file = root.names().at("f");
        Random random(seed.value());
        std::set<u64> data;  // blocks that hold data
        const auto no_writer = [](const ops::Piece&) { return Errc::ok; };
        for (u64 step = 0; step < 600 * test_load() && !HasFailure(); ++step) {
            // Single blocks far apart make many extents, so that the tree grows nodes.
            const u64 block = random.below(4000);
            const u64 count = random.one_in(8) ? 1 + random.below(30) : 1;
            const bool punches = random.one_in(4);
            for (u64 done = 0; done < count * 4096;) {
                const Result<u64> result = volume.run([&](TeamOperation& op) {
                    return punches
                               ? ops::allocate(op, file, Allocate::punch_hole, block * 4096 + done,
                                               count * 4096 - done, now_nanoseconds(), no_writer)
                               : ops::fill(op, file, block * 4096 + done, count * 4096 - done,
                                           now_nanoseconds(), no_writer);
                });
                ASSERT_TRUE(result);
                done += *result;
            }
            for (u64 i = 0; i < count; ++i) {
                if (punches) data.erase(block + i);
                if (!punches) data.insert(block + i);
            }
            const u64 asked = random.below(4100);
            const Result<ops::Mapping> mapping =
                volume.run([&](TeamOperation& op) { return ops::map(op, file, asked); });
            ASSERT_TRUE(mapping);
            EXPECT_EQ(mapping->kind == ops::MappingKind::data, data.contains(asked)) << asked;
        }
        for (u64 block = 0; block < 4100; ++block) {
            const Result<ops::Mapping> mapping =
                volume.run([&](TeamOperation& op) { return ops::map(op, file, block); });
            ASSERT_TRUE(mapping);
            EXPECT_EQ(mapping->kind == ops::MappingKind::data, data.contains(block)) << block;
        }
        root.unlink("f");
    }
    expect_clean(*disk_);
}

TEST(LockstepTeam, broadcastsAndVotes) {
    struct Large {
        u64 words[500];
    };
    const u64 sum = run_lockstep<4>([](const LockstepTeam<4>& team) {
        Large mine{};
        for (u64& word : mine.words)
            word = team.lane();
        u64 total = 0;
        for (u32 from = 0; from < 4; ++from) {
            const Large got = team.broadcast(mine, from);
            for (const u64 word : got.words)
                total += word;
            const u32 votes = team.ballot(team.lane() == from || team.lane() == 3);
            total += votes;
        }
        total += once(team, [&] { return team.lane() + 100u; });
        return total;
    });
    EXPECT_EQ(sum, 500u * (0 + 1 + 2 + 3) + (9 + 10 + 12 + 8) + 100);
}

TEST(LockstepTeamDeathTest, tellsWhenLanesPart) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(run_lockstep<4>([](const LockstepTeam<4>& team) {
                     if (team.lane() == 2) {
                         team.sync();
                     } else {
                         static_cast<void>(team.ballot(true));
                     }
                 }),
                 "have parted");
    EXPECT_DEATH(run_lockstep<4>([](const LockstepTeam<4>& team) {
                     if (team.lane() != 1) team.sync();
                 }),
                 "have parted");
}

}  // namespace
}  // namespace warren::lockstep_test

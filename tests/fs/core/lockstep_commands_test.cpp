// SPDX-License-Identifier: Apache-2.0
// One sequence of commands for a thread and for four lanes in lockstep, each on a copy of the same
// volume: every reply must be the same on all lanes and for both teams.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/ops/execute.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::lockstep_commands_test {
namespace {

using ops::Command;
using ops::Reply;
using ops::Verb;

/// All that a reply says, as one row that can be compared.
std::vector<u64> row_of(const Command& command, const Reply& reply) {
    if (reply.code != Errc::ok) return {static_cast<u64>(reply.code)};
    const Attributes& is = reply.attributes;
    std::vector<u64> row = {0, reply.value, reply.length, is.handle.inode, is.handle.generation};
    for (const u64 value : {u64{is.mode}, u64{is.links}, u64{is.user}, u64{is.group}, is.size,
                            is.blocks, is.parent, static_cast<u64>(is.changed)}) {
        row.push_back(value);
    }
    const ops::Removed& left = reply.removed;
    for (const u64 value : {left.reclaim.inode, left.prune_inode, left.prune_key})
        row.push_back(value);
    if (reply.has_piece) {
        const ops::Piece& piece = reply.piece;
        for (const u64 value : {piece.file_block, piece.place, u64{piece.blocks},
                                u64{piece.keeps_rest}, u64{piece.has_bytes}}) {
            row.push_back(value);
        }
        row.insert(row.end(), std::begin(piece.bytes.words), std::end(piece.bytes.words));
    }
    if (command.verb == Verb::map) {
        row.push_back(static_cast<u64>(reply.mapping.kind));
        row.push_back(reply.mapping.place);
        row.push_back(reply.mapping.blocks);
    }
    return row;
}

/// One attempt by a team of either kind.
class Thread {
 public:
    Reply attempt(const core::Store& store, const Command& command) {
        core::Operation<ThreadTeam> op(ThreadTeam{}, store);
        Reply reply;
        ops::execute(op, command, reply);
        core::finish(op);
        return reply;
    }
};

class Lanes {
 public:
    Reply attempt(const core::Store& store, const Command& command) {
        std::array<Reply, 4> replies;
        lanes_.run([&](const LockstepTeam<4>& team) {
            core::Operation<LockstepTeam<4>> op(team, store);
            Reply reply;
            ops::execute(op, command, reply);
            core::finish(op);
            replies[team.lane()] = reply;
        });
        for (const Reply& reply : replies) {
            EXPECT_EQ(row_of(command, reply), row_of(command, replies[0]));
            EXPECT_EQ(reply.needed_place, replies[0].needed_place);
            EXPECT_EQ(reply.needed_key, replies[0].needed_key);
        }
        return replies[0];
    }

 private:
    Lockstep<4> lanes_{0};
};

/// A volume whose commands are run by one team.
template <class Runner>
class Side {
 public:
    explicit Side(Disk& disk) { volume_ = open_inside(disk); }
    ~Side() { EXPECT_EQ(volume_->close(), Errc::ok); }

    VolumeImplementation& volume() { return *volume_; }

    /// Repeats the command until there is an answer.
    Reply run(const Command& command) {
        for (u32 attempts = 0;; ++attempts) {
            const Reply reply = runner_.attempt(volume_->store(), command);
            if (is_final(reply.code)) return reply;
            EXPECT_LT(attempts, 1000u) << static_cast<int>(reply.code);
            serve(reply);
        }
    }

    /// Does the work that a removal has left behind.
    void settle(const ops::Removed& removed) {
        if (removed.prune_inode != 0) {
            Command prune;
            prune.verb = Verb::change_structure;
            prune.retry_reason = Errc::need_prune;
            prune.from = removed.prune_inode;
            prune.length = removed.prune_key;
            prune.may_use_reserve = true;
            run(prune);
        }
        if (removed.reclaim.inode == 0) return;
        Command step = command_on(removed.reclaim);
        step.verb = Verb::reclaim_step;
        Reply reply;
        do {
            reply = run(step);
            ASSERT_EQ(reply.code, Errc::ok);
        } while (reply.value == 0);
        settle(reply.removed);
    }

 private:
    void serve(const Reply& retry_reason) {
        Command command;
        switch (retry_reason.code) {
            case Errc::retry:
                return;
            case Errc::need_block:
                EXPECT_EQ(volume_->loader().load(retry_reason.needed_place), Errc::ok);
                return;
            case Errc::need_split:
            case Errc::need_prune:
                command.verb = Verb::change_structure;
                command.retry_reason = retry_reason.code;
                command.from = retry_reason.needed_inode;
                command.length = retry_reason.needed_key;
                command.may_use_reserve = retry_reason.may_use_reserve;
                run(command);
                return;
            case Errc::need_inodes:
                command.verb = Verb::claim_inode_frame;
                command.from = run(command).value;
                ASSERT_NE(command.from, 0u);
                command.verb = Verb::start_inode_frame;
                EXPECT_EQ(run(command).code, Errc::ok);
                return;
            default:
                EXPECT_EQ(volume_->commit(), Errc::ok);
        }
    }

    std::unique_ptr<VolumeImplementation> volume_;
    Runner runner_;
};

/// Draws commands about the names "0" to "79" of one directory and the files found there.
class Dice {
 public:
    Dice(u64 seed, Handle root) : random_(seed), root_(root) {}

    Command draw() {
        Command command = command_on(pick());
        command.now = ++now_;
        set_name(command, name_ = std::to_string(random_.below(80)) + std::string(60, 'n'));
        new_name_ = std::to_string(random_.below(80));
        if (random_.below(3) == 0) {
            draw_contents(command);
        } else {
            draw_names(command);
        }
        return command;
    }
    void learn(const Reply& reply) {
        if (reply.code == Errc::ok && reply.attributes.handle.inode != 0) {
            known_[random_.below(known_.size())] = reply.attributes.handle;
        }
    }

 private:
    Handle pick() { return random_.below(4) == 0 ? root_ : known_[random_.below(known_.size())]; }

    void draw_names(Command& command) {
        constexpr Verb verbs[] = {
            Verb::lookup,         Verb::create,    Verb::create,           Verb::create_unnamed,
            Verb::link,           Verb::unlink,    Verb::rename,           Verb::get_attributes,
            Verb::set_attributes, Verb::handle_of, Verb::attributes_of,    Verb::check_access,
            Verb::count_names,    Verb::pack,      Verb::remove_directory, Verb::clone,
            Verb::clone};
        command.verb = verbs[random_.below(std::size(verbs))];
        command.mode = random_.below(8) == 0 ? 040755 : 0100644;
        command.from = command.handle.inode;
        command.how = static_cast<u8>(random_.below(4));
        command.target = root_;
        command.new_name = new_name_.data();
        command.new_name_length = static_cast<u32>(new_name_.size());
        command.change.which = AttributeChange::mode | AttributeChange::changed;
        command.change.new_mode = static_cast<u32>(random_.below(01000));
        const bool in_root = command.verb != Verb::link && random_.below(4) != 0;
        if (in_root && command.verb < Verb::get_attributes) command.handle = root_;
        if (command.verb == Verb::pack) command.mode = static_cast<u32>(random_.below(4));
        if (command.verb == Verb::pack) command.from = 0;
    }

    void draw_contents(Command& command) {
        constexpr Verb verbs[] = {Verb::map,      Verb::tail_to_zero, Verb::store_inline,
                                  Verb::fill,     Verb::fill,         Verb::truncate,
                                  Verb::allocate, Verb::seek,         Verb::share,
                                  Verb::share,    Verb::unshare,      Verb::count_shared};
        command.verb = verbs[random_.below(std::size(verbs))];
        command.how = static_cast<u8>(random_.below(6));
        command.from = random_.below(3) == 0 ? random_.below(200) : random_.below(200) * 4096;
        command.length = random_.below(40'000);
        const bool counts_blocks = command.verb == Verb::map || command.verb == Verb::share ||
                                   command.verb == Verb::unshare ||
                                   command.verb == Verb::count_shared;
        if (counts_blocks) command.from = random_.below(200);
        if (counts_blocks) command.length = 1 + random_.below(50);
        if (command.verb == Verb::share) {
            command.target = pick();
            const bool is_one = command.target == command.handle;
            command.to = is_one ? command.from + command.length : random_.below(200);
            command.references = (command.to + command.length) * 4096;
        }
        command.text = text_;
        command.text_bytes = random_.below(sizeof text_);
    }

    Random random_;
    const Handle root_;
    std::array<Handle, 16> known_{};
    i64 now_ = 1'000'000'000;
    char text_[100] = "text";
    std::string name_;
    std::string new_name_;
};

TEST(LockstepCommands, getTheRepliesOfAThread) {
    const Seed seed;
    const auto disk = make_memory_disk(64 * mib);
    const auto twin = disk->copy();
    {
        Side<Thread> thread(*disk);
        Side<Lanes> lanes(*twin);
        const u64 number = thread.volume().store().root_inode;
        Command find;
        find.verb = Verb::handle_of;
        find.from = number;
        Dice dice(seed.value(), thread.run(find).attributes.handle);
        const u64 steps = (is_sanitized ? u64{750} : u64{3000}) * test_load();
        for (u64 step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
            const Command command = dice.draw();
            const Reply wanted = thread.run(command);
            const Reply found = lanes.run(command);
            ASSERT_EQ(row_of(command, found), row_of(command, wanted))
                << "verb " << static_cast<int>(command.verb) << ", step " << step;
            dice.learn(wanted);
            const bool removes = command.verb == Verb::unlink || command.verb == Verb::rename ||
                                 command.verb == Verb::remove_directory;
            if (removes && wanted.code == Errc::ok) {
                thread.settle(wanted.removed);
                lanes.settle(found.removed);
            }
            if (step % 500 == 499) {
                EXPECT_EQ(thread.volume().commit(), Errc::ok);
                EXPECT_EQ(lanes.volume().commit(), Errc::ok);
            }
        }
    }
    for (Disk* const image : {static_cast<Disk*>(disk.get()), static_cast<Disk*>(twin.get())}) {
        // Files without a name remain; opening the volume frees them.
        const auto volume = open_on(*image);
        ASSERT_TRUE(volume);
        EXPECT_EQ(volume->close(), Errc::ok);
        expect_clean(*image);
    }
}

/// An invalid command gets an error and changes nothing.
TEST(LockstepCommands, refusesWhatMakesNoSense) {
    const auto disk = make_memory_disk(64 * mib);
    {
        Side<Thread> side(*disk);
        Command command;
        command.verb = static_cast<Verb>(200);
        EXPECT_EQ(side.run(command).code, Errc::not_supported);
        command.handle = {1, 1};
        command.how = 77;
        for (const Verb verb : {Verb::rename, Verb::set_attribute, Verb::allocate, Verb::seek,
                                Verb::read_leaf, Verb::change_structure, Verb::pack}) {
            command.verb = verb;
            EXPECT_EQ(side.run(command).code, Errc::invalid) << static_cast<int>(verb);
        }
        command.from = ~u64{0};
        for (const Verb verb : {Verb::start_inode_frame, Verb::unclaim_frame}) {
            command.verb = verb;
            EXPECT_EQ(side.run(command).code, Errc::invalid) << static_cast<int>(verb);
        }
        command.verb = Verb::set_attributes;
        command.change.which = AttributeChange::size;
        EXPECT_EQ(side.run(command).code, Errc::invalid);
        for (const Verb verb : {Verb::handle_of, Verb::attributes_of, Verb::start_dying,
                                Verb::get_attributes, Verb::lookup, Verb::forget}) {
            command.verb = verb;
            EXPECT_NE(side.run(command).code, Errc::ok) << static_cast<int>(verb);
        }
    }
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren::lockstep_commands_test

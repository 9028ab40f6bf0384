// SPDX-License-Identifier: Apache-2.0
// The protocol of the ranks: all interleavings of small worlds, and very many random schedules of
// larger ones. A world ends when all ranks have left; then every item has been done once and no
// message is in transit. From every reachable state the end can be reached.
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "walk/explorer.hpp"
#include "walk/rank_world.hpp"

namespace warren::walk::rank_test {

namespace {

struct Walked {
    u64 messages = 0;
    std::vector<u64> done;
};

Explored explore(const WorldRules& rules, bool aborts) {
    return walk::explore(World(rules), aborts);
}

/// One random schedule; returns what went wrong, or nothing.
std::string run_schedule(const WorldRules& rules, u64 seed, bool aborts, Walked* walked = nullptr) {
    World world(rules);
    const std::string fault = walk::run_schedule(world, seed, aborts);
    if (walked != nullptr) {
        walked->messages = world.messages();
        for (u32 rank = 0; rank < world.ranks(); ++rank)
            walked->done.push_back(world.done_by(rank));
    }
    return fault;
}

WorldRules random_rules(Random& random) {
    WorldRules rules;
    const SchedulerName& name = scheduler_names()[random.below(scheduler_names().size())];
    rules.scheduler = name.scheduler;
    rules.split = random.one_in(2) ? Split::half : Split::random;
    rules.termination = random.one_in(2) ? Termination::dijkstra : Termination::safra;
    rules.node_of.resize(1 + random.below(7));
    const u64 nodes = 1 + random.below(3);
    for (u32& node : rules.node_of)
        node = static_cast<u32>(random.below(nodes));
    rules.first_item = static_cast<u32>(random.below(5));
    rules.fanout = 1 + static_cast<u32>(random.below(3));
    return rules;
}

enum class Aborts : u8 { never, sometimes };

void run_schedules(u64 count, Aborts aborts, const Seed& seed) {
    for (u64 part = 0; part < count; ++part) {
        Random random(seed.part(part));
        const WorldRules rules = random_rules(random);
        const bool may_abort = aborts == Aborts::sometimes && random.one_in(2);
        const std::string fault = run_schedule(rules, random.next(), may_abort);
        ASSERT_EQ(fault, "") << "schedule " << part;
    }
}

}  // namespace

TEST(Rank, AllInterleavingsOfTwo) {
    for (const SchedulerName& name : scheduler_names()) {
        for (const Termination termination : {Termination::dijkstra, Termination::safra}) {
            WorldRules rules;
            rules.scheduler = name.scheduler;
            rules.split = name.split;
            rules.termination = termination;
            rules.node_of = {0, 0};
            rules.first_item = 2;
            EXPECT_EQ(explore(rules, false).fault, "") << name.name;
        }
    }
}

TEST(Rank, AllInterleavingsOfTwoThatAbort) {
    for (const SchedulerName& name : scheduler_names()) {
        WorldRules rules;
        rules.scheduler = name.scheduler;
        rules.split = name.split;
        rules.node_of = {0, 0};
        EXPECT_EQ(explore(rules, true).fault, "") << name.name;
    }
}

// A rank that is taken for idle while a callback runs: the walk ends too early, which is detected.
TEST(Rank, TheExplorerSeesAnEarlyEnd) {
    for (const Termination termination : {Termination::dijkstra, Termination::safra}) {
        WorldRules rules;
        rules.node_of = {0, 0};
        rules.hides_work = true;
        rules.termination = termination;
        const Explored found = explore(rules, false);
        EXPECT_NE(found.fault, "");
        EXPECT_NE(found.fault, "too many states");
    }
}

TEST(Rank, RandomSchedules) {
    const Seed seed;
    run_schedules(2000 * test_load(), Aborts::sometimes, seed);
}

TEST(Rank, AllInterleavingsOfThree) {
    for (const char* name : {"drqs", "deqs", "pa-drqs", "cp-keep-one"}) {
        WorldRules rules;
        rules.scheduler = scheduler_named(name)->scheduler;
        rules.split = scheduler_named(name)->split;
        EXPECT_EQ(explore(rules, false).fault, "") << name;
    }
}

TEST(Rank, LongAllInterleavingsOfThree) {
    for (const SchedulerName& name : scheduler_names()) {
        if (name.name == "h-drqs") continue;  // the ranks of drqs
        for (const Termination termination : {Termination::dijkstra, Termination::safra}) {
            WorldRules rules;
            rules.scheduler = name.scheduler;
            rules.split = name.split;
            rules.termination = termination;
            rules.fanout = 3;
            EXPECT_EQ(explore(rules, false).fault, "") << name.name;
        }
    }
}

TEST(Rank, LongAllInterleavingsOfThreeThatAbort) {
    for (const char* name : {"drqs", "pa-drqs", "cp"}) {
        WorldRules rules;
        rules.scheduler = scheduler_named(name)->scheduler;
        EXPECT_EQ(explore(rules, true).fault, "") << name;
    }
}

TEST(Rank, LongAllInterleavingsOfTwoNodesWithTwo) {
    for (const char* name : {"pa-drqs", "pa-drqs-list", "drqs"}) {
        WorldRules rules;
        rules.scheduler = scheduler_named(name)->scheduler;
        rules.split = Split::half;
        rules.node_of = {0, 0, 1, 1};
        EXPECT_EQ(explore(rules, false).fault, "") << name;
    }
}

TEST(Rank, LongAMillionSchedules) {
    const Seed seed;
    run_schedules(1'000'000, Aborts::never, seed);
}

TEST(Rank, LongAMillionSchedulesThatAbort) {
    const Seed seed;
    run_schedules(1'000'000, Aborts::sometimes, seed);
}

TEST(Rank, NamesOfSchedulers) {
    EXPECT_EQ(scheduler_named("deqs")->split, Split::half);
    EXPECT_EQ(scheduler_named("drqs")->split, Split::random);
    EXPECT_EQ(scheduler_named("cp-keep-one")->scheduler, Scheduler::cp_keep_one);
    EXPECT_FALSE(scheduler_named("nothing").has_value());
}

// Stealing needs far fewer messages than central distribution, and no rank does all of the work.
TEST(Rank, StealingSendsLessThanHandingOut) {
    const Seed seed;
    WorldRules rules;
    rules.node_of = {0, 0, 1, 1};
    rules.first_item = 8;
    rules.fanout = 3;
    Walked central;
    Walked stealing;
    rules.scheduler = Scheduler::cp;
    ASSERT_EQ(run_schedule(rules, seed.part(0), false, &central), "");
    rules.scheduler = Scheduler::drqs;
    rules.split = Split::half;
    ASSERT_EQ(run_schedule(rules, seed.part(1), false, &stealing), "");
    EXPECT_LT(stealing.messages * 4, central.messages);
    EXPECT_EQ(central.done[0], 0u);
    for (const u64 done : stealing.done)
        EXPECT_GT(done, 0u);
}

// A worker may finish the accepted work before accept() returns.
class Swift : public RankCallbacks {
 public:
    std::vector<Message::Kind> sent;
    void send(u32 /*to*/, Message message) override { sent.push_back(message.kind); }
    u32 choose(u32 /*count*/) override { return 0; }
    bool has_queued() const override { return false; }
    bool is_working() const override { return false; }
    u64 items_done() const override { return items_done_; }
    std::string give(Split /*split*/) override { return {}; }
    std::string give_one() override { return {}; }
    std::string give_all_but(u32 /*kept*/) override { return {}; }
    void accept(const std::string& /*work*/) override { ++items_done_; }
    void drop() override {}

 private:
    u64 items_done_ = 0;
};

TEST(Rank, AnItemThatIsDoneAtOnceIsFollowedByTheNext) {
    for (const Scheduler scheduler : {Scheduler::cp, Scheduler::cp_keep_one}) {
        Swift callbacks;
        const std::vector<u32> node_of = {0, 0};
        Rank rank(scheduler, Split::half, Termination::dijkstra, 1,
                  std::make_shared<const Nodes>(node_of));
        Message work;
        work.kind = Message::Kind::work;
        for (size_t items = 0; items < 3; ++items) {
            rank.step(callbacks, true);
            rank.receive(0, work, callbacks);
        }
        EXPECT_EQ(callbacks.sent, std::vector<Message::Kind>(3, Message::Kind::request));
    }
}

// The reader of a huge directory continues only when rank 0 has what was handed back.
class Reader : public Swift {
 public:
    std::vector<Message> pieces;
    u64 parts = 0;
    void send(u32 /*to*/, Message message) override { pieces.push_back(std::move(message)); }
    bool has_queued() const override { return true; }
    u64 items_done() const override { return parts; }
    std::string give_all_but(u32 /*kept*/) override { return "names"; }
};

TEST(Rank, AHugeDirectoryIsHandedBackAsFastAsItIsTaken) {
    const std::vector<u32> node_of = {0, 0};
    const auto nodes = std::make_shared<const Nodes>(node_of);
    Rank reader(Scheduler::cp, Split::half, Termination::dijkstra, 1, nodes);
    Rank first(Scheduler::cp, Split::half, Termination::dijkstra, 0, nodes);
    Reader callbacks;
    Swift of_first;
    Message work;
    work.kind = Message::Kind::work;
    reader.receive(0, work, callbacks);
    u64 handed_back = 0;
    for (u32 round = 0; round < 3; ++round) {
        for (u32 step = 0; step < 10; ++step) {
            ++callbacks.parts;
            reader.step(callbacks, true);
        }
        EXPECT_LE(callbacks.pieces.size(), 2u);
        for (const Message& piece : std::exchange(callbacks.pieces, {})) {
            ASSERT_EQ(piece.kind, Message::Kind::work);
            ++handed_back;
            first.receive(1, piece, of_first);
        }
        ASSERT_EQ(of_first.sent, std::vector(round + 1, Message::Kind::acknowledge));
        reader.receive(0, {Message::Kind::acknowledge, false, false, 0, {}}, callbacks);
    }
    EXPECT_EQ(handed_back, 6u);
}

}  // namespace warren::walk::rank_test

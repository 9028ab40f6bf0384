// SPDX-License-Identifier: Apache-2.0
// The protocol of the ranks: all interleavings of small worlds, and very many random schedules of
// larger ones. A world ends when all have left; then all items have been done once and no message
// is under way. From every state that can be reached there is a way to the end.
#include <gtest/gtest.h>

#include <optional>
#include <unordered_map>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "walk/rank_world.hpp"

namespace warren::walk {

namespace {

/// Answers from a script, and notes how many answers each question had.
class Script {
 public:
    u32 answer(u32 count) {
        if (at_ == answers_.size()) answers_.push_back({0, count});
        return answers_[at_++].first;
    }
    /// Goes on to the next script; false if that was the last.
    bool next() {
        at_ = 0;
        while (!answers_.empty() && answers_.back().first + 1 == answers_.back().second)
            answers_.pop_back();
        if (answers_.empty()) return false;
        ++answers_.back().first;
        return true;
    }

 private:
    std::vector<std::pair<u32, u32>> answers_;
    size_t at_ = 0;
};

struct Explored {
    u64 states = 0;
    u64 ends = 0;
    std::string fault;
};

/// Visits every state of the world. With `aborts`, any rank may abort the walk at any moment, once.
class Explorer {
 public:
    explicit Explorer(bool aborts) : aborts_(aborts) {}

    Explored explore(const World& start, size_t states_most) {
        number(start);
        for (u32 at = 0; at < worlds_.size(); ++at) {
            const World world = *worlds_[at];
            worlds_[at].reset();
            if (world.all_have_left()) {
                ends_.push_back(at);
                continue;
            }
            if (!visit(at, world)) return result_;
            if (worlds_.size() > states_most) {
                result_.fault = "too many states";
                return result_;
            }
        }
        result_.states = worlds_.size();
        result_.ends = ends_.size();
        if (result_.ends == 0) result_.fault = "no end";
        look_back();
        return result_;
    }

 private:
    bool visit(u32 at, const World& world) {
        std::vector<World::Event> events = world.events();
        if (aborts_ && !world.was_aborted()) {
            for (u32 rank = 0; rank < world.ranks(); ++rank)
                events.push_back({World::What::abort, rank});
        }
        for (const World::Event& event : events) {
            Script script;
            do {
                World next = world;
                next.happen(event, [&](u32 count) { return script.answer(count); });
                result_.fault = next.fault();
                if (!result_.fault.empty()) return false;
                before_[number(next)].push_back(at);
            } while (script.next());
        }
        return true;
    }

    u32 number(const World& world) {
        const auto [place, is_new] =
            numbers_.try_emplace(world.fingerprint(), static_cast<u32>(worlds_.size()));
        if (is_new) {
            worlds_.emplace_back(world);
            before_.emplace_back();
        }
        return place->second;
    }

    /// From which states is there a way to an end?
    void look_back() {
        std::vector<bool> reached(worlds_.size(), false);
        std::vector<u32> open = ends_;
        u64 count = 0;
        while (!open.empty()) {
            const u32 at = open.back();
            open.pop_back();
            if (reached[at]) continue;
            reached[at] = true;
            ++count;
            open.insert(open.end(), before_[at].begin(), before_[at].end());
        }
        if (count != worlds_.size()) result_.fault = "a state without a way to the end";
    }

    bool aborts_;
    Explored result_;
    std::vector<std::optional<World>> worlds_;  // not yet visited
    std::vector<std::vector<u32>> before_;
    std::vector<u32> ends_;
    std::unordered_map<std::string, u32> numbers_;
};

Explored explore(const WorldRules& rules, bool aborts, size_t states_most = 4'000'000) {
    const Explored found = Explorer(aborts).explore(World(rules), states_most);
    std::printf("[  STATES  ] %llu, of which %llu ends\n",
                static_cast<unsigned long long>(found.states),
                static_cast<unsigned long long>(found.ends));
    return found;
}

struct Walked {
    u64 messages = 0;
    std::vector<u64> done;
};

/// One random schedule; what went wrong, or nothing.
std::string run_schedule(const WorldRules& rules, u64 seed, bool aborts, Walked* walked = nullptr) {
    Random random(seed);
    World world(rules);
    const World::Choose choose = [&](u32 count) { return static_cast<u32>(random.below(count)); };
    // What is likely differs from schedule to schedule: slow messages, slow work, eager thieves.
    u64 weights[6] = {};
    for (u64& weight : weights)
        weight = 1 + random.below(8);
    for (u64 moment = 0; !world.all_have_left(); ++moment) {
        if (moment == 2'000'000) return "it does not end";
        if (aborts && !world.was_aborted() && random.one_in(200)) {
            world.happen({World::What::abort, choose(world.ranks())}, choose);
            continue;
        }
        const std::vector<World::Event> events = world.events();
        const World::Event& event = events[random.below(events.size())];
        if (random.below(8) >= weights[static_cast<size_t>(event.what)]) continue;
        world.happen(event, choose);
        const std::string fault = world.fault();
        if (!fault.empty()) return fault;
    }
    if (walked != nullptr) {
        walked->messages = world.messages();
        for (u32 rank = 0; rank < world.ranks(); ++rank)
            walked->done.push_back(world.done_by(rank));
    }
    return {};
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

// A rank that is thought idle while a callback runs: the walk ends too early, and this is seen.
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
    for (const char* name : {"pa-drqs", "drqs"}) {
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

// Stealing needs far fewer messages than handing out every item, and no rank does all of the work.
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

}  // namespace warren::walk

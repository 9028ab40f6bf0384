// SPDX-License-Identifier: Apache-2.0
// Implements tests/walk/rank_world.hpp, and tests that its items are counted correctly.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "walk/rank_world.hpp"

namespace warren::walk {

class World::View : public RankCallbacks {
 public:
    View(World& world, u32 self, const Choose& choose)
        : world_(world), state_(world.states_[self]), self_(self), choose_(choose) {}

    void send(u32 to, Message message) override {
        ++world_.messages_;
        world_.channels_[self_ * world_.ranks() + to].push_back(std::move(message));
    }
    u32 choose(u32 count) override { return count == 1 ? 0 : choose_(count); }
    bool has_queued() const override { return !state_.queue.empty(); }
    bool is_working() const override {
        return !world_.rules_.hides_work && !state_.in_hand.empty();
    }
    u64 items_done() const override { return state_.done; }
    std::string give(Split split) override {
        // An idle rank keeps an item for itself.
        const u32 kept = state_.in_hand.empty() ? 1 : 0;
        const u32 there = static_cast<u32>(state_.queue.size());
        if (there <= kept) return {};
        const u32 most = there - kept;
        return take(split == Split::half ? (most + 1) / 2 : 1 + choose(most));
    }
    std::string give_one() override { return take(1); }
    std::string give_all_but(u32 kept) override {
        const size_t there = state_.queue.size();
        return take(static_cast<u32>(there - std::min<size_t>(there, kept)));
    }
    void accept(const std::string& work) override { state_.queue += work; }
    void drop() override { state_.queue.clear(); }

 private:
    std::string take(u32 count) {
        std::string part = state_.queue.substr(0, count);
        state_.queue.erase(0, count);
        return part;
    }

    World& world_;
    State& state_;
    u32 self_;
    const Choose& choose_;
};

World::World(const WorldRules& rules) : rules_(rules) {
    const u32 count = static_cast<u32>(rules.node_of.size());
    const auto nodes = std::make_shared<const Nodes>(rules.node_of);
    for (u32 rank = 0; rank < count; ++rank)
        ranks_.emplace_back(rules.scheduler, rules.split, rules.termination, rank, nodes);
    states_.resize(count);
    states_[0].queue = std::string(1, static_cast<char>('0' + rules.first_item));
    channels_.resize(size_t{count} * count);
}

std::vector<World::Event> World::events() const {
    std::vector<Event> all;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        for (u32 from = 0; from < ranks(); ++from) {
            if (!channels_[from * ranks() + rank].empty()) {
                all.push_back({What::deliver, rank, from});
            }
        }
        if (ranks_[rank].has_left()) continue;
        all.push_back({What::step, rank});
        all.push_back({What::step_without_asking, rank});
        const State& state = states_[rank];
        const bool may_start = ranks_[rank].may_work() && state.in_hand.empty();
        if (may_start && !state.queue.empty()) all.push_back({What::start, rank});
        if (!state.in_hand.empty()) all.push_back({What::finish, rank});
    }
    return all;
}

void World::happen(const Event& event, const Choose& choose) {
    View view(*this, event.rank, choose);
    Rank& rank = ranks_[event.rank];
    State& state = states_[event.rank];
    switch (event.what) {
        case What::deliver: {
            auto& channel = channels_[event.from * ranks() + event.rank];
            const Message message = std::move(channel.front());
            channel.pop_front();
            return rank.receive(event.from, message, view);
        }
        case What::step:
            return rank.step(view, true);
        case What::step_without_asking:
            return rank.step(view, false);
        case What::start:
            state.in_hand = state.queue.back();
            state.queue.pop_back();
            return;
        case What::finish: {
            const char item = state.in_hand[0];
            state.in_hand.clear();
            ++state.done;
            if (item > '0') state.queue += std::string(rules_.fanout, static_cast<char>(item - 1));
            return;
        }
        case What::abort:
            aborted_ = true;
            return rank.abort(view);
    }
}

bool World::all_have_left() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.has_left(); });
}

u64 World::done() const {
    return std::accumulate(states_.begin(), states_.end(), u64{0},
                           [](u64 sum, const State& state) { return sum + state.done; });
}

u64 World::expected() const {
    u64 sum = 0;
    u64 level = 1;
    for (u32 item = 0; item <= rules_.first_item; ++item, level *= rules_.fanout)
        sum += level;
    return sum;
}

std::string World::fault() const {
    for (u32 rank = 0; rank < ranks(); ++rank) {
        const std::string who = "rank " + std::to_string(rank);
        const bool is_over = ranks_[rank].has_left();
        if (is_over && !aborted_ && done() != expected()) return who + " left before all was done";
        if (is_over && !states_[rank].queue.empty()) return who + " left with items";
        if (is_over && !states_[rank].in_hand.empty()) return who + " left in its work";
        if (!is_over) continue;
        for (u32 from = 0; from < ranks(); ++from) {
            if (!channels_[from * ranks() + rank].empty()) return who + " left before a message";
        }
    }
    return {};
}

std::string World::fingerprint() const {
    std::string text;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        const State& state = states_[rank];
        std::string queue = state.queue;
        text += ranks_[rank].fingerprint() + ";" + queue + "|" + state.in_hand + "|" +
                std::to_string(state.done) + ";";
    }
    for (const auto& channel : channels_) {
        for (const Message& message : channel) {
            text += static_cast<char>('a' + static_cast<int>(message.kind));
            text += message.black ? 'B' : message.aborts ? 'A' : '.';
            text += std::to_string(message.balance) + message.work;
        }
        text += '/';
    }
    return text + (aborted_ ? "!" : "");
}

TEST(RankWorld, OneRankDoesAll) {
    WorldRules rules;
    rules.node_of = {0};
    rules.first_item = 3;
    World world(rules);
    EXPECT_EQ(world.expected(), 15u);
    while (!world.all_have_left()) {
        const auto events = world.events();
        world.happen(events.back(), [](u32) { return 0u; });
        world.happen({World::What::step, 0}, [](u32) { return 0u; });
    }
    EXPECT_EQ(world.done(), 15u);
    EXPECT_EQ(world.messages(), 0u);
    EXPECT_EQ(world.fault(), "");
}

}  // namespace warren::walk

// SPDX-License-Identifier: Apache-2.0
// Implements tests/walk/lease_world.hpp by the rules of walk/engine.cpp and walk/courier_work.cpp,
// with numbers as directories. And tests that a single rank does all the work.
#include "walk/lease_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace warren::walk {

class LeaseWorld::View : public RankCallbacks {
 public:
    View(LeaseWorld& world, u32 self, const Choose& choose)
        : world_(world), state_(world.states_[self]), self_(self), choose_(choose) {}

    void send(u32 to, Message message) override {
        world_.channels_[self_ * world_.ranks() + to].push_back({false, {}, std::move(message)});
    }
    u32 choose(u32 count) override { return count == 1 ? 0 : choose_(count); }
    bool has_queued() const override { return !state_.queue.empty(); }
    bool is_working() const override { return !state_.in_hand.empty(); }
    bool is_idle() const override { return !has_queued() && !is_working() && state_.here.empty(); }
    bool owes() const override {
        if (world_.rules_.fault == Fault::keeps_no_debt) return false;
        return state_.owed != 0 || !state_.returning.empty();
    }
    u64 items_done() const override { return state_.done; }
    std::string give(Split split) override {
        const size_t kept = state_.in_hand.empty() ? 1 : 0;
        const bool has_names = world_.rules_.scheduler == Scheduler::batches &&
                               state_.queue.size() == 1 && is_read(state_.queue[0]);
        if (has_names && kept == 1) return give_oldest(1);
        if (state_.queue.size() <= kept) return {};
        const u32 most = static_cast<u32>(state_.queue.size() - kept);
        return give_oldest(split == Split::half ? (most + 1) / 2 : 1 + choose(most));
    }
    std::string give_one() override { return give_oldest(1); }
    std::string give_all_but(u32 kept) override {
        const size_t there = state_.queue.size();
        return give_oldest(static_cast<u32>(there - std::min<size_t>(there, kept)));
    }
    void accept(const std::string& work) override {
        for (const Sent& sent : sent_in(work)) {
            const bool is_whole = sent.work == Work::directory;
            const u32 directory =
                world_.make(self_, sent.level, is_whole ? NodeKind::adopted : NodeKind::part, none);
            Directory& made = state_.directories[directory];
            made.owner = sent.owner;
            made.result = sent.result;
            ++state_.owed;
            state_.queue.push_back({sent.work, directory, sent.parts, 0});
        }
    }
    void decline(const std::string& work) override {
        for (const Sent& sent : sent_in(work)) {
            ++state_.owed;
            state_.returning.push_back({sent.owner, 0});
        }
    }
    void drop() override { state_.stopped = true; }

 private:
    static std::vector<Sent> sent_in(const std::string& work) {
        std::vector<Sent> all(work.size() / sizeof(Sent));
        work.copy(reinterpret_cast<char*>(all.data()), work.size());
        return all;
    }
    bool is_read(const Item& item) const {
        return item.work == Work::directory && state_.directories[item.directory].is_open;
    }
    /// Directories being read stay; their next names are given away if there is nothing else.
    std::string give_oldest(u32 count) {
        std::vector<Item> items(state_.queue.begin(), state_.queue.begin() + count);
        state_.queue.erase(state_.queue.begin(), state_.queue.begin() + count);
        const bool gives_names = std::all_of(items.begin(), items.end(),
                                             [&](const Item& item) { return is_read(item); });
        std::vector<Item> kept;
        std::string work;
        for (const Item& item : items) {
            if (is_read(item)) kept.push_back(item);
            if (!is_read(item) || gives_names) give_item(item, is_read(item), work);
        }
        state_.queue.insert(state_.queue.begin(), kept.begin(), kept.end());
        return work;
    }
    void give_item(const Item& item, bool is_read, std::string& work) {
        Directory& directory = state_.directories[item.directory];
        Sent sent{};
        sent.level = directory.level;
        sent.work = is_read ? Work::names : item.work;
        if (is_read) {
            if (directory.parts_left == 0) return;
            --directory.parts_left;
            ++directory.pending;
            sent.parts = 1;
            sent.owner = state_.leases.issue(self_, item.directory);
        } else {
            const bool passes = passes_on(directory.kind, item.work, directory.pending) &&
                                world_.rules_.fault != Fault::issues_anew;
            const bool is_whole = item.work == Work::directory;
            const u32 leased = is_whole ? directory.above : item.directory;
            sent.parts = item.parts;
            sent.result = is_whole ? directory.result : 0;
            sent.owner = passes ? directory.owner : state_.leases.issue(self_, leased);
            const bool goes = is_whole || passes;
            if (goes && is_owed(directory.kind, true)) --state_.owed;
            if (goes) directory = {};
        }
        work.append(reinterpret_cast<const char*>(&sent), sizeof sent);
    }

    LeaseWorld& world_;
    State& state_;
    u32 self_;
    const Choose& choose_;
};

LeaseWorld::LeaseWorld(const LeaseRules& rules) : rules_(rules) {
    const u32 count = static_cast<u32>(rules.node_of.size());
    const auto nodes = std::make_shared<const Nodes>(rules.node_of);
    for (u32 rank = 0; rank < count; ++rank)
        ranks_.emplace_back(rules.scheduler, rules.split, Termination::dijkstra, rank, nodes);
    states_.resize(count);
    channels_.resize(size_t{count} * count);
    const u32 root = make(0, rules.level, NodeKind::own, none);
    states_[0].queue.push_back({Work::directory, root, 0, 0});
    states_[0].owed = 1;
}

u32 LeaseWorld::make(u32 rank, u32 level, NodeKind kind, u32 above) {
    std::vector<Directory>& all = states_[rank].directories;
    const auto free = std::find_if(all.begin(), all.end(),
                                   [](const Directory& directory) { return !directory.exists; });
    const auto index = static_cast<u32>(free - all.begin());
    if (free == all.end()) all.emplace_back();
    all[index] = {true, level, kind, above, 1, 0, false, 0, {}};
    if (above != none) ++all[above].pending;
    return index;
}

std::vector<LeaseWorld::Event> LeaseWorld::events() const {
    std::vector<Event> all;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        for (u32 from = 0; from < ranks(); ++from) {
            if (!channels_[from * ranks() + rank].empty()) {
                all.push_back({What::deliver, rank, from});
            }
        }
        const State& state = states_[rank];
        if (ranks_[rank].has_left()) continue;
        all.push_back({What::step, rank});
        all.push_back({What::step_without_asking, rank});
        if (!state.returning.empty()) all.push_back({What::send, rank});
        const bool may_start = ranks_[rank].may_work() || state.stopped || !state.here.empty();
        const bool has_items = !state.queue.empty() || !state.here.empty();
        if (may_start && has_items && state.in_hand.empty()) all.push_back({What::start, rank});
        if (!state.in_hand.empty()) all.push_back({What::finish, rank});
    }
    return all;
}

void LeaseWorld::happen(const Event& event, const Choose& choose) {
    View view(*this, event.rank, choose);
    Rank& rank = ranks_[event.rank];
    switch (event.what) {
        case What::deliver: {
            auto& channel = channels_[event.from * ranks() + event.rank];
            const Delivery delivery = std::move(channel.front());
            channel.pop_front();
            if (delivery.is_result) return take_result(event.rank, delivery.result);
            return rank.receive(event.from, delivery.message, view);
        }
        case What::step:
            return rank.step(view, true);
        case What::step_without_asking:
            return rank.step(view, false);
        case What::start:
            return start(event.rank);
        case What::finish:
            return finish_item(event.rank);
        case What::send:
            return send_results(event.rank);
        case What::abort:
            aborted_ = true;
            return rank.abort(view);
    }
}

/// Takes an item; a directory with further parts goes back into the queue before its part is
/// processed.
void LeaseWorld::start(u32 rank) {
    State& state = states_[rank];
    std::vector<Item>& from = state.here.empty() ? state.queue : state.here;
    const Item item = from.back();
    from.pop_back();
    state.in_hand = {item};
    state.reads = false;
    if (item.work != Work::directory || state.stopped) return;
    Directory& directory = state.directories[item.directory];
    if (!directory.is_open) {
        directory.parts_left = directory.level == 0 ? 0 : rules_.parts;
    }
    directory.is_open = true;
    if (directory.parts_left == 0) return;
    --directory.parts_left;
    state.reads = true;
    if (rules_.parts == 1) return;
    ++directory.pending;
    state.queue.push_back(item);
}

void LeaseWorld::finish_item(u32 rank) {
    State& state = states_[rank];
    const Item item = state.in_hand[0];
    state.in_hand.clear();
    if (item.work == Work::merge) {
        if (item.directory == none) {
            total_ += item.result;
            return root_done(rank);
        }
        state.directories[item.directory].result += item.result;
        return release(rank, item.directory);
    }
    ++state.done;
    if ((state.reads || item.work == Work::names) && !state.stopped) {
        const u32 below = state.directories[item.directory].level - 1;
        for (u32 child = 0; child < rules_.fanout; ++child) {
            const u32 made = make(rank, below, NodeKind::own, item.directory);
            state.queue.push_back({Work::directory, made, 0, 0});
        }
    }
    release(rank, item.directory);
}

void LeaseWorld::release(u32 rank, u32 directory) {
    State& state = states_[rank];
    while (directory != none && --state.directories[directory].pending == 0) {
        const u32 above = state.directories[directory].above;
        const bool is_root = above == none && state.directories[directory].kind == NodeKind::own;
        finish(rank, directory);
        if (is_root) root_done(rank);
        directory = above;
    }
}

void LeaseWorld::finish(u32 rank, u32 index) {
    State& state = states_[rank];
    Directory& directory = state.directories[index];
    if (directory.kind != NodeKind::part) {
        ++directory.result;  // itself
        ++finished_;
        if (!aborted_ && directory.result != size_of(directory.level)) {
            fault_ = "a directory was finished before what is below it";
        }
    }
    if (result_target(directory.kind) == ResultTarget::owner) {
        state.returning.push_back({directory.owner, directory.result});
    } else if (directory.above != none) {
        state.directories[directory.above].result += directory.result;
    } else {
        total_ += directory.result;
    }
    directory = {};
}

void LeaseWorld::send_results(u32 rank) {
    State& state = states_[rank];
    for (const Returned& returned : std::exchange(state.returning, {})) {
        const u32 to = returned.owner.rank;
        if (to == rank) {
            take_result(rank, returned);
        } else {
            channels_[rank * ranks() + to].push_back({true, returned, {}});
        }
        root_done(rank);
    }
}

void LeaseWorld::take_result(u32 rank, const Returned& returned) {
    State& state = states_[rank];
    if (!state.leases.out().contains(returned.owner.lease)) {
        fault_ = "a result came twice, or to the wrong rank";
        return;
    }
    const u32 directory = state.leases.take_back(returned.owner.lease);
    state.here.push_back({Work::merge, directory, 0, returned.result});
}

bool LeaseWorld::all_have_left() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.has_left(); });
}

std::string LeaseWorld::fault() const {
    if (!fault_.empty()) return fault_;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        if (!ranks_[rank].has_left()) continue;
        const State& state = states_[rank];
        const std::string who = "rank " + std::to_string(rank);
        const bool has_directories =
            std::any_of(state.directories.begin(), state.directories.end(),
                        [](const Directory& directory) { return directory.exists; });
        const bool has_items =
            !state.queue.empty() || !state.here.empty() || !state.in_hand.empty();
        if (has_directories || has_items) return who + " left with something to do";
        if (!state.leases.out().empty()) return who + " left before a result was back";
        if (!state.returning.empty() || state.owed != 0) return who + " left with a debt";
        for (u32 from = 0; from < ranks(); ++from) {
            if (!channels_[from * ranks() + rank].empty()) return who + " left before a message";
        }
    }
    if (!all_have_left() || aborted_) return {};
    if (total_ != size_of(rules_.level)) return "the sum is wrong";
    return finished_ == total_ ? "" : "a directory was finished twice";
}

/// Identifies a lease by its position among those of its rank: its number does not matter.
std::string LeaseWorld::name_of(const Owner& owner) const {
    const auto& out = states_[owner.lease >> lease_rank_shift].leases.out();
    const auto before = std::count_if(out.begin(), out.end(),
                                      [&](const auto& lease) { return lease.first < owner.lease; });
    return std::to_string(owner.lease >> lease_rank_shift) + "." + std::to_string(before);
}

void LeaseWorld::describe(const State& state, std::string& text) const {
    const auto add = [&text](std::initializer_list<u64> numbers) {
        for (const u64 number : numbers)
            text += std::to_string(number) + ',';
    };
    for (const Directory& at : state.directories) {
        add({at.exists, at.level, static_cast<u8>(at.kind), at.above, at.pending, at.parts_left,
             at.is_open, at.result});
        if (at.exists && at.kind != NodeKind::own) text += name_of(at.owner);
    }
    for (const std::vector<Item>* items : {&state.queue, &state.here, &state.in_hand}) {
        for (const Item& item : *items)
            add({static_cast<u8>(item.work), item.directory, item.parts, item.result});
        text += '|';
    }
    std::map<u64, Leases<u32>::Lease> leases(state.leases.out().begin(), state.leases.out().end());
    for (const auto& [number, lease] : leases)
        add({lease.directory, lease.due});
    for (const Returned& returned : state.returning)
        text += name_of(returned.owner) + "=" + std::to_string(returned.result);
    add({state.owed, state.done, state.stopped, state.reads});
}

void LeaseWorld::describe(const Delivery& delivery, std::string& text) const {
    if (delivery.is_result) {
        text += name_of(delivery.result.owner) + "=" + std::to_string(delivery.result.result);
        return;
    }
    const Message& message = delivery.message;
    text += static_cast<char>('a' + static_cast<int>(message.kind));
    text += message.black ? 'B' : message.aborts ? 'A' : '.';
    text += std::to_string(message.balance);
    for (size_t at = 0; at < message.work.size(); at += sizeof(Sent)) {
        Sent sent{};
        message.work.copy(reinterpret_cast<char*>(&sent), sizeof sent, at);
        for (const u64 number :
             {u64{static_cast<u8>(sent.work)}, u64{sent.level}, u64{sent.parts}, u64{sent.result}})
            text += std::to_string(number) + ',';
        text += name_of(sent.owner);
    }
}

std::string LeaseWorld::fingerprint() const {
    std::string text;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        text += ranks_[rank].fingerprint() + ";";
        describe(states_[rank], text);
    }
    for (const auto& channel : channels_) {
        for (const Delivery& delivery : channel)
            describe(delivery, text);
        text += '/';
    }
    text += std::to_string(total_) + "," + std::to_string(finished_);
    return text + (aborted_ ? "!" : "");
}

TEST(LeaseWorld, OneRankDoesAll) {
    LeaseRules rules;
    rules.node_of = {0};
    rules.level = 3;
    rules.parts = 2;
    LeaseWorld world(rules);
    const LeaseWorld::Choose choose = [](u32) { return 0u; };
    while (!world.all_have_left() && world.fault().empty()) {
        world.happen(world.events().back(), choose);
        world.happen({LeaseWorld::What::step, 0}, choose);
    }
    EXPECT_EQ(world.fault(), "");
}

}  // namespace warren::walk

// SPDX-License-Identifier: Apache-2.0
// What tests/walk/loan_world.hpp declares: as walk/engine.cpp and walk/courier_work.cpp have it,
// with numbers in place of directories. And that one rank alone does all.
#include "walk/loan_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace warren::walk {

class LoanWorld::View : public Surroundings {
 public:
    View(LoanWorld& world, u32 self, const Choose& choose)
        : world_(world), place_(world.places_[self]), self_(self), choose_(choose) {}

    void send(u32 to, Message message) override {
        world_.channels_[self_ * world_.ranks() + to].push_back({false, {}, std::move(message)});
    }
    u32 choose(u32 count) override { return count == 1 ? 0 : choose_(count); }
    bool has_queued() const override { return !place_.queue.empty(); }
    bool is_working() const override { return !place_.in_hand.empty(); }
    bool is_idle() const override { return !has_queued() && !is_working() && place_.here.empty(); }
    bool owes() const override {
        if (world_.rules_.fault == Fault::keeps_no_debt) return false;
        return place_.owed != 0 || !place_.returning.empty();
    }
    u64 items_done() const override { return place_.done; }
    std::string give(Split split) override {
        const size_t kept = place_.in_hand.empty() ? 1 : 0;
        const bool has_names = world_.rules_.scheduler == Scheduler::batches &&
                               place_.queue.size() == 1 && is_read(place_.queue[0]);
        if (has_names && kept == 1) return give_oldest(1);
        if (place_.queue.size() <= kept) return {};
        const u32 most = static_cast<u32>(place_.queue.size() - kept);
        return give_oldest(split == Split::half ? (most + 1) / 2 : 1 + choose(most));
    }
    std::string give_one() override { return give_oldest(1); }
    std::string give_all_but(u32 kept) override {
        const size_t there = place_.queue.size();
        return give_oldest(static_cast<u32>(there - std::min<size_t>(there, kept)));
    }
    void accept(const std::string& work) override {
        for (const Sent& sent : sent_in(work)) {
            const bool is_whole = sent.work == Work::directory;
            const u32 directory =
                world_.make(self_, sent.level, is_whole ? NodeKind::adopted : NodeKind::part, none);
            Directory& made = place_.directories[directory];
            made.home = sent.home;
            made.result = sent.result;
            ++place_.owed;
            place_.queue.push_back({sent.work, directory, sent.parts, 0});
        }
    }
    void decline(const std::string& work) override {
        for (const Sent& sent : sent_in(work)) {
            ++place_.owed;
            place_.returning.push_back({sent.home, 0});
        }
    }
    void drop() override { place_.stopped = true; }

 private:
    static std::vector<Sent> sent_in(const std::string& work) {
        std::vector<Sent> all(work.size() / sizeof(Sent));
        work.copy(reinterpret_cast<char*>(all.data()), work.size());
        return all;
    }
    bool is_read(const Item& item) const {
        return item.work == Work::directory && place_.directories[item.directory].is_open;
    }
    /// Directories that are being read stay; their next names go if there is nothing else.
    std::string give_oldest(u32 count) {
        std::vector<Item> items(place_.queue.begin(), place_.queue.begin() + count);
        place_.queue.erase(place_.queue.begin(), place_.queue.begin() + count);
        const bool gives_names = std::all_of(items.begin(), items.end(),
                                             [&](const Item& item) { return is_read(item); });
        std::vector<Item> kept;
        std::string work;
        for (const Item& item : items) {
            if (is_read(item)) kept.push_back(item);
            if (!is_read(item) || gives_names) give_item(item, is_read(item), work);
        }
        place_.queue.insert(place_.queue.begin(), kept.begin(), kept.end());
        return work;
    }
    void give_item(const Item& item, bool is_read, std::string& work) {
        Directory& directory = place_.directories[item.directory];
        Sent sent{};
        sent.level = directory.level;
        sent.work = is_read ? Work::names : item.work;
        if (is_read) {
            if (directory.parts_left == 0) return;
            --directory.parts_left;
            ++directory.pending;
            sent.parts = 1;
            sent.home = place_.loans.lend(self_, item.directory);
        } else {
            const bool passes = passes_on(directory.kind, item.work, directory.pending) &&
                                world_.rules_.fault != Fault::lends_anew;
            const bool is_whole = item.work == Work::directory;
            const u32 lender = is_whole ? directory.above : item.directory;
            sent.parts = item.parts;
            sent.result = is_whole ? directory.result : 0;
            sent.home = passes ? directory.home : place_.loans.lend(self_, lender);
            const bool goes = is_whole || passes;
            if (goes && is_owed(directory.kind, true)) --place_.owed;
            if (goes) directory = {};
        }
        work.append(reinterpret_cast<const char*>(&sent), sizeof sent);
    }

    LoanWorld& world_;
    Place& place_;
    u32 self_;
    const Choose& choose_;
};

LoanWorld::LoanWorld(const LoanRules& rules) : rules_(rules) {
    const u32 count = static_cast<u32>(rules.node_of.size());
    const auto nodes = std::make_shared<const Nodes>(rules.node_of);
    for (u32 rank = 0; rank < count; ++rank)
        ranks_.emplace_back(rules.scheduler, rules.split, Termination::dijkstra, rank, nodes);
    places_.resize(count);
    channels_.resize(size_t{count} * count);
    const u32 root = make(0, rules.level, NodeKind::own, none);
    places_[0].queue.push_back({Work::directory, root, 0, 0});
    places_[0].owed = 1;
}

u32 LoanWorld::make(u32 rank, u32 level, NodeKind kind, u32 above) {
    std::vector<Directory>& all = places_[rank].directories;
    const auto free = std::find_if(all.begin(), all.end(),
                                   [](const Directory& directory) { return !directory.exists; });
    const auto index = static_cast<u32>(free - all.begin());
    if (free == all.end()) all.emplace_back();
    all[index] = {true, level, kind, above, 1, 0, false, 0, {}};
    if (above != none) ++all[above].pending;
    return index;
}

std::vector<LoanWorld::Event> LoanWorld::events() const {
    std::vector<Event> all;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        for (u32 from = 0; from < ranks(); ++from) {
            if (!channels_[from * ranks() + rank].empty()) {
                all.push_back({What::deliver, rank, from});
            }
        }
        const Place& place = places_[rank];
        if (ranks_[rank].has_left()) continue;
        all.push_back({What::step, rank});
        all.push_back({What::step_without_asking, rank});
        if (!place.returning.empty()) all.push_back({What::send, rank});
        const bool may_start = ranks_[rank].may_work() || place.stopped || !place.here.empty();
        const bool has_items = !place.queue.empty() || !place.here.empty();
        if (may_start && has_items && place.in_hand.empty()) all.push_back({What::start, rank});
        if (!place.in_hand.empty()) all.push_back({What::finish, rank});
    }
    return all;
}

void LoanWorld::happen(const Event& event, const Choose& choose) {
    View view(*this, event.rank, choose);
    Rank& rank = ranks_[event.rank];
    switch (event.what) {
        case What::deliver: {
            auto& channel = channels_[event.from * ranks() + event.rank];
            const Letter letter = std::move(channel.front());
            channel.pop_front();
            if (letter.is_result) return take_result(event.rank, letter.result);
            return rank.receive(event.from, letter.message, view);
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

/// Takes an item; a directory of which there is more goes back into the queue before its part is
/// looked at.
void LoanWorld::start(u32 rank) {
    Place& place = places_[rank];
    std::vector<Item>& from = place.here.empty() ? place.queue : place.here;
    const Item item = from.back();
    from.pop_back();
    place.in_hand = {item};
    place.reads = false;
    if (item.work != Work::directory || place.stopped) return;
    Directory& directory = place.directories[item.directory];
    if (!directory.is_open) {
        directory.parts_left = directory.level == 0 ? 0 : rules_.parts;
    }
    directory.is_open = true;
    if (directory.parts_left == 0) return;
    --directory.parts_left;
    place.reads = true;
    if (rules_.parts == 1) return;
    ++directory.pending;
    place.queue.push_back(item);
}

void LoanWorld::finish_item(u32 rank) {
    Place& place = places_[rank];
    const Item item = place.in_hand[0];
    place.in_hand.clear();
    if (item.work == Work::merge) {
        if (item.directory == none) {
            total_ += item.result;
            return root_done(rank);
        }
        place.directories[item.directory].result += item.result;
        return release(rank, item.directory);
    }
    ++place.done;
    if ((place.reads || item.work == Work::names) && !place.stopped) {
        const u32 below = place.directories[item.directory].level - 1;
        for (u32 child = 0; child < rules_.fanout; ++child) {
            const u32 made = make(rank, below, NodeKind::own, item.directory);
            place.queue.push_back({Work::directory, made, 0, 0});
        }
    }
    release(rank, item.directory);
}

void LoanWorld::release(u32 rank, u32 directory) {
    Place& place = places_[rank];
    while (directory != none && --place.directories[directory].pending == 0) {
        const u32 above = place.directories[directory].above;
        const bool is_root = above == none && place.directories[directory].kind == NodeKind::own;
        finish(rank, directory);
        if (is_root) root_done(rank);
        directory = above;
    }
}

void LoanWorld::finish(u32 rank, u32 index) {
    Place& place = places_[rank];
    Directory& directory = place.directories[index];
    if (directory.kind != NodeKind::part) {
        ++directory.result;  // itself
        ++finished_;
        if (!aborted_ && directory.result != size_of(directory.level)) {
            fault_ = "a directory was finished before what is below it";
        }
    }
    if (result_of(directory.kind) == ResultGoes::home) {
        place.returning.push_back({directory.home, directory.result});
    } else if (directory.above != none) {
        place.directories[directory.above].result += directory.result;
    } else {
        total_ += directory.result;
    }
    directory = {};
}

void LoanWorld::send_results(u32 rank) {
    Place& place = places_[rank];
    for (const Returned& returned : std::exchange(place.returning, {})) {
        const u32 to = returned.home.rank;
        if (to == rank) {
            take_result(rank, returned);
        } else {
            channels_[rank * ranks() + to].push_back({true, returned, {}});
        }
        root_done(rank);
    }
}

void LoanWorld::take_result(u32 rank, const Returned& returned) {
    Place& place = places_[rank];
    if (!place.loans.out().contains(returned.home.loan)) {
        fault_ = "a result came twice, or to the wrong rank";
        return;
    }
    const u32 directory = place.loans.take_back(returned.home.loan);
    place.here.push_back({Work::merge, directory, 0, returned.result});
}

bool LoanWorld::all_have_left() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.has_left(); });
}

std::string LoanWorld::fault() const {
    if (!fault_.empty()) return fault_;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        if (!ranks_[rank].has_left()) continue;
        const Place& place = places_[rank];
        const std::string who = "rank " + std::to_string(rank);
        const bool has_directories =
            std::any_of(place.directories.begin(), place.directories.end(),
                        [](const Directory& directory) { return directory.exists; });
        const bool has_items =
            !place.queue.empty() || !place.here.empty() || !place.in_hand.empty();
        if (has_directories || has_items) return who + " left with something to do";
        if (!place.loans.out().empty()) return who + " left before a result was back";
        if (!place.returning.empty() || place.owed != 0) return who + " left with a debt";
        for (u32 from = 0; from < ranks(); ++from) {
            if (!channels_[from * ranks() + rank].empty()) return who + " left before a message";
        }
    }
    if (!all_have_left() || aborted_) return {};
    if (total_ != size_of(rules_.level)) return "the sum is wrong";
    return finished_ == total_ ? "" : "a directory was finished twice";
}

/// A loan by its place among those of its rank: which number it has does not matter.
std::string LoanWorld::name_of(const Home& home) const {
    const auto& out = places_[home.loan >> loan_rank_shift].loans.out();
    const auto before = std::count_if(out.begin(), out.end(),
                                      [&](const auto& loan) { return loan.first < home.loan; });
    return std::to_string(home.loan >> loan_rank_shift) + "." + std::to_string(before);
}

void LoanWorld::describe(const Place& place, std::string& text) const {
    const auto add = [&text](std::initializer_list<u64> numbers) {
        for (const u64 number : numbers)
            text += std::to_string(number) + ',';
    };
    for (const Directory& at : place.directories) {
        add({at.exists, at.level, static_cast<u8>(at.kind), at.above, at.pending, at.parts_left,
             at.is_open, at.result});
        if (at.exists && at.kind != NodeKind::own) text += name_of(at.home);
    }
    for (const std::vector<Item>* items : {&place.queue, &place.here, &place.in_hand}) {
        for (const Item& item : *items)
            add({static_cast<u8>(item.work), item.directory, item.parts, item.result});
        text += '|';
    }
    std::map<u64, Loans<u32>::Loan> loans(place.loans.out().begin(), place.loans.out().end());
    for (const auto& [number, loan] : loans)
        add({loan.place, loan.due});
    for (const Returned& returned : place.returning)
        text += name_of(returned.home) + "=" + std::to_string(returned.result);
    add({place.owed, place.done, place.stopped, place.reads});
}

void LoanWorld::describe(const Letter& letter, std::string& text) const {
    if (letter.is_result) {
        text += name_of(letter.result.home) + "=" + std::to_string(letter.result.result);
        return;
    }
    const Message& message = letter.message;
    text += static_cast<char>('a' + static_cast<int>(message.kind));
    text += message.black ? 'B' : message.aborts ? 'A' : '.';
    text += std::to_string(message.balance);
    for (size_t at = 0; at < message.work.size(); at += sizeof(Sent)) {
        Sent sent{};
        message.work.copy(reinterpret_cast<char*>(&sent), sizeof sent, at);
        for (const u64 number :
             {u64{static_cast<u8>(sent.work)}, u64{sent.level}, u64{sent.parts}, u64{sent.result}})
            text += std::to_string(number) + ',';
        text += name_of(sent.home);
    }
}

std::string LoanWorld::fingerprint() const {
    std::string text;
    for (u32 rank = 0; rank < ranks(); ++rank) {
        text += ranks_[rank].fingerprint() + ";";
        describe(places_[rank], text);
    }
    for (const auto& channel : channels_) {
        for (const Letter& letter : channel)
            describe(letter, text);
        text += '/';
    }
    text += std::to_string(total_) + "," + std::to_string(finished_);
    return text + (aborted_ ? "!" : "");
}

TEST(LoanWorld, OneRankDoesAll) {
    LoanRules rules;
    rules.node_of = {0};
    rules.level = 3;
    rules.parts = 2;
    LoanWorld world(rules);
    const LoanWorld::Choose choose = [](u32) { return 0u; };
    while (!world.all_have_left() && world.fault().empty()) {
        world.happen(world.events().back(), choose);
        world.happen({LoanWorld::What::step, 0}, choose);
    }
    EXPECT_EQ(world.fault(), "");
}

}  // namespace warren::walk

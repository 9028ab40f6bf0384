// SPDX-License-Identifier: Apache-2.0
// Each rank's threads are run ahead by at most a quantum, or until they have nothing to do; then
// the rank's talker looks at its messages. A directory splits its files among itself and its
// subdirectories, so that a tree has exactly as many files as was asked for.
#include "walk/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <queue>

#include "base/check.hpp"
#include "base/random.hpp"

namespace warren::walk {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr u64 batch_names = 4096;  // of a large directory, read at once
constexpr u64 most_own_files = 1 << 20;
constexpr u64 most_message_bytes = mib;
constexpr u64 message_header_bytes = 40;

/// A directory with this many files in it and below it; or, with the seed 0, the rest of one that
/// is being read.
struct Item {
    u64 seed;
    u64 files;
    bool is_names() const { return seed == 0; }
};

/// The files of the directory itself: 20 on the median's side, a long tail up to a million.
u64 own_files(Random& random) {
    const double share = (static_cast<double>(random.next() >> 11) + 1) * 0x1p-53;
    return std::min(static_cast<u64>(20 / std::pow(share, 0.75)), most_own_files);
}

/// A rank and all that it stands in.
class Place : public Surroundings {
 public:
    Place(u32 number, const SimulatedWorld& world, std::shared_ptr<const Nodes> nodes)
        : rank(world.scheduler.scheduler, world.scheduler.split, Termination::dijkstra, number,
               std::move(nodes)),
          random_(world.seed * 0x9e3779b97f4a7c15u + number) {}

    void send(u32 to, Message message) override { outbox.push_back({to, std::move(message)}); }
    u32 choose(u32 count) override { return static_cast<u32>(random_.below(count)); }
    bool has_queued() const override { return !queue.empty(); }
    bool is_working() const override { return !hands.empty(); }
    u64 items_done() const override { return facts.directories; }

    std::string give(Split split) override {
        const u64 count = queue.size();
        if (count == 0) return {};
        const u64 part = split == Split::half ? (count + 1) / 2 : random_.below(count) + 1;
        return take_oldest(std::min(part, most_message_bytes / sizeof(Item)));
    }
    std::string give_one() override {
        const Item item = queue.back();
        queue.pop_back();
        return {reinterpret_cast<const char*>(&item), sizeof item};
    }
    std::string give_all_but(u32 kept) override {
        return queue.size() <= kept ? std::string() : take_oldest(queue.size() - kept);
    }
    void accept(const std::string& work) override {
        for (size_t at = 0; at < work.size(); at += sizeof(Item)) {
            Item item;
            std::memcpy(&item, work.data() + at, sizeof item);
            queue.push_back(item);
        }
    }
    void drop() override { queue.clear(); }

    struct Hand {
        double end;
        Item item;
    };

    Rank rank;
    SimulatedRank facts;
    std::deque<Item> queue;   // the oldest first
    std::vector<Hand> hands;  // what its threads are at
    std::deque<std::pair<u32, Message>> inbox;
    std::vector<std::pair<u32, Message>> outbox;
    double talks_until = 0;  // the talker is busy so long
    double walked_until = 0;
    double quiet_since = 0;
    double wakes_at = never;
    double next_request = 0;
    u32 fruitless = 0;

 private:
    std::string take_oldest(u64 count) {
        std::string work(count * sizeof(Item), '\0');
        for (u64 i = 0; i < count; ++i) {
            std::memcpy(work.data() + i * sizeof(Item), &queue.front(), sizeof(Item));
            queue.pop_front();
        }
        return work;
    }

    Random random_;
};

class Simulator {
 public:
    Simulator(const SimulatedWorld& world, const SimulatedCosts& costs);
    SimulatedWalk run();

 private:
    struct Event {
        double time;
        u64 number;  // in the order in which they were made
        u32 rank;
        u32 message;  // none: the rank looks around
        bool operator>(const Event& other) const {
            return time != other.time ? time > other.time : number > other.number;
        }
    };
    struct UnderWay {
        u32 from = 0;
        Message message;
    };
    static constexpr u32 no_message = ~0u;

    bool is_central() const {
        return world_.scheduler.scheduler == Scheduler::cp ||
               world_.scheduler.scheduler == Scheduler::cp_keep_one;
    }
    double entry_seconds() const { return costs_.name + costs_.status + costs_.callback; }
    void wake(u32 number, double time);
    void look(u32 number, double now);
    void deliver(u32 to, u32 message, double now);
    double next_look(const Place& place, double now) const;
    void run_threads(Place& place, double until);
    void begin(Place& place, double now);
    void finish(Place& place, const Item& item);
    double cost_of(Place& place, Item& item);
    void post(u32 from, Place& place, double& clock);
    u64 bytes_of(const Message& message) const;

    SimulatedWorld world_;
    SimulatedCosts costs_;
    std::vector<std::unique_ptr<Place>> places_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<UnderWay> under_way_;
    std::vector<u32> free_;
    u64 events_made_ = 0;
    SimulatedWalk result_;
};

Simulator::Simulator(const SimulatedWorld& world, const SimulatedCosts& costs)
    : world_(world), costs_(costs) {
    std::vector<u32> node_of(world.ranks);
    for (u32 rank = 0; rank < world.ranks; ++rank)
        node_of[rank] = rank / world.ranks_per_node;
    const auto nodes = std::make_shared<const Nodes>(node_of);
    for (u32 rank = 0; rank < world.ranks; ++rank)
        places_.push_back(std::make_unique<Place>(rank, world, nodes));
    places_[0]->queue.push_back({world.seed, world.files});
    if (world.keeps_pairs) {
        result_.pair_messages.resize(u64{world.ranks} * world.ranks);
        result_.pair_bytes.resize(u64{world.ranks} * world.ranks);
    }
}

u64 Simulator::bytes_of(const Message& message) const {
    return message_header_bytes + message.work.size() / sizeof(Item) * costs_.item_bytes;
}

/// Lets a rank look around at `time`, unless it will before that.
void Simulator::wake(u32 number, double time) {
    Place& place = *places_[number];
    if (place.wakes_at <= time) return;
    place.wakes_at = time;
    events_.push({time, events_made_++, number, no_message});
}

/// When the talker, whose pauses grow while nothing happens, looks at its messages next.
double Simulator::next_look(const Place& place, double now) const {
    double time = std::max(place.quiet_since, place.talks_until);
    double pause = costs_.shortest_pause;
    while (time < now) {
        if (pause >= costs_.longest_pause) {
            pause = costs_.longest_pause;
            return time + std::ceil((now - time) / pause) * pause;
        }
        time += pause;
        pause *= 2;
    }
    return time;
}

void Simulator::deliver(u32 to, u32 message, double now) {
    Place& place = *places_[to];
    UnderWay& arrived = under_way_[message];
    place.inbox.emplace_back(arrived.from, std::move(arrived.message));
    free_.push_back(message);
    wake(to, next_look(place, now));
}

/// What reading this item costs; a large directory gives its rest back to the queue at once.
double Simulator::cost_of(Place& place, Item& item) {
    if (!item.is_names()) {
        Random random(item.seed);
        const u64 own = std::min<u64>(item.files, own_files(random));
        if (own <= batch_names) {
            return costs_.directory + entry_seconds() * static_cast<double>(own);
        }
        place.queue.push_back({0, own - batch_names});
        return costs_.directory + entry_seconds() * static_cast<double>(batch_names);
    }
    const u64 names = std::min<u64>(item.files, batch_names);
    if (item.files > names) place.queue.push_back({0, item.files - names});
    item.files = names;
    return entry_seconds() * static_cast<double>(names);
}

/// Counts what was read and queues the subdirectories.
void Simulator::finish(Place& place, const Item& item) {
    ++place.facts.directories;
    if (item.is_names()) {
        place.facts.files += item.files;
        return;
    }
    const SimulatedDirectory directory = simulated_directory(item.seed, item.files);
    // What one batch did not hold is an item of its own.
    place.facts.files += std::min(directory.own_files, batch_names);
    for (const SimulatedDirectory::Child& child : directory.children)
        place.queue.push_back({child.seed, child.files});
}

void Simulator::begin(Place& place, double now) {
    const bool is_allowed =
        place.rank.may_work() && (!is_central() || place.rank.holds_item() || world_.ranks == 1);
    const size_t threads = is_central() ? 1 : world_.threads;
    while (is_allowed && place.hands.size() < threads && !place.queue.empty()) {
        Item item = place.queue.back();
        place.queue.pop_back();
        const double cost = cost_of(place, item);
        place.facts.working += cost;
        place.hands.push_back({now + cost, item});
    }
}

/// Runs the threads up to `until`, or to where they have nothing more to do.
void Simulator::run_threads(Place& place, double until) {
    while (!place.hands.empty()) {
        const auto first = std::min_element(
            place.hands.begin(), place.hands.end(),
            [](const Place::Hand& left, const Place::Hand& right) { return left.end < right.end; });
        if (first->end > until) {
            place.walked_until = until;
            return;
        }
        const Place::Hand done = *first;
        *first = place.hands.back();
        place.hands.pop_back();
        place.walked_until = done.end;
        finish(place, done.item);
        // The talker of a worker of cp decides what comes after each item.
        if (is_central()) return;
        begin(place, done.end);
    }
}

/// Sends what the rank has said; each message takes its time on the side that sends.
void Simulator::post(u32 from, Place& place, double& clock) {
    for (auto& [to, message] : place.outbox) {
        const u64 bytes = bytes_of(message);
        const double cost = costs_.message + costs_.byte * static_cast<double>(bytes);
        clock += cost;
        place.facts.talking += cost;
        ++place.facts.messages;
        place.facts.bytes += bytes;
        if (message.kind == Message::Kind::request) ++place.facts.requests;
        if (world_.keeps_pairs) {
            ++result_.pair_messages[u64{from} * world_.ranks + to];
            result_.pair_bytes[u64{from} * world_.ranks + to] += bytes;
        }
        u32 place_of_message = static_cast<u32>(under_way_.size());
        if (free_.empty()) {
            under_way_.emplace_back();
        } else {
            place_of_message = free_.back();
            free_.pop_back();
        }
        under_way_[place_of_message] = {from, std::move(message)};
        const bool is_near = from / world_.ranks_per_node == to / world_.ranks_per_node;
        const double arrival = clock + (is_near ? costs_.near_latency : costs_.far_latency);
        events_.push({arrival, events_made_++, to, place_of_message});
    }
    place.outbox.clear();
}

void Simulator::look(u32 number, double now) {
    Place& place = *places_[number];
    double clock = std::max(now, place.talks_until);
    run_threads(place, clock);
    bool was_busy = !place.inbox.empty();
    while (!place.inbox.empty() && !place.rank.has_left()) {
        auto [from, message] = std::move(place.inbox.front());
        place.inbox.pop_front();
        clock += costs_.message;
        place.facts.talking += costs_.message;
        place.rank.receive(from, message, place);
        post(number, place, clock);
    }
    if (place.rank.has_left()) {
        result_.seconds = std::max(result_.seconds, clock);
        return;
    }
    if (place.rank.fruitless() != place.fruitless) {
        place.fruitless = place.rank.fruitless();
        const double wait = costs_.shortest_pause * std::exp2(std::min(place.fruitless, 8u));
        place.next_request =
            clock + (place.fruitless == 0 ? 0 : std::min(wait, costs_.longest_refusal));
    }
    // Twice: what the first step sends may be all that was left to do before it asks for more.
    for (int step = 0; step < 2; ++step) {
        place.rank.step(place, clock >= place.next_request);
        was_busy |= !place.outbox.empty();
        post(number, place, clock);
    }
    if (place.rank.has_left()) result_.seconds = std::max(result_.seconds, clock);
    begin(place, clock);
    place.talks_until = clock;
    if (was_busy) place.quiet_since = clock;
    if (!place.hands.empty()) {
        run_threads(place, clock + costs_.quantum);
        const bool is_idle = place.hands.empty();
        return wake(number, is_idle ? place.walked_until : clock + costs_.quantum);
    }
    if (place.queue.empty() && clock < place.next_request) wake(number, place.next_request);
}

SimulatedWalk Simulator::run() {
    for (u32 rank = 0; rank < world_.ranks; ++rank)
        wake(rank, 0);
    while (!events_.empty()) {
        const Event event = events_.top();
        events_.pop();
        if (event.message != no_message) {
            deliver(event.rank, event.message, event.time);
        } else if (places_[event.rank]->wakes_at == event.time) {
            places_[event.rank]->wakes_at = never;
            look(event.rank, event.time);
        }
    }
    for (const auto& place : places_) {
        WARREN_CHECK(place->rank.has_left());
        result_.ranks.push_back(place->facts);
    }
    WARREN_CHECK(result_.files() == world_.files);
    return std::move(result_);
}

template <class T>
T sum(const std::vector<SimulatedRank>& ranks, T SimulatedRank::*member) {
    return std::accumulate(
        ranks.begin(), ranks.end(), T{},
        [member](T total, const SimulatedRank& rank) { return total + rank.*member; });
}

}  // namespace

SimulatedDirectory simulated_directory(u64 seed, u64 files) {
    Random random(seed);
    SimulatedDirectory directory;
    directory.own_files = std::min(files, own_files(random));
    u64 left = files - directory.own_files;
    if (left == 0) return directory;
    const u64 children = 1 + std::min<u64>(random.below(12), left / 40);
    for (u64 child = 0; child < children && left > 0; ++child) {
        u64 part = left;
        if (child + 1 < children) {
            // Some get much, most get little.
            const double share = static_cast<double>(random.next() >> 11) * 0x1p-53;
            part = static_cast<u64>(static_cast<double>(left) * share * share * share) + 1;
        }
        part = std::min(part, left);
        left -= part;
        directory.children.push_back({std::max<u64>(random.next(), 1), part});
    }
    return directory;
}

u64 SimulatedWalk::files() const {
    return sum(ranks, &SimulatedRank::files);
}

u64 SimulatedWalk::messages() const {
    return sum(ranks, &SimulatedRank::messages);
}

u64 SimulatedWalk::bytes() const {
    return sum(ranks, &SimulatedRank::bytes);
}

double SimulatedWalk::imbalance() const {
    double most = 0;
    for (const SimulatedRank& rank : ranks)
        most = std::max(most, rank.working);
    return most * static_cast<double>(ranks.size()) / sum(ranks, &SimulatedRank::working);
}

double SimulatedWalk::efficiency(u32 threads) const {
    return sum(ranks, &SimulatedRank::working) /
           (seconds * static_cast<double>(ranks.size()) * threads);
}

SimulatedWalk simulate(const SimulatedWorld& world, const SimulatedCosts& costs) {
    return Simulator(world, costs).run();
}

}  // namespace warren::walk

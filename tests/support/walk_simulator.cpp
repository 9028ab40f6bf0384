// SPDX-License-Identifier: Apache-2.0
// The threads of a rank are run ahead by at most a quantum, or until they have nothing to do; then
// the rank's talker looks at its messages. A packed item is so short that a string stores it
// without allocating memory.
#include "tests/support/walk_simulator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "base/random.hpp"
#include "tests/support/event_queue.hpp"
#include "tests/support/simulated_tree.hpp"

namespace warren::walk {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr u64 part_names = 4096;    // names of a large directory read per call
constexpr u64 files_at_once = 256;  // given out together by a central queue, but counted one by one

enum class What : u8 {
    directory,  // with so many files in and below it
    names,      // the rest of a directory that is being read
    files       // files that were read, if they are items of their own
};

struct Item {
    u64 seed;
    u64 files;
    What what;
};

/// The size of a packed item: the seed, and the five lowest bytes of the number.
constexpr size_t packed_bytes = 13;

void pack(const Item& item, char* bytes) {
    const u64 number = item.files << 2 | static_cast<u64>(item.what);
    std::memcpy(bytes, &item.seed, 8);
    std::memcpy(bytes + 8, &number, 5);
}

Item unpack(const char* bytes) {
    u64 seed = 0;
    u64 number = 0;
    std::memcpy(&seed, bytes, 8);
    std::memcpy(&number, bytes + 8, 5);
    return {seed, number >> 2, static_cast<What>(number & 3)};
}

/// A rank with its queue, the work of its threads and the messages that it sends.
class Process : public RankCallbacks {
 public:
    Process(u32 number, const SimulatedWorld& world, std::shared_ptr<const Nodes> nodes)
        : rank(world.scheduler.scheduler, world.scheduler.split, Termination::dijkstra, number,
               std::move(nodes)),
          ranks_(world.ranks),
          collects_files_(number == 0 && world.ranks > 1 &&
                          has_central_queue(world.scheduler.scheduler)),
          random_(world.seed * 0x9e3779b97f4a7c15u + number) {}

    void send(u32 to, Message message) override { outbox.push_back({to, std::move(message)}); }
    u32 choose(u32 count) override { return static_cast<u32>(random_.below(count)); }
    bool has_queued() const override { return !queue.empty() || files_waiting_ > 0; }
    bool is_working() const override { return !hands.empty(); }
    u64 items_done() const override { return done; }

    std::string give(Split split) override {
        const u64 count = queue.size();
        if (count == 0) return {};
        const u64 part = split == Split::half ? (count + 1) / 2 : random_.below(count) + 1;
        return take_oldest(std::min(part, most_items_));
    }
    /// Files are sent together once there are enough of them or nothing else is left.
    std::string give_one() override {
        std::string work(packed_bytes, '\0');
        if (files_waiting_ >= files_at_once || queue.empty()) {
            const u64 share = std::clamp<u64>(files_waiting_ / (2 * ranks_), 1, files_at_once);
            const u64 part = queue.empty() ? share : files_at_once;
            files_waiting_ -= part;
            pack({0, part, What::files}, work.data());
        } else {
            pack(queue.back(), work.data());
            queue.pop_back();
        }
        return work;
    }
    std::string give_all_but(u32 kept) override {
        const std::string work = take_oldest(queue.size() - std::min<u64>(kept, queue.size()));
        return work + keep_one_file(kept);
    }
    void accept(const std::string& work) override {
        for (size_t at = 0; at < work.size(); at += packed_bytes) {
            const Item item = unpack(work.data() + at);
            if (collects_files_ && item.what == What::files) {
                files_waiting_ += item.files;
            } else {
                queue.push_back(item);
            }
        }
    }
    void drop() override { queue.clear(); }

    struct Hand {
        double end;
        u64 own;  // files that were read
        Item item;
    };

    Rank rank;
    SimulatedRank facts;
    u64 done = 0;             // items done
    std::deque<Item> queue;   // the oldest first
    std::vector<Hand> hands;  // what its threads are working on
    std::vector<std::pair<u32, Message>> outbox;
    double walked_until = 0;
    double next_request = 0;
    u32 fruitless = 0;

 private:
    std::string take_oldest(u64 count) {
        std::string work(count * packed_bytes, '\0');
        for (u64 i = 0; i < count; ++i) {
            pack(queue.front(), work.data() + i * packed_bytes);
            queue.pop_front();
        }
        return work;
    }
    /// Of files kept as one item, hands back all but one.
    std::string keep_one_file(u32 kept) {
        if (kept == 0 || queue.empty()) return {};
        Item& last = queue.back();
        if (last.what != What::files || last.files == 1) return {};
        std::string work(packed_bytes, '\0');
        pack({last.seed, last.files - 1, What::files}, work.data());
        last.files = 1;
        return work;
    }

    static constexpr u64 most_items_ = mib / packed_bytes;
    u64 ranks_;
    bool collects_files_;  // rank 0 with a central queue
    u64 files_waiting_ = 0;
    Random random_;
};

class Simulator {
 public:
    Simulator(const SimulatedWorld& world, const SimulatedCosts& costs);
    SimulatedWalk run();

 private:
    static constexpr u32 no_message = ~0u;
    struct UnderWay {
        u32 from = 0;
        u32 next = no_message;  // the next that has arrived at the same rank
        Message message;
    };
    /// What most events of a rank read, apart from the rest so that it stays in the cache.
    struct Talker {
        double wakes_at = never;
        double talks_until = 0;  // it is busy until then
        double quiet_since = 0;
        u32 first = no_message;  // first of the messages that have arrived
        u32 last = no_message;
    };

    double visit_seconds() const { return costs_.status + costs_.callback; }
    double path_seconds() const { return is_central_ ? costs_.open * costs_.levels : 0; }
    void wake(u32 number, double time);
    void look(u32 number, double now);
    void deliver(u32 to, u32 message, double now);
    double next_look(const Talker& talker, bool from_near, double now) const;
    void run_threads(Process& process, double until);
    void begin(Process& process, double now);
    void finish(Process& process, const Process::Hand& hand);
    double begin_item(Process& process, Item& item, u64& own);
    double begin_files(Process& process, u64 files);
    void post(u32 from, Process& process, double& clock);
    void count(u32 from, u32 to, u64 messages, u64 bytes);
    bool is_near(u32 from, u32 to) const { return node_of_[from] == node_of_[to]; }
    u64 bytes_of(const Message& message) const;
    u64 messages_in(const Message& message) const;

    SimulatedWorld world_;
    SimulatedCosts costs_;
    bool is_central_;
    bool gives_files_;  // files are sent one by one
    std::vector<u32> node_of_;
    std::vector<std::unique_ptr<Process>> processes_;
    std::vector<Talker> talkers_;
    EventQueue events_;
    std::vector<UnderWay> under_way_;
    std::vector<u32> free_;
    SimulatedWalk result_;
};

Simulator::Simulator(const SimulatedWorld& world, const SimulatedCosts& costs)
    : world_(world),
      costs_(costs),
      is_central_(has_central_queue(world.scheduler.scheduler) && world.ranks > 1),
      gives_files_(is_central_ && world.scheduler.scheduler != Scheduler::cp_directories),
      node_of_(world.ranks),
      talkers_(world.ranks) {
    for (u32 rank = 0; rank < world.ranks; ++rank)
        node_of_[rank] = rank / world.ranks_per_node;
    const auto nodes = std::make_shared<const Nodes>(node_of_);
    for (u32 rank = 0; rank < world.ranks; ++rank)
        processes_.push_back(std::make_unique<Process>(rank, world, nodes));
    processes_[0]->queue.push_back({world.seed, world.files, What::directory});
    if (world.keeps_pairs) {
        result_.pair_messages.resize(u64{world.ranks} * world.ranks);
        result_.pair_bytes.resize(u64{world.ranks} * world.ranks);
    }
}

/// The number of messages that this one stands for.
u64 Simulator::messages_in(const Message& message) const {
    const bool may_be_many = is_central_ && message.work.size() == packed_bytes;
    if (!gives_files_ || !may_be_many) return 1;
    const Item item = unpack(message.work.data());
    return item.what == What::files ? item.files : 1;
}

u64 Simulator::bytes_of(const Message& message) const {
    if (message.work.empty()) return costs_.message_bytes;
    u64 items = message.work.size() / packed_bytes;
    if (gives_files_) {
        items = 0;
        for (size_t at = 0; at < message.work.size(); at += packed_bytes) {
            const Item item = unpack(message.work.data() + at);
            items += item.what == What::files ? item.files : 1;
        }
    }
    return costs_.message_bytes + costs_.path_bytes + items * costs_.item_bytes;
}

/// Schedules a look for messages at `time`, unless an earlier one is scheduled.
void Simulator::wake(u32 number, double time) {
    Talker& talker = talkers_[number];
    if (talker.wakes_at <= time) return;
    talker.wakes_at = time;
    events_.push(time, number, no_message);
}

/// When the talker looks at a message. A message from its own machine wakes it; for others it polls
/// with pauses that grow while nothing happens.
double Simulator::next_look(const Talker& talker, bool from_near, double now) const {
    double time = std::max(talker.quiet_since, talker.talks_until);
    if (time >= now) return time;
    if (from_near) return now + costs_.wake;
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
    Talker& talker = talkers_[to];
    (talker.first == no_message ? talker.first : under_way_[talker.last].next) = message;
    talker.last = message;
    wake(to, next_look(talker, is_near(under_way_[message].from, to), now));
}

/// The cost of an item. The rest of a large directory is put back into the queue at once.
double Simulator::begin_item(Process& process, Item& item, u64& own) {
    if (item.what == What::files) return begin_files(process, item.files);
    const bool is_directory = item.what == What::directory;
    own = is_directory ? own_files(item.seed, item.files) : item.files;
    if (own > part_names) {
        process.queue.push_back({0, own - part_names, What::names});
        if (!is_directory) item.files = part_names;
        own = part_names;
    }
    const double of_name = costs_.name + (gives_files_ ? 0 : visit_seconds());
    if (!is_directory) return of_name * static_cast<double>(own);
    return costs_.directory + path_seconds() + of_name * static_cast<double>(own);
}

/// The cost of files that came in one message but are requested and sent one by one.
double Simulator::begin_files(Process& process, u64 files) {
    process.facts.files += files;
    const bool is_alone = world_.ranks_per_node >= world_.ranks;
    const double latency = is_alone ? costs_.near_latency : costs_.far_latency;
    // To rank 0 and back; two talkers and a worker wake up each time.
    const double trip = 2 * latency + 4 * costs_.message + 4 * costs_.wake;
    process.facts.talking += 2 * costs_.message * static_cast<double>(files - 1);
    return (path_seconds() + visit_seconds()) * static_cast<double>(files) +
           trip * static_cast<double>(files - 1);
}

/// Counts what was read, and queues the subdirectories.
void Simulator::finish(Process& process, const Process::Hand& hand) {
    const Item& item = hand.item;
    ++process.done;
    if (item.what == What::files) return;
    ++process.facts.directories;
    if (!gives_files_) {
        process.facts.files += hand.own;
    } else if (hand.own > 0) {
        process.queue.push_back({0, hand.own, What::files});
    }
    if (item.what == What::names) return;
    // What did not fit into one part is an item of its own.
    const u64 own = hand.own < part_names ? hand.own : own_files(item.seed, item.files);
    for_each_child(item.seed, item.files, own, [&process](u64 seed, u64 files) {
        process.queue.push_back({seed, files, What::directory});
    });
}

void Simulator::begin(Process& process, double now) {
    const bool is_allowed = process.rank.may_work() && (!is_central_ || process.rank.holds_item());
    const size_t threads = is_central_ ? 1 : world_.threads;
    // With a central queue the talker wakes a sleeping thread to begin the item.
    if (is_central_) now += costs_.wake;
    while (is_allowed && process.hands.size() < threads && !process.queue.empty()) {
        Item item = process.queue.back();
        process.queue.pop_back();
        u64 own = 0;
        const double cost = begin_item(process, item, own);
        process.facts.working += cost;
        process.hands.push_back({now + cost, own, item});
    }
}

/// Runs the threads up to `until`, or until they have nothing more to do.
void Simulator::run_threads(Process& process, double until) {
    while (!process.hands.empty()) {
        const auto first = std::ranges::min_element(process.hands, {}, &Process::Hand::end);
        if (first->end > until) {
            process.walked_until = until;
            return;
        }
        const Process::Hand done = *first;
        *first = process.hands.back();
        process.hands.pop_back();
        process.walked_until = done.end;
        finish(process, done);
        // Under cp the worker's talker decides after each item what comes next.
        if (is_central_) return;
        begin(process, done.end);
    }
}

void Simulator::count(u32 from, u32 to, u64 messages, u64 bytes) {
    processes_[from]->facts.messages += messages;
    processes_[from]->facts.bytes += bytes;
    if (!world_.keeps_pairs) return;
    result_.pair_messages[u64{from} * world_.ranks + to] += messages;
    result_.pair_bytes[u64{from} * world_.ranks + to] += bytes;
}

/// Sends the messages of the rank. Each takes time on the sending side.
void Simulator::post(u32 from, Process& process, double& clock) {
    for (auto& [to, message] : process.outbox) {
        const u64 messages = messages_in(message);
        const u64 bytes =
            bytes_of(message) + (messages - 1) * (costs_.message_bytes + costs_.path_bytes);
        double cost = costs_.message * static_cast<double>(messages) +
                      costs_.byte * static_cast<double>(bytes);
        // The requests for the files after the first.
        cost += costs_.message * static_cast<double>(messages - 1);
        if (messages > 1) {
            count(to, from, messages - 1, (messages - 1) * costs_.message_bytes);
            processes_[to]->facts.requests += messages - 1;
        }
        clock += cost;
        process.facts.talking += cost;
        count(from, to, messages, bytes);
        if (message.kind == Message::Kind::request) ++process.facts.requests;
        u32 slot = static_cast<u32>(under_way_.size());
        if (free_.empty()) {
            under_way_.emplace_back();
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        under_way_[slot] = {from, no_message, std::move(message)};
        const double arrival =
            clock + (is_near(from, to) ? costs_.near_latency : costs_.far_latency);
        events_.push(arrival, to, slot);
    }
    process.outbox.clear();
}

void Simulator::look(u32 number, double now) {
    Process& process = *processes_[number];
    Talker& talker = talkers_[number];
    double clock = std::max(now, talker.talks_until);
    run_threads(process, clock);
    u32 arrived = std::exchange(talker.first, no_message);
    bool was_busy = arrived != no_message;
    while (arrived != no_message) {
        // Moved out, since a message sent meanwhile may take its slot.
        const UnderWay arrival = std::move(under_way_[arrived]);
        free_.push_back(arrived);
        arrived = arrival.next;
        clock += costs_.message;
        process.facts.talking += costs_.message;
        process.rank.receive(arrival.from, arrival.message, process);
        post(number, process, clock);
    }
    if (process.rank.has_left()) {
        result_.seconds = std::max(result_.seconds, clock);
        return;
    }
    if (process.rank.fruitless() != process.fruitless) {
        process.fruitless = process.rank.fruitless();
        const double wait = costs_.shortest_pause * std::exp2(std::min(process.fruitless, 8u));
        process.next_request =
            clock + (process.fruitless == 0 ? 0 : std::min(wait, costs_.longest_refusal));
    }
    // Twice: what the first step sends may be the last thing to do before the rank requests more.
    for (int step = 0; step < 2; ++step) {
        process.rank.step(process, clock >= process.next_request);
        was_busy |= !process.outbox.empty();
        post(number, process, clock);
    }
    if (process.rank.has_left()) result_.seconds = std::max(result_.seconds, clock);
    begin(process, clock);
    talker.talks_until = clock;
    if (was_busy) talker.quiet_since = clock;
    if (!process.hands.empty()) {
        run_threads(process, clock + costs_.quantum);
        const double ends = process.walked_until + (is_central_ ? costs_.wake : 0);
        return wake(number, process.hands.empty() ? ends : clock + costs_.quantum);
    }
    if (process.queue.empty() && clock < process.next_request) wake(number, process.next_request);
}

SimulatedWalk Simulator::run() {
    for (u32 rank = 0; rank < world_.ranks; ++rank)
        wake(rank, 0);
    while (!events_.empty()) {
        const Event event = events_.pop();
        if (event.message != no_message) {
            deliver(event.rank, event.message, event.time);
        } else if (talkers_[event.rank].wakes_at == event.time) {
            talkers_[event.rank].wakes_at = never;
            look(event.rank, event.time);
        }
    }
    for (const auto& process : processes_) {
        WARREN_CHECK(process->rank.has_left());
        result_.ranks.push_back(process->facts);
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
    const auto most = std::ranges::max_element(ranks, {}, &SimulatedRank::working);
    return most->working * static_cast<double>(ranks.size()) / sum(ranks, &SimulatedRank::working);
}

double SimulatedWalk::efficiency(u32 threads) const {
    return sum(ranks, &SimulatedRank::working) /
           (seconds * static_cast<double>(ranks.size()) * threads);
}

SimulatedWalk simulate(const SimulatedWorld& world, const SimulatedCosts& costs) {
    return Simulator(world, costs).run();
}

}  // namespace warren::walk

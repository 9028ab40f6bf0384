// SPDX-License-Identifier: Apache-2.0
// A courier that has nothing to send sleeps until a message or a worker wakes it. Messages from
// other machines cannot wake it, so it polls for them: without a pause while it is busy, then with
// pauses that grow to half a millisecond, so that it leaves a shared core to the workers.
#include "walk/courier.hpp"

#include <time.h>

#include <algorithm>

#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

constexpr u32 shortest_pause_us = 20;
constexpr u32 longest_pause_us = 500;
constexpr u32 longest_sleep_us = 5000;            // if every message wakes the rank
constexpr double longest_refusal_seconds = 2e-3;  // longest pause after refused requests
constexpr double meter_seconds = 0.25;
constexpr i64 round_items_each = 8;  // items per worker and round of h-drqs-batches
constexpr i64 all_items = i64{1} << 40;
constexpr u32 round_pauses = 100;  // pauses during which the end of a round is awaited

double now_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

Courier::Courier(Engine& engine, Group& group)
    : engine_(engine),
      group_(group),
      random_(group.rank() * 0x9e3779b97f4a7c15u + static_cast<u64>(now_seconds() * 1e9)),
      rank_(engine.options_.scheduler, engine.options_.split, Termination::dijkstra, group.rank(),
            std::make_shared<const Nodes>(group.nodes())),
      central_(engine.options_.queue_bytes),
      meters_(group.rank() == 0 ? 3 * size_t{group.ranks()} : 0),
      returning_(group.ranks()),
      next_queries_(group.ranks()) {
    group_.traffic_.resize(2 * size_t{group_.ranks()});
    engine_.pool_.set_idle_callback([this] { group_.wake(); });
    if (is_central() || in_rounds()) engine_.pool_.set_gate();
}

bool Courier::is_central() const {
    return engine_.is_central_;
}

bool Courier::in_rounds() const {
    return engine_.options_.scheduler == Scheduler::batches;
}

i64 Courier::round_items() const {
    return round_items_each * engine_.pool_.workers();
}

void Courier::run() {
    group_.enter_walk();
    queue_loaded();
    while (!rank_.has_left()) {
        const bool in_round = in_rounds() && pausing_ == Pausing::no && is_working();
        if (in_round && pauses_ < round_pauses) {
            pause();
            continue;
        }
        const bool was_busy = receive_all() | send_all();
        if (rank_.has_left()) break;
        step();
        if (was_busy || pause()) pauses_ = 0;
    }
    group_.leave_walk();
    engine_.pool_.close();
    if (group_.rank() == 0 && written_.epoch != 0 && !rank_.was_aborted()) {
        CheckpointFolder(engine_.options_.checkpoint).remove(written_);
    }
}

void Courier::end_alone() {
    Pool& pool = engine_.pool_;
    pool.halt(Pool::Halt::none);
    if (in_rounds()) pool.grant(all_items);
    while (pool.unfinished() != 0)
        group_.wait(longest_pause_us);
    group_.leave_walk();
    pool.close();
}

void Courier::set_roots(u64 hash) {
    manifest_.roots_hash = hash;
    manifest_.result_bytes = engine_.options_.result_bytes;
}

void Courier::step() {
    if (pausing_ != Pausing::no) return step_checkpoint();
    if (engine_.stopped_.load(std::memory_order_relaxed) && !has_aborted_) {
        has_aborted_ = true;
        rank_.abort(*this);
    }
    const double now = now_seconds();
    if (rank_.fruitless() != fruitless_) {
        fruitless_ = rank_.fruitless();
        const double wait = 1e-6 * (shortest_pause_us << std::min(fruitless_, 8u));
        next_request_ = now + (fruitless_ == 0 ? 0 : std::min(wait, longest_refusal_seconds));
    }
    // Takes work from a central queue that was loaded from a checkpoint of a cp walk. Under cp
    // itself rank 0 processes no items.
    if (!keeps_queue()) refill();
    rank_.step(*this, now >= next_request_);
    let_work();
    look_at_clock(now);
}

/// If the pool has a gate, grants the workers their next items.
void Courier::let_work() {
    Pool& pool = engine_.pool_;
    const bool is_one = is_central() && rank_.holds_item();
    if ((!is_one && !in_rounds()) || is_working() || pool.queued() == 0) return;
    if (in_rounds()) return pool.grant(round_items());
    // The workers may process only the item itself: what they find in it goes back to rank 0.
    if (pool.items_done() == rank_.done_before_item()) pool.grant(1);
}

/// Sleeps until a message, a worker or the time limit ends the pause. Returns whether a message or
/// a worker did.
bool Courier::pause() {
    const u32 doublings = std::min(pauses_++, 5u);
    double wait = std::min(shortest_pause_us << doublings, longest_pause_us);
    if (group_.messages_wake()) {
        // Sleeps at most until the next request may be sent.
        const double refusal = 1e6 * (next_request_ - now_seconds());
        wait = refusal > 0 ? std::min<double>(refusal + 1, longest_sleep_us) : longest_sleep_us;
    }
    return group_.wait(static_cast<u32>(wait));
}

bool Courier::has_queued() const {
    return engine_.pool_.queued() > 0 || !central_.is_empty();
}

bool Courier::is_working() const {
    // The order matters: a worker counts itself as working before it takes a grant.
    return (engine_.pool_.has_granted() && engine_.pool_.queued() > 0) ||
           engine_.pool_.in_hand() > 0;
}

bool Courier::is_idle() const {
    return engine_.pool_.unfinished() == 0 && central_.is_empty();
}

bool Courier::owes() const {
    // Acquire: pairs with Engine::root_done().
    if (engine_.roots_left_.load(std::memory_order_acquire) != 0) return true;
    if (group_.has_caller_messages()) return true;
    std::lock_guard lock(mutex_);
    return results_waiting_ != 0;
}

u64 Courier::items_done() const {
    return engine_.pool_.items_done();
}

void Courier::drop() {
    engine_.stopped_.store(true, std::memory_order_relaxed);
    // One work batch per call: its results are sent before the next batch is unpacked.
    if (!central_.is_empty()) {
        std::string batch;
        std::vector<CentralQueue::Due> lost;
        if (central_.pop(batch, lost) == Errc::ok) end_all(batch, walks_since_);
        end_without(lost);
    }
    // The workers empty the queues: after a stop they discard items without processing them.
    if (is_central() || in_rounds()) engine_.pool_.grant(all_items);
}

void Courier::post(u32 to, std::string message) {
    ++messages_;
    message_bytes_ += message.size();
    ++group_.traffic_[2 * to];
    group_.traffic_[2 * to + 1] += message.size();
    group_.send(to, std::move(message));
}

void Courier::send(u32 to, Message message) {
    ByteWriter writer;
    writer.put(Kind::protocol);
    writer.put(message.kind);
    writer.put(static_cast<u8>((message.black ? 1 : 0) | (message.aborts ? 2 : 0)));
    if (message.kind == Message::Kind::token) writer.put(message.balance);
    std::string bytes = writer.take();
    bytes += message.work;
    post(to, std::move(bytes));
}

void Courier::receive_protocol(u32 from, ByteReader& reader) {
    Message message;
    message.kind = reader.get<Message::Kind>();
    const u8 flags = reader.get<u8>();
    message.black = (flags & 1) != 0;
    message.aborts = (flags & 2) != 0;
    if (message.kind == Message::Kind::token) message.balance = reader.get<i64>();
    message.work = reader.rest();
    rank_.receive(from, message, *this);
    if (rank_.has_left()) return;
    let_work();
}

bool Courier::receive_all() {
    bool any = false;
    u32 from = 0;
    std::string message;
    while (!rank_.has_left() && group_.receive(from, message)) {
        any = true;
        receive(from, message);
    }
    return any;
}

void Courier::receive(u32 from, std::string_view message) {
    ByteReader reader(message);
    const Kind kind = reader.get<Kind>();
    switch (kind) {
        case Kind::protocol:
            return receive_protocol(from, reader);
        case Kind::result:
            return take_results(reader);
        case Kind::link_query:
            return answer_query(from, reader);
        case Kind::link_answer:
            return take_answer(reader);
        case Kind::caller_message: {
            const u8 what = reader.get<u8>();
            group_.receive_at_rank_0(from, what, reader.rest());
            ByteWriter writer;
            writer.put(Kind::caller_message_arrived);
            writer.put(static_cast<u64>(reader.rest().size()));
            return post(from, writer.take());
        }
        case Kind::caller_message_arrived:
            return group_.caller_message_arrived(reader.get<u64>());
        case Kind::meter:
            for (size_t at = 0; at < 3; ++at)
                meters_[3 * from + at] = reader.get<u64>();
            return;
        default:
            return receive_checkpoint(kind, reader);
    }
}

void Courier::receive_checkpoint(Kind kind, ByteReader& reader) {
    switch (kind) {
        case Kind::interrupt:
            was_interrupted_ = true;
            return;
        case Kind::pause:
            return begin_pause(reader.get<u64>());
        case Kind::mark:
            ++marks_;
            return;
        case Kind::saved:
            return note_saved(reader.get<Errc>());
        default:
            return go_on(reader.get<u64>() != 0);
    }
}

void Courier::return_result(const Owner& owner, const void* bytes, size_t size) {
    const std::string_view result(static_cast<const char*>(bytes), size);
    const bool is_zero = std::all_of(result.begin(), result.end(), [](char at) { return at == 0; });
    std::lock_guard lock(mutex_);
    Returning& returning = returning_[owner.rank];
    const size_t before = returning.bytes.bytes().size();
    try {
        put_lease(returning.bytes, owner.lease);
        returning.bytes.put_bytes(is_zero ? std::string_view() : result);
    } catch (const std::bad_alloc&) {
        returning.bytes.truncate(before);
        throw;
    }
    ++returning.count;
    ++results_waiting_;
}

void Courier::take_results(ByteReader& reader) {
    while (!reader.at_end()) {
        Node* const node = leases_.take_back(get_lease(reader));
        const std::string_view result = reader.get_bytes();
        engine_.pool_.push_here(
            {node, Payload::make(std::as_bytes(std::span(result))), Work::merge});
    }
}

bool Courier::send_results() {
    bool any = false;
    for (u32 to = 0; to < group_.ranks(); ++to) {
        Returning returning;
        {
            std::lock_guard lock(mutex_);
            if (returning_[to].count == 0) continue;
            std::swap(returning, returning_[to]);
            results_waiting_ -= returning.count;
        }
        any = true;
        const std::string results = returning.bytes.take();
        if (to == group_.rank()) {
            ByteReader reader(results);
            take_results(reader);
        } else {
            ByteWriter writer;
            writer.put(Kind::result);
            post(to, writer.take() + results);
        }
        for (; returning.count > 0; --returning.count)
            engine_.root_done();
    }
    return any;
}

u32 Courier::rank_of_file(u64 device, u64 inode) const {
    const u64 mixed = (inode ^ device << 40) * 0x9e3779b97f4a7c15u;
    return static_cast<u32>((mixed >> 32) % group_.ranks());
}

void Courier::query_link(u64 device, u64 inode, u32 links, Node* node, std::string_view amount) {
    std::lock_guard lock(mutex_);
    LinkQuery& query = next_queries_[rank_of_file(device, inode)];
    const size_t files = query.files.bytes().size();
    const size_t nodes = query.nodes.size();
    try {
        query.files.put(device);
        query.files.put(inode);
        query.files.put(links);
        query.nodes.push_back(node);
        query.amounts += amount;
    } catch (const std::bad_alloc&) {
        // The three lists must keep the same length.
        query.files.truncate(files);
        query.nodes.resize(nodes);
        throw;
    }
}

void Courier::send_queries() {
    for (u32 to = 0; to < group_.ranks(); ++to) {
        auto query = std::make_unique<LinkQuery>();
        {
            std::lock_guard lock(mutex_);
            if (next_queries_[to].nodes.empty()) continue;
            std::swap(*query, next_queries_[to]);
        }
        ByteWriter writer;
        writer.put(Kind::link_query);
        writer.put(++queries_made_);
        post(to, writer.take() + query->files.take());
        queries_[queries_made_] = std::move(query);
    }
}

/// Answers, for each file of a query, whether this is the first of its names to be reported. This
/// rank counts the names of these files.
void Courier::answer_query(u32 from, ByteReader& reader) {
    ByteWriter writer;
    writer.put(Kind::link_answer);
    writer.put(reader.get<u64>());
    std::string message = writer.take();
    while (!reader.at_end()) {
        const u64 device = reader.get<u64>();
        const u64 inode = reader.get<u64>();
        const u32 links = reader.get<u32>();
        message += engine_.links().is_first(device, inode, links) ? '1' : '0';
    }
    post(from, std::move(message));
}

void Courier::take_answer(ByteReader& reader) {
    const auto found = queries_.find(reader.get<u64>());
    WARREN_CHECK(found != queries_.end());
    LinkQuery* const query = found->second.release();
    queries_.erase(found);
    query->firsts = reader.rest();
    WARREN_CHECK(query->firsts.size() == query->nodes.size());
    engine_.pool_.push_here(
        {nullptr, Payload::make(std::as_bytes(std::span(&query, 1))), Work::link_answers});
}

/// Sends everything that is queued. Returns whether there was anything to send.
bool Courier::send_all() {
    const bool any = send_results();
    const u64 before = messages_;
    send_queries();
    send_caller_messages();
    if (engine_.options_.meter != nullptr) send_meter();
    return any || messages_ != before;
}

void Courier::send_caller_messages() {
    if (group_.rank() == 0) return;
    for (Group::CallerMessage& message : group_.take_caller_messages()) {
        ByteWriter writer;
        writer.put(Kind::caller_message);
        writer.put(message.kind);
        post(0, writer.take() + message.bytes);
    }
}

/// Sends this rank's counts for Options::meter to rank 0, which adds up those of all ranks.
void Courier::send_meter() {
    const double now = now_seconds();
    if (now < next_meter_ || rank_.is_ending()) return;
    const bool is_first = next_meter_ == 0;
    next_meter_ = now + meter_seconds;
    if (is_first) return;
    const u64 own[3] = {engine_.entries_.load(std::memory_order_relaxed),
                        engine_.directories_.load(std::memory_order_relaxed),
                        engine_.pool_.queued() + central_.items()};
    if (group_.rank() != 0) {
        ByteWriter writer;
        writer.put(Kind::meter);
        writer.put(own);
        return post(0, writer.take());
    }
    u64 sums[3] = {own[0], own[1], own[2]};
    for (size_t at = 3; at < meters_.size(); ++at)
        sums[at % 3] += meters_[at];
    Meter& meter = *engine_.options_.meter;
    meter.entries.store(sums[0], std::memory_order_relaxed);
    meter.directories.store(sums[1], std::memory_order_relaxed);
    meter.queued.store(sums[2], std::memory_order_relaxed);
}

}  // namespace warren::walk

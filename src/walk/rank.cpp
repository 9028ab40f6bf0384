// SPDX-License-Identifier: Apache-2.0
// Why acknowledgements: Dijkstra's algorithm assumes that a message arrives at once. A rank that
// gives work away stays active until the receiver has acknowledged it, which has the same effect.
//
// Why three messages at the end: a rank that receives `end` may still wait for the answer to a
// request, so the other ranks must stay to answer it. Rank 0 sends `leave` when each rank has sent
// `ended`, by which the rank says that it waits for no answer.
#include "walk/rank.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace warren::walk {

using Kind = Message::Kind;

namespace {

/// cp: a worker that reads a huge directory sends this many work batches of it, then waits until
/// rank 0 has acknowledged one. Otherwise batches would accumulate in the worker's memory if rank 0
/// or the network is slower.
constexpr u32 handed_back_most = 2;

}  // namespace

const std::vector<SchedulerName>& scheduler_names() {
    static const std::vector<SchedulerName> names = {
        {"cp", Scheduler::cp, Split::half},
        {"cp-keep-one", Scheduler::cp_keep_one, Split::half},
        {"cp-directories", Scheduler::cp_directories, Split::half},
        {"drqs", Scheduler::drqs, Split::random},
        {"deqs", Scheduler::drqs, Split::half},
        {"pa-drqs", Scheduler::pa_drqs, Split::random},
        {"pa-drqs-list", Scheduler::pa_drqs_list, Split::random},
        {"h-drqs", Scheduler::drqs, Split::random},
        {"h-drqs-batches", Scheduler::batches, Split::random},
    };
    return names;
}

std::optional<SchedulerName> scheduler_named(std::string_view name) {
    for (const SchedulerName& known : scheduler_names()) {
        if (known.name == name) return known;
    }
    return {};
}

Nodes::Nodes(const std::vector<u32>& node_of)
    : grouped_(node_of.size()),
      place_(node_of.size()),
      begin_(node_of.size()),
      end_(node_of.size()) {
    std::iota(grouped_.begin(), grouped_.end(), 0u);
    std::stable_sort(grouped_.begin(), grouped_.end(),
                     [&](u32 left, u32 right) { return node_of[left] < node_of[right]; });
    for (u32 begin = 0, end = 0; begin < grouped_.size(); begin = end) {
        while (end < grouped_.size() && node_of[grouped_[end]] == node_of[grouped_[begin]])
            ++end;
        for (u32 at = begin; at < end; ++at) {
            const u32 rank = grouped_[at];
            place_[rank] = at;
            begin_[rank] = begin;
            end_[rank] = end;
        }
    }
}

Rank::Rank(Scheduler scheduler, Split split, Termination termination, u32 rank,
           std::shared_ptr<const Nodes> nodes)
    : scheduler_(scheduler),
      split_(split),
      termination_(termination),
      rank_(rank),
      nodes_(std::move(nodes)),
      has_token_(rank == 0) {}

bool Rank::is_passive(const RankCallbacks& callbacks) const {
    return callbacks.is_idle() && !request_out_ && unacknowledged_ == 0 && !callbacks.owes();
}

u32 Rank::choose_victim(RankCallbacks& callbacks) {
    const u32 near = nodes_->near(rank_);
    const u32 far = nodes_->far(rank_);
    if (scheduler_ == Scheduler::pa_drqs && near > 0 && !nodes_->is_first(rank_)) {
        return nodes_->near_one(rank_, callbacks.choose(near));
    }
    if (scheduler_ == Scheduler::pa_drqs && near > 0 && far > 0) {
        return fruitless_ % 2 == 1 ? nodes_->near_one(rank_, callbacks.choose(near))
                                   : nodes_->far_one(rank_, callbacks.choose(far));
    }
    if (scheduler_ == Scheduler::pa_drqs_list) {
        // Cycles through a list: first the ranks of its own node, then the others, node by node.
        const u32 turn = fruitless_ % (near + far);
        return turn < near ? nodes_->near_one(rank_, turn) : nodes_->far_one(rank_, turn - near);
    }
    const u32 other = callbacks.choose(ranks() - 1);
    return other < rank_ ? other : other + 1;
}

void Rank::receive(u32 from, const Message& message, RankCallbacks& callbacks) {
    WARREN_CHECK(!left_);
    switch (message.kind) {
        case Kind::request:
            return answer(from, callbacks);
        case Kind::work:
            return take_work(from, message, callbacks);
        case Kind::nothing:
            request_out_ = false;
            ++fruitless_;
            return;
        case Kind::acknowledge:
            --unacknowledged_;
            handed_back_ = 0;
            return;
        case Kind::token:
            has_token_ = true;
            token_black_ = message.black;
            token_balance_ = message.balance;
            return;
        case Kind::abort:
            return abort(callbacks);
        case Kind::end:
            ending_ = true;
            aborted_ = message.aborts;
            if (aborted_) callbacks.drop();
            return;
        case Kind::ended:
            ++ended_;
            return;
        case Kind::leave:
            left_ = true;
            return;
    }
}

void Rank::answer(u32 from, RankCallbacks& callbacks) {
    if (is_central()) return answer_centrally(from, callbacks);
    std::string work = ending_ || paused_ ? std::string() : callbacks.give(split_);
    if (work.empty()) return callbacks.send(from, {Kind::nothing, false, false, 0, {}});
    ++balance_;
    if (termination_ == Termination::dijkstra) {
        ++unacknowledged_;
        if (from < rank_) black_ = true;
    }
    callbacks.send(from, {Kind::work, false, false, 0, std::move(work)});
}

void Rank::answer_centrally(u32 from, RankCallbacks& callbacks) {
    waiting_.push_back(from);
    serve_waiting(callbacks);
}

void Rank::serve_waiting(RankCallbacks& callbacks) {
    while (!waiting_.empty() && (ending_ || paused_ || callbacks.has_queued())) {
        const bool gives = !ending_ && !paused_;
        Message message;
        message.kind = gives ? Kind::work : Kind::nothing;
        if (gives) message.work = callbacks.give_one();
        if (gives && message.work.empty()) return;  // it is just being queued
        callbacks.send(waiting_.front(), std::move(message));
        waiting_.pop_front();
    }
}

void Rank::take_work(u32 from, const Message& message, RankCallbacks& callbacks) {
    const u64 done_before = callbacks.items_done();  // a worker may finish it during accept()
    // Work that arrives after the end of an aborted walk is dropped, but acknowledged.
    if (ending_) {
        callbacks.decline(message.work);
    } else {
        callbacks.accept(message.work);
    }
    if (is_central()) {
        if (rank_ == 0) {
            if (message.black) callbacks.send(from, {Kind::acknowledge, false, false, 0, {}});
            return serve_waiting(callbacks);
        }
        request_out_ = false;
        handed_back_ = 0;
        holds_item_ = true;
        done_before_ = done_before;
        return;
    }
    request_out_ = false;
    fruitless_ = 0;
    --balance_;
    if (termination_ == Termination::safra) {
        black_ = true;
    } else {
        callbacks.send(from, {Kind::acknowledge, false, false, 0, {}});
    }
}

void Rank::step(RankCallbacks& callbacks, bool may_ask) {
    if (left_ || paused_) return;
    if (ending_) return step_end(callbacks);
    if (ranks() == 1) {
        left_ = callbacks.is_idle() && !callbacks.owes();
        return;
    }
    if (is_central()) return step_worker(callbacks);
    if (!callbacks.is_idle() || request_out_) return;
    if (has_token_ && is_passive(callbacks)) {
        if (rank_ == 0 && has_begun_) {
            judge_token(callbacks);
        } else {
            pass_token(callbacks);
        }
    }
    if (ending_ || !may_ask) return;
    request_out_ = true;
    callbacks.send(choose_victim(callbacks), {});
}

/// cp: rank 0 ends the walk when all other ranks wait for work. These hand back what they found,
/// then request the next item.
void Rank::step_worker(RankCallbacks& callbacks) {
    if (rank_ == 0) {
        serve_waiting(callbacks);  // callbacks on rank 0 may have queued something
        if (callbacks.is_idle() && waiting_.size() == ranks() - 1) begin_end(false, callbacks);
        return;
    }
    if (request_out_ || unacknowledged_ != 0 || callbacks.is_working()) return;
    // A queue without an item of rank 0 was loaded from a checkpoint.
    if (holds_item_ || callbacks.has_queued()) {
        if (holds_item_ && callbacks.items_done() == done_before_) return;
        const u32 kept = scheduler_ == Scheduler::cp_keep_one ? 1 : 0;
        std::string found = callbacks.give_all_but(kept);
        holds_item_ = callbacks.has_queued();
        if (!found.empty()) {
            // A rank that requests an item next needs no acknowledgement: the answer serves as one.
            const bool wants_receipt = ++handed_back_ >= handed_back_most && holds_item_;
            unacknowledged_ = wants_receipt ? 1 : 0;
            callbacks.send(0, {Kind::work, wants_receipt, false, 0, std::move(found)});
        }
        done_before_ = callbacks.items_done();
        if (holds_item_) return;
    }
    request_out_ = true;
    callbacks.send(0, {});
}

void Rank::send_token(bool black, i64 balance, RankCallbacks& callbacks) {
    has_token_ = false;
    callbacks.send((rank_ + 1) % ranks(), {Kind::token, black, false, balance, {}});
}

void Rank::pass_token(RankCallbacks& callbacks) {
    if (rank_ == 0) {
        has_begun_ = true;
        black_ = false;
        return send_token(false, 0, callbacks);
    }
    send_token(token_black_ || black_, token_balance_ + balance_, callbacks);
    black_ = false;
}

/// Called on rank 0, passive, when the token is back: ends the walk or sends the token round again.
void Rank::judge_token(RankCallbacks& callbacks) {
    const i64 under_way = token_balance_ + balance_;
    const bool is_white = !token_black_ && !black_;
    const bool is_over = is_white && (termination_ == Termination::dijkstra || under_way == 0);
    if (!is_over) return pass_token(callbacks);
    // Dijkstra's colours and Safra's count must agree that no work is in transit.
    WARREN_CHECK(under_way == 0);
    begin_end(false, callbacks);
}

void Rank::pause(RankCallbacks& callbacks) {
    paused_ = true;
    if (is_central()) serve_waiting(callbacks);
}

void Rank::go_on(RankCallbacks& callbacks) {
    paused_ = false;
    if (to_abort_) abort(callbacks);
}

void Rank::abort(RankCallbacks& callbacks) {
    if (ending_ || left_) return;
    to_abort_ = paused_;
    if (paused_) return;
    if (rank_ == 0) return begin_end(true, callbacks);
    callbacks.send(0, {Kind::abort, false, false, 0, {}});
}

void Rank::begin_end(bool aborts, RankCallbacks& callbacks) {
    ending_ = true;
    aborted_ = aborts;
    if (aborts) callbacks.drop();
    for (u32 other = 1; other < ranks(); ++other)
        callbacks.send(other, {Kind::end, false, aborts, 0, {}});
    serve_waiting(callbacks);
}

void Rank::step_end(RankCallbacks& callbacks) {
    if (aborted_) callbacks.drop();  // what user callbacks have queued meanwhile
    // The token of an aborted walk is passed on to rank 0, so that it reaches no rank that has
    // left.
    if (has_token_ && rank_ != 0) send_token(true, 0, callbacks);
    if (!is_passive(callbacks)) return;
    if (rank_ != 0) {
        if (!reported_) callbacks.send(0, {Kind::ended, false, false, 0, {}});
        reported_ = true;
        return;
    }
    if (ended_ != ranks() - 1 || !has_token_) return;
    for (u32 other = 1; other < ranks(); ++other)
        callbacks.send(other, {Kind::leave, false, false, 0, {}});
    left_ = true;
}

std::string Rank::fingerprint() const {
    std::string text;
    const auto add = [&](u64 number) {
        text += std::to_string(number);
        text += ',';
    };
    for (const bool flag : {request_out_, holds_item_, black_, has_token_, has_begun_, token_black_,
                            ending_, aborted_, reported_, left_})
        text += flag ? '1' : '0';
    // Of the number of refused requests only its effect on the next victim matters.
    const u64 turn = scheduler_ == Scheduler::pa_drqs        ? fruitless_ % 2
                     : scheduler_ == Scheduler::pa_drqs_list ? fruitless_ % (ranks() - 1)
                                                             : 0;
    for (const u64 number :
         {u64{unacknowledged_}, turn, done_before_, u64{handed_back_}, u64{ended_},
          static_cast<u64>(token_balance_), static_cast<u64>(balance_)})
        add(number);
    for (const u32 rank : waiting_)
        add(rank);
    return text;
}

}  // namespace warren::walk

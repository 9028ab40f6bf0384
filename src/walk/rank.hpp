// SPDX-License-Identifier: Apache-2.0
// The protocol between the ranks of a walk: which rank requests work from which, and how all of
// them learn that none is left. The schedulers are those of LaFon, Misra, Bringhurst: "On
// Distributed File Tree Walk of Parallel File Systems" (SC 2012). Termination is detected by
// Dijkstra's token with acknowledgements, or by Safra's counters.
//
// Invariant: a rank is passive only if its queue is empty, no callback runs, none of its requests
// is unanswered, all work that it gave away has been acknowledged, and everything that began on it
// is finished on all ranks. Only a passive rank passes the token on. A rank leaves when no message
// to it can be in transit.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warren/walk.hpp"

namespace warren::walk {

enum class Termination : u8 { dijkstra, safra };

struct SchedulerName {
    std::string_view name;
    Scheduler scheduler;
    Split split;
};

/// "cp", "cp-keep-one", "cp-directories", "drqs", "deqs", "pa-drqs", "pa-drqs-list", "h-drqs",
/// "h-drqs-batches", each with its own split. h-drqs is drqs for processes with several threads on
/// one queue.
const std::vector<SchedulerName>& scheduler_names();
std::optional<SchedulerName> scheduler_named(std::string_view name);

struct Message {
    enum class Kind : u8 {
        request,
        work,         // an answer to a request; under cp also what a worker hands back
        nothing,      // the other answer: there is no work to give
        acknowledge,  // acknowledges work; under cp only on request
        token,
        abort,  // to rank 0: end the walk
        end,    // from rank 0: the walk is over
        ended,  // to rank 0: this rank waits for no more answers
        leave,  // from rank 0: no rank waits for an answer
    };
    Kind kind = Kind::request;
    bool black = false;   // color of a token; for work handed back: an acknowledgement is requested
    bool aborts = false;  // of `end`: the walk is aborted
    i64 balance = 0;      // of a token: work sent minus work received
    std::string work;
};

/// Callbacks that a rank needs: its queue, the network, random numbers.
class RankCallbacks {
 public:
    virtual ~RankCallbacks() = default;
    /// Must not wait. Messages between two ranks must arrive in the order in which they were sent.
    virtual void send(u32 to, Message message) = 0;
    /// Returns a random number below `count`.
    virtual u32 choose(u32 count) = 0;
    virtual bool has_queued() const = 0;
    /// Whether items have been taken from the queue and are not done.
    virtual bool is_working() const = 0;
    /// Whether at one moment nothing was queued and nothing being processed.
    virtual bool is_idle() const { return !has_queued() && !is_working(); }
    /// Whether something that began on this rank is not finished on all ranks, or a result or
    /// message of this rank has not been sent yet.
    virtual bool owes() const { return false; }
    /// The number of items processed on this rank so far.
    virtual u64 items_done() const = 0;
    /// Takes part of the queue for another rank, at most 1 MiB. Returns an empty string if there is
    /// none to give.
    virtual std::string give(Split split) = 0;
    /// Takes one item for another rank. Returns an empty string if none is available at the moment.
    virtual std::string give_one() = 0;
    /// Takes all items but `kept`.
    virtual std::string give_all_but(u32 kept) = 0;
    virtual void accept(const std::string& work) = 0;
    /// Returns the results of these items to their owners without processing them.
    virtual void decline(const std::string& /*work*/) {}
    /// Empties the queue: the walk is aborted.
    virtual void drop() = 0;
};

/// The ranks of each node. Simulated ranks share one object: with ten thousand ranks, a list for
/// each would fill the memory, and reading it would take most of the time.
class Nodes {
 public:
    /// `node_of[rank]` is the node of each rank.
    explicit Nodes(const std::vector<u32>& node_of);
    u32 ranks() const { return static_cast<u32>(grouped_.size()); }
    bool is_first(u32 rank) const { return place_[rank] == begin_[rank]; }
    /// How many other ranks are on the same node, and how many on other nodes.
    u32 near(u32 rank) const { return end_[rank] - begin_[rank] - 1; }
    u32 far(u32 rank) const { return ranks() - (end_[rank] - begin_[rank]); }
    u32 near_one(u32 rank, u32 index) const {
        const u32 at = begin_[rank] + index;
        return grouped_[at < place_[rank] ? at : at + 1];
    }
    u32 far_one(u32 rank, u32 index) const {
        return grouped_[index < begin_[rank] ? index : index + (end_[rank] - begin_[rank])];
    }

 private:
    std::vector<u32> grouped_;  // the ranks, ordered by node
    std::vector<u32> place_;    // index of each rank in `grouped_`
    std::vector<u32> begin_;    // first and last index + 1 of the rank's node
    std::vector<u32> end_;
};

/// The protocol state of one rank. It is a value, so tests can copy it.
class Rank {
 public:
    Rank(Scheduler scheduler, Split split, Termination termination, u32 rank,
         std::shared_ptr<const Nodes> nodes);

    void receive(u32 from, const Message& message, RankCallbacks& callbacks);
    /// Called between items, and repeatedly while there is nothing to do. `may_ask`: a request for
    /// work may be sent, even after refused ones.
    void step(RankCallbacks& callbacks, bool may_ask);
    /// Ends the walk early, on all ranks.
    void abort(RankCallbacks& callbacks);
    /// Until go_on() this rank requests no work, gives none away and does not end the walk.
    void pause(RankCallbacks& callbacks);
    void go_on(RankCallbacks& callbacks);
    /// Whether no answer to this rank can be in transit.
    bool has_no_answers_due() const { return !request_out_ && unacknowledged_ == 0; }

    /// Whether this rank may process items of its queue.
    bool may_work() const { return !ending_ && !(is_central() && rank_ == 0 && ranks() > 1); }
    /// Whether the walk is over and no more messages will arrive.
    bool has_left() const { return left_; }
    bool was_aborted() const { return aborted_; }
    bool is_ending() const { return ending_; }
    /// cp: whether the queue holds one item of rank 0 or what was found in it, and how many items
    /// had been processed before that one.
    bool holds_item() const { return holds_item_; }
    u64 done_before_item() const { return done_before_; }
    /// The number of successive refused requests. The pause before the next one grows with it.
    u32 fruitless() const { return fruitless_; }
    /// The whole state as text, for tests to compare.
    std::string fingerprint() const;

 private:
    u32 ranks() const { return nodes_->ranks(); }
    bool is_central() const { return has_central_queue(scheduler_); }
    bool is_passive(const RankCallbacks& callbacks) const;
    u32 choose_victim(RankCallbacks& callbacks);
    void answer(u32 from, RankCallbacks& callbacks);
    void answer_centrally(u32 from, RankCallbacks& callbacks);
    void take_work(u32 from, const Message& message, RankCallbacks& callbacks);
    void serve_waiting(RankCallbacks& callbacks);
    void step_worker(RankCallbacks& callbacks);
    void pass_token(RankCallbacks& callbacks);
    void judge_token(RankCallbacks& callbacks);
    void send_token(bool black, i64 balance, RankCallbacks& callbacks);
    void begin_end(bool aborts, RankCallbacks& callbacks);
    void step_end(RankCallbacks& callbacks);

    Scheduler scheduler_;
    Split split_;
    Termination termination_;
    u32 rank_;
    std::shared_ptr<const Nodes> nodes_;

    bool request_out_ = false;
    u32 unacknowledged_ = 0;
    u32 fruitless_ = 0;
    u64 done_before_ = 0;  // cp: items processed when the current one arrived
    bool holds_item_ = false;
    u32 handed_back_ = 0;      // cp: work batches sent since rank 0's last message
    std::deque<u32> waiting_;  // cp, rank 0: ranks waiting for an answer

    bool black_ = false;
    bool has_token_ = false;
    bool has_begun_ = false;  // rank 0: the token has been sent
    bool token_black_ = false;
    i64 token_balance_ = 0;
    i64 balance_ = 0;

    bool paused_ = false;
    bool to_abort_ = false;  // abort at go_on()
    bool ending_ = false;
    bool aborted_ = false;
    bool reported_ = false;
    bool left_ = false;
    u32 ended_ = 0;  // rank 0: how many ranks have sent `ended`
};

}  // namespace warren::walk

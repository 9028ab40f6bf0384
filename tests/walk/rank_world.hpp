// SPDX-License-Identifier: Apache-2.0
// Ranks without processes, files or time: a world is a value with all ranks, their queues and the
// messages in transit, and the test that drives it decides the next step.
//
// Invariant: an item is a number; once done it leaves `fanout` items one less, none at 0.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "walk/rank.hpp"

namespace warren::walk {

struct WorldRules {
    Scheduler scheduler = Scheduler::drqs;
    Split split = Split::random;
    Termination termination = Termination::dijkstra;
    std::vector<u32> node_of = {0, 0, 0};
    u32 first_item = 1;
    u32 fanout = 2;
    bool hides_work = false;  // a fault: callbacks that run are not seen
};

class World {
 public:
    /// Returns a number below its argument.
    using Choose = std::function<u32(u32)>;

    enum class What : u8 { deliver, step, step_without_asking, start, finish, abort };
    struct Event {
        What what;
        u32 rank;
        u32 from = 0;  // of a delivery
    };

    explicit World(const WorldRules& rules);

    /// All possible next steps except aborts.
    std::vector<Event> events() const;
    void happen(const Event& event, const Choose& choose);

    u32 ranks() const { return static_cast<u32>(ranks_.size()); }
    bool all_have_left() const;
    bool was_aborted() const { return aborted_; }
    u64 done() const;
    /// The total of the first item and all that it yields.
    u64 expected() const;
    u64 done_by(u32 rank) const { return states_[rank].done; }
    u64 messages() const { return messages_; }
    /// What is wrong in this state; empty if nothing is.
    std::string fault() const;
    std::string fingerprint() const;

 private:
    struct State {
        std::string queue;    // items, the oldest first
        std::string in_hand;  // at most one
        u64 done = 0;
    };
    class View;

    WorldRules rules_;
    std::vector<Rank> ranks_;
    std::vector<State> states_;
    std::vector<std::deque<Message>> channels_;  // from * ranks + to
    bool aborted_ = false;
    u64 messages_ = 0;
};

}  // namespace warren::walk

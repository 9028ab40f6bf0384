// SPDX-License-Identifier: Apache-2.0
// How the results of stolen work return: the ranks of walk/rank.hpp with the leases of
// walk/leases.hpp, over directories that are numbers. A directory is finished once, by the rank
// that read it, when everything below it is done on all ranks; its result is then the sum of all
// below it. All interleavings of small worlds, and very many random schedules of larger ones.
//
// Ghosts, which only complete paths and hold no result, are left out.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "walk/leases.hpp"
#include "walk/rank.hpp"

namespace warren::walk {

enum class Fault : u8 { none, issues_anew, keeps_no_debt };

struct LeaseRules {
    Scheduler scheduler = Scheduler::drqs;
    Split split = Split::half;
    std::vector<u32> node_of = {0, 0, 0};
    u32 level = 1;   // of the root: a directory of level 0 has nothing in it
    u32 parts = 1;   // in which others are read
    u32 fanout = 1;  // subdirectories in each part
    Fault fault = Fault::none;
};

class LeaseWorld {
 public:
    using Choose = std::function<u32(u32)>;
    enum class What : u8 { deliver, step, step_without_asking, start, finish, send, abort };
    struct Event {
        What what;
        u32 rank;
        u32 from = 0;
    };

    explicit LeaseWorld(const LeaseRules& rules);

    std::vector<Event> events() const;
    void happen(const Event& event, const Choose& choose);
    u32 ranks() const { return static_cast<u32>(ranks_.size()); }
    bool all_have_left() const;
    bool was_aborted() const { return aborted_; }
    std::string fault() const;
    std::string fingerprint() const;

 private:
    static constexpr u32 none = ~0u;

    struct Directory {
        bool exists = false;
        u32 level = 0;
        NodeKind kind = NodeKind::own;
        u32 above = none;
        u32 pending = 0;
        u32 parts_left = 0;
        bool is_open = false;
        u32 result = 0;
        Owner owner;
    };
    struct Item {
        Work work = Work::directory;
        u32 directory = none;
        u32 parts = 0;   // names: that were read
        u32 result = 0;  // merge
    };
    struct Sent {  // an item in a message
        Work work;
        u32 level;
        u32 parts;
        u32 result;
        Owner owner;
    };
    struct Returned {
        Owner owner;
        u32 result;
    };
    struct State {
        std::vector<Directory> directories;
        std::vector<Item> queue;  // the oldest first
        std::vector<Item> here;
        std::vector<Item> in_hand;  // at most one
        bool reads = false;         // what is in hand has a part
        Leases<u32> leases;
        std::vector<Returned> returning;
        u32 owed = 0;
        u32 done = 0;
        bool stopped = false;
    };
    struct Delivery {
        bool is_result = false;
        Returned result{};
        Message message;
    };
    class View;

    u32 make(u32 rank, u32 level, NodeKind kind, u32 above);
    void start(u32 rank);
    void finish_item(u32 rank);
    void release(u32 rank, u32 directory);
    void finish(u32 rank, u32 directory);
    void root_done(u32 rank) { --states_[rank].owed; }
    void send_results(u32 rank);
    void take_result(u32 rank, const Returned& returned);
    u32 size_of(u32 level) const {
        return level == 0 ? 1 : 1 + rules_.parts * rules_.fanout * size_of(level - 1);
    }
    std::string name_of(const Owner& owner) const;
    void describe(const State& state, std::string& text) const;
    void describe(const Delivery& delivery, std::string& text) const;

    LeaseRules rules_;
    std::vector<Rank> ranks_;
    std::vector<State> states_;
    std::vector<std::deque<Delivery>> channels_;
    bool aborted_ = false;
    u32 finished_ = 0;
    u32 total_ = 0;
    std::string fault_;
};

}  // namespace warren::walk

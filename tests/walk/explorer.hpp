// SPDX-License-Identifier: Apache-2.0
// Enumerates every state that a world of ranks can reach, and checks that the end can be reached
// from each of them. A world is a value: it lists its possible next steps and reports what is wrong
// with it.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "warren/types.hpp"

namespace warren::walk {

/// Answers from a script, and records how many answers each question had.
class Script {
 public:
    u32 answer(u32 count) {
        if (at_ == answers_.size()) answers_.push_back({0, count});
        return answers_[at_++].first;
    }
    /// Goes on to the next script; false if that was the last.
    bool next() {
        at_ = 0;
        while (!answers_.empty() && answers_.back().first + 1 == answers_.back().second)
            answers_.pop_back();
        if (answers_.empty()) return false;
        ++answers_.back().first;
        return true;
    }

 private:
    std::vector<std::pair<u32, u32>> answers_;
    size_t at_ = 0;
};

struct Explored {
    u64 states = 0;
    u64 ends = 0;
    std::string fault;
};

/// Visits every state of the world. With `aborts`, any rank may abort the walk at any moment, once.
template <class World>
class Explorer {
 public:
    explicit Explorer(bool aborts) : aborts_(aborts) {}

    Explored explore(const World& start, size_t states_most) {
        number(start);
        for (u32 at = 0; at < worlds_.size(); ++at) {
            const World world = *worlds_[at];
            worlds_[at].reset();
            if (world.all_have_left()) {
                ends_.push_back(at);
                continue;
            }
            if (!visit(at, world)) return result_;
            if (worlds_.size() > states_most) {
                result_.fault = "too many states";
                return result_;
            }
        }
        result_.states = worlds_.size();
        result_.ends = ends_.size();
        if (result_.ends == 0) result_.fault = "no end";
        look_back();
        return result_;
    }

 private:
    bool visit(u32 at, const World& world) {
        std::vector<typename World::Event> events = world.events();
        if (aborts_ && !world.was_aborted()) {
            for (u32 rank = 0; rank < world.ranks(); ++rank)
                events.push_back({World::What::abort, rank});
        }
        for (const typename World::Event& event : events) {
            Script script;
            do {
                World next = world;
                next.happen(event, [&](u32 count) { return script.answer(count); });
                result_.fault = next.fault();
                if (!result_.fault.empty()) return false;
                before_[number(next)].push_back(at);
            } while (script.next());
        }
        return true;
    }

    u32 number(const World& world) {
        const auto [place, is_new] =
            numbers_.try_emplace(world.fingerprint(), static_cast<u32>(worlds_.size()));
        if (is_new) {
            worlds_.emplace_back(world);
            before_.emplace_back();
        }
        return place->second;
    }

    /// Finds the states from which the end can be reached.
    void look_back() {
        std::vector<bool> reached(worlds_.size(), false);
        std::vector<u32> open = ends_;
        u64 count = 0;
        while (!open.empty()) {
            const u32 at = open.back();
            open.pop_back();
            if (reached[at]) continue;
            reached[at] = true;
            ++count;
            open.insert(open.end(), before_[at].begin(), before_[at].end());
        }
        if (count != worlds_.size()) result_.fault = "a state without a way to the end";
    }

    bool aborts_;
    Explored result_;
    std::vector<std::optional<World>> worlds_;  // not yet visited
    std::vector<std::vector<u32>> before_;
    std::vector<u32> ends_;
    std::unordered_map<std::string, u32> numbers_;
};

template <class World>
Explored explore(const World& start, bool aborts, size_t states_most = 4'000'000) {
    const Explored found = Explorer<World>(aborts).explore(start, states_most);
    std::printf("[  STATES  ] %llu, of which %llu ends\n",
                static_cast<unsigned long long>(found.states),
                static_cast<unsigned long long>(found.ends));
    return found;
}

/// Runs random steps until all ranks have left; returns what went wrong, or nothing.
template <class World>
std::string run_schedule(World& world, u64 seed, bool aborts) {
    Random random(seed);
    const auto choose = [&](u32 count) { return static_cast<u32>(random.below(count)); };
    // The odds differ from schedule to schedule: slow messages, slow work, eager thieves.
    u64 weights[8] = {};
    for (u64& weight : weights)
        weight = 1 + random.below(8);
    for (u64 moment = 0; !world.all_have_left(); ++moment) {
        if (moment == 2'000'000) return "it does not end";
        if (aborts && !world.was_aborted() && random.one_in(200)) {
            world.happen({World::What::abort, choose(world.ranks())}, choose);
            continue;
        }
        const std::vector<typename World::Event> events = world.events();
        const typename World::Event& event = events[random.below(events.size())];
        if (random.below(8) >= weights[static_cast<size_t>(event.what)]) continue;
        world.happen(event, choose);
        const std::string fault = world.fault();
        if (!fault.empty()) return fault;
    }
    return {};
}

}  // namespace warren::walk

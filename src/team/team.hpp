// SPDX-License-Identifier: Apache-2.0
// How many lanes run an algorithm. A file-system operation is a template over a team, which is one
// CPU thread or one warp of a GPU, and depends on nothing else of where it runs.
//
// The rule that keeps one source right on both: every lane holds the same values. Memory that other
// teams may change is read through load() or once(), in which one lane reads and broadcasts, so
// that all lanes take the same branch. Memory is written inside once(), or by lanes that write
// different words. Every function with a team parameter is collective: all lanes call it, in
// converged code.
#pragma once

#include <type_traits>

#include "base/host_device.hpp"
#include "warren/types.hpp"

namespace warren {

/// One CPU thread: every collective is the identity.
struct ThreadTeam {
    static constexpr u32 width = 1;

    u32 worker = 0;  // number of the worker; spreads allocations and barrier counters

    WARREN_HD u32 lane() const { return 0; }
    WARREN_HD bool is_leader() const { return true; }
    WARREN_HD u32 ballot(bool vote) const { return vote ? 1u : 0u; }
    WARREN_HD void sync() const {}
    template <class T>
    WARREN_HD T broadcast(T value, u32 /*from*/) const {
        return value;
    }
};

/// Lets the leader run `action` and broadcasts its result to all lanes.
template <class Team, class Action>
WARREN_HD auto once(const Team& team, Action&& action) {
    using Answer = std::invoke_result_t<Action>;
    if constexpr (std::is_void_v<Answer>) {
        if (team.is_leader()) action();
        team.sync();
    } else {
        static_assert(std::is_trivially_copyable_v<Answer>);
        if constexpr (Team::width == 1) {
            return action();
        } else {
            Answer answer{};
            if (team.is_leader()) answer = action();
            return team.broadcast(answer, 0);
        }
    }
}

/// One lane reads a shared word, and all lanes get its value.
template <class Team, class T>
WARREN_HD T load(const Team& team, T& word) {
    return once(team, [&] { return device_atomic<T>(word).load(hd::memory_order_relaxed); });
}

/// A relaxed read of a shared word by the calling lane alone.
template <class T>
WARREN_HD T relaxed_load(const T& word) {
    return device_atomic<T>(const_cast<T&>(word)).load(hd::memory_order_relaxed);
}

/// A relaxed write of a shared word by the calling lane alone.
template <class T>
WARREN_HD void relaxed_store(T& word, std::type_identity_t<T> value) {
    device_atomic<T>(word).store(value, hd::memory_order_relaxed);
}

/// Adds to a shared word, relaxed, by the calling lane alone. Returns the word before.
template <class T>
WARREN_HD T relaxed_add(T& word, std::type_identity_t<T> by) {
    return device_atomic<T>(word).fetch_add(by, hd::memory_order_relaxed);
}

/// The sum of what the lanes below the calling one have, and of what all have.
template <class T>
struct LaneSums {
    T before{};
    T all{};
};
template <class Team, class T>
WARREN_HD LaneSums<T> sum_lanes(const Team& team, const T& mine) {
    LaneSums<T> sums;
    for (u32 lane = 0; lane < Team::width; ++lane) {
        const T its = team.broadcast(mine, lane);
        if (lane < team.lane()) sums.before += its;
        sums.all += its;
    }
    return sums;
}

}  // namespace warren

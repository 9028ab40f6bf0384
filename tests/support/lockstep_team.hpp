// SPDX-License-Identifier: Apache-2.0
// Emulates a warp on the host by W lanes with a barrier. It reveals what a team of one lane cannot:
// a value that only one of the lanes has.
//
// Invariant: all lanes make the same calls in the same order. A lane that makes a different call,
// or returns early, stops the program with a message: on a GPU it would hang or read garbage.
#pragma once

#include <array>
#include <concepts>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "base/check.hpp"
#include "tests/support/lanes.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

/// The state shared by the lanes of one team.
class LockstepGroup {
 public:
    static constexpr u64 bytes_max = 16 * kib;

    explicit LockstepGroup(u32 width);

    /// Runs `work(lane)` on all lanes, each of which makes its calls with its number.
    void run(const std::function<void(u32)>& work);

    u32 ballot(u32 lane, bool vote);
    void sync(u32 lane);
    /// Copies the value of lane `from` to all lanes.
    void broadcast(u32 lane, void* value, u64 size_bytes, u32 from);

 private:
    enum class Call : u8 { sync, ballot, broadcast, end };
    struct Note {
        Call call = Call::sync;
        bool vote = false;
        u32 from = 0;
        u64 size_bytes = 0;
    };
    struct alignas(64) Lane {
        u64 turn = 0;
        std::array<Note, 2> notes;
    };
    /// Waits for all lanes. Returns the turn (0 or 1) whose notes and bytes stay readable until the
    /// next call but one.
    u32 meet(u32 lane, const Note& note);
    [[noreturn]] void report(u32 turn) const;

    const u32 width_;
    std::vector<Lane> lanes_;
    // A lane writes turn t + 2 only after all lanes reached t + 1, that is, after all have read t.
    std::array<std::array<std::byte, bytes_max>, 2> bytes_;
    Lanes runner_;
};

/// One lane of a team of W.
template <u32 W = 4>
class LockstepTeam {
 public:
    static constexpr u32 width = W;

    LockstepTeam(LockstepGroup& group, u32 lane, u32 worker_)
        : worker(worker_), group_(&group), lane_(lane) {}

    u32 worker = 0;

    u32 lane() const { return lane_; }
    bool is_leader() const { return lane_ == 0; }
    u32 ballot(bool vote) const { return group_->ballot(lane_, vote); }
    void sync() const { group_->sync(lane_); }
    template <class T>
    T broadcast(T value, u32 from) const {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= LockstepGroup::bytes_max);
        group_->broadcast(lane_, &value, sizeof(T), from);
        return value;
    }

 private:
    LockstepGroup* group_;
    u32 lane_;
};

/// Whether two lanes returned the same value; true for types that cannot be compared.
template <class T>
bool is_same_answer(const T& left, const T& right) {
    if constexpr (std::equality_comparable<T>) {
        return left == right;
    } else if constexpr (std::has_unique_object_representations_v<T>) {
        return std::memcmp(&left, &right, sizeof(T)) == 0;
    } else {
        return true;
    }
}

template <class T>
bool is_same_answer(const Result<T>& left, const Result<T>& right) {
    return left.code() == right.code() && (!left || is_same_answer(*left, *right));
}

/// W lanes that wait for work, so that a test of many operations makes them only once.
template <u32 W = 4>
class Lockstep {
 public:
    explicit Lockstep(u32 worker = 0) : group_(W), worker_(worker) {}

    /// Runs `body(team)` on all lanes; returns the result of lane 0. All lanes must return the
    /// same.
    template <class Body>
    auto run(const Body& body) {
        using Answer = std::invoke_result_t<const Body&, const LockstepTeam<W>&>;
        if constexpr (std::is_void_v<Answer>) {
            group_.run([&](u32 lane) { body(LockstepTeam<W>(group_, lane, worker_)); });
        } else {
            std::array<Answer, W> answers{};
            group_.run(
                [&](u32 lane) { answers[lane] = body(LockstepTeam<W>(group_, lane, worker_)); });
            for (u32 lane = 1; lane < W; ++lane) {
                WARREN_CHECK(is_same_answer(answers[0], answers[lane]));
            }
            return answers[0];
        }
    }

 private:
    LockstepGroup group_;
    const u32 worker_;
};

/// Runs `body(team)` on W new lanes; returns the result of lane 0.
template <u32 W = 4, class Body>
auto run_lockstep(const Body& body) {
    Lockstep<W> lanes;
    return lanes.run(body);
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Chooses the side that answers a query: the CPU or a replica, whichever is predicted to finish
// first. The predictions are learnt from the times of the queries that ran.
//
// Invariant: no side is left out for ever. The slower side is tried when it would cost, as
// predicted, an eighth of the time that queries have spent on the other side since it last ran. So
// what has changed is noticed, and marked blocks are sent once enough queries would have been
// faster behind them. The share halves with each try after which the side is still the slower one.
// A replica whose memory was released counts as the slower side: queries of a kind must have spent
// eight times as long on the CPU since then as one of them takes that loads it.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <vector>

#include "fs/engine/replica/cost_model.hpp"
#include "warren/types.hpp"

namespace warren {

enum class Side : u8 { cpu, replica };

/// Each kind has rates of its own: what is read and brought back of a name differs.
enum class QueryKind : u8 {
    check,
    measure,
    find_some,
    find_all,
    make_table,
    look_up,
    remove,
    create_items,
    move_items,
    remove_items,
    rebuild
};
inline constexpr std::size_t query_kinds = 11;

struct Query {
    QueryKind kind;
    u64 items;             // names to visit, to look up, to change or to pack, about
    bool is_known = true;  // well enough to learn rates from the query
};

class SideChoice {
 public:
    struct Choice {
        Side side;
        u64 marked;   // blocks that the replica sends first
        bool is_try;  // the other side is predicted to be faster
    };

    /// `workers`: threads of a query on the CPU.
    explicit SideChoice(u32 workers);

    /// Calls `count_marked`, which counts the blocks that the replica would send first, only if the
    /// choice may depend on it. Its result is the same for all kinds of queries.
    Choice choose(const Query& query, const std::function<u64()>& count_marked,
                  bool is_released = false);
    /// Whether the replica is predicted to answer in less than `seconds`, with nothing to send
    /// first.
    bool is_faster_on_replica(const Query& query, double seconds) const;
    /// What queries have spent on the CPU before a release, and tries before it, do not count.
    void note_release();
    /// Takes the time that the query took on the chosen side.
    void learn(const Query& query, const Choice& choice, double seconds);
    /// Takes a measurement made before the first query, as a first guess for queries of all kinds.
    void start(Side side, u64 items, u64 marked, double seconds);

    /// What each term is predicted to take, in seconds.
    CostModel::Terms rates(QueryKind kind, Side side) const;
    /// By which factor predictions were off: the geometric mean; 1 before the second query.
    double mean_error() const;

 private:
    struct OneSide {
        CostModel model;
        bool has_run = false;
        double waited = 0;  // seconds that queries have spent on the other side since it last ran
        u32 tries = 0;      // since it was last the faster side
    };
    using Sides = std::array<OneSide, 2>;

    static CostModel::Terms amounts(u64 items, u64 marked);
    static bool is_due(const OneSide& side, double extra_seconds);

    mutable std::mutex mutex_;
    std::vector<Sides> kinds_;
    double error_sum_ = 0;  // of logarithms
    u64 error_count_ = 0;
};

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// How fast rates are learnt, how much slower a try may be, and the rates before the first
// measurement.
#include "fs/engine/replica/side_choice.hpp"

#include <algorithm>
#include <cmath>

namespace warren {
namespace {

constexpr double gain = 0.3;
// The largest factors by which one query counts as mispredicted, the first one of its kind apart.
constexpr double surprise_max = 4;
constexpr double first_surprise_max = 16;
constexpr double untried_share = 8;
constexpr u32 tries_max = 5;
constexpr double seconds_min = 1e-9;

// Only how the first measurement is divided among the terms comes from these.
constexpr double query_on_cpu = 10e-6;
constexpr double item_on_cpu = 40e-9;  // of one worker
constexpr CostModel::Terms on_replica = {50e-6, 0.2e-9, 100e-6, 60e-9};

std::size_t at(Side side) {
    return static_cast<std::size_t>(side);
}

Side other(Side side) {
    return side == Side::cpu ? Side::replica : Side::cpu;
}

}  // namespace

SideChoice::SideChoice(u32 workers) {
    // The CPU never sends anything, so its last two rates stay as they are.
    const CostModel cpu({query_on_cpu, item_on_cpu / std::max(workers, 1u), 1, 1});
    kinds_.assign(query_kinds, Sides{OneSide{cpu}, OneSide{CostModel(on_replica)}});
}

CostModel::Terms SideChoice::amounts(u64 items, u64 marked) {
    return {1, static_cast<double>(items), marked == 0 ? 0. : 1., static_cast<double>(marked)};
}

bool SideChoice::is_due(const OneSide& side, double extra_seconds) {
    return extra_seconds * untried_share * (1u << side.tries) <= side.waited;
}

SideChoice::Choice SideChoice::choose(const Query& query, const std::function<u64()>& count_marked,
                                      bool is_released) {
    const std::lock_guard lock(mutex_);
    Sides& sides = kinds_[static_cast<std::size_t>(query.kind)];
    // What the replica would save does not count before it was loaded.
    const double cpu =
        is_released ? 0 : sides[at(Side::cpu)].model.predict(amounts(query.items, 0));
    OneSide& replica = sides[at(Side::replica)];
    double beside = replica.model.predict(amounts(query.items, 0));
    u64 marked = 0;
    if (beside < cpu || is_due(replica, beside - cpu)) {
        marked = count_marked();
        beside = replica.model.predict(amounts(query.items, marked));
    }
    const Side faster = beside < cpu ? Side::replica : Side::cpu;
    OneSide& slower_side = sides[at(other(faster))];
    const bool is_try = is_due(slower_side, std::abs(beside - cpu));
    OneSide& chosen = is_try ? slower_side : sides[at(faster)];
    chosen.waited = 0;
    chosen.tries = is_try ? std::min(chosen.tries + 1, tries_max) : 0;
    return {is_try ? other(faster) : faster, marked, is_try};
}

bool SideChoice::is_faster_on_replica(const Query& query, double seconds) const {
    const std::lock_guard lock(mutex_);
    const Sides& sides = kinds_[static_cast<std::size_t>(query.kind)];
    return sides[at(Side::replica)].model.predict(amounts(query.items, 0)) < seconds;
}

void SideChoice::note_release() {
    const std::lock_guard lock(mutex_);
    for (Sides& sides : kinds_) {
        OneSide& replica = sides[at(Side::replica)];
        replica.waited = 0;
        replica.tries = 0;
    }
}

void SideChoice::learn(const Query& query, const Choice& choice, double seconds) {
    const std::lock_guard lock(mutex_);
    Sides& sides = kinds_[static_cast<std::size_t>(query.kind)];
    OneSide& ran = sides[at(choice.side)];
    const CostModel::Terms done =
        amounts(query.items, choice.side == Side::replica ? choice.marked : 0);
    const double predicted = ran.model.predict(done);
    seconds = std::max(seconds, seconds_min);
    sides[at(other(choice.side))].waited += seconds;
    if (!query.is_known) return;
    if (ran.has_run) {
        error_sum_ += std::abs(std::log(seconds / predicted));
        ++error_count_;
    }
    const double factor = ran.has_run ? surprise_max : first_surprise_max;
    const double believed = std::clamp(seconds, predicted / factor, predicted * factor);
    // Tries are few, so each counts fully.
    ran.model.learn(done, believed, ran.has_run && !choice.is_try ? gain : 1);
    ran.has_run = true;
}

void SideChoice::start(Side side, u64 items, u64 marked, double seconds) {
    const std::lock_guard lock(mutex_);
    for (Sides& sides : kinds_)
        sides[at(side)].model.learn(amounts(items, marked), std::max(seconds, seconds_min), 1);
}

CostModel::Terms SideChoice::rates(QueryKind kind, Side side) const {
    const std::lock_guard lock(mutex_);
    return kinds_[static_cast<std::size_t>(kind)][at(side)].model.rates();
}

double SideChoice::mean_error() const {
    const std::lock_guard lock(mutex_);
    return error_count_ == 0 ? 1 : std::exp(error_sum_ / static_cast<double>(error_count_));
}

}  // namespace warren

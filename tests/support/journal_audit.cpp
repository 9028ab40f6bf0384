// SPDX-License-Identifier: Apache-2.0
// Each thread records its running operations in memory of fixed size, so that the audit does not
// affect them.
#include "tests/support/journal_audit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/failing_allocations.hpp"

namespace warren {
namespace {

constexpr u32 blocks_max = 2 * core::journal_room_min;  // twice the most credits of an operation

/// An operation between begin() and end().
struct Applying {
    const void* operation = nullptr;
    core::Credits credits{};
    u32 count = 0;
    u64 blocks[blocks_max];
};

// Operations nest at most once.
thread_local Applying applying[4];

Applying* find(const void* operation) {
    for (Applying& one : applying)
        if (one.operation == operation) return &one;
    return nullptr;
}

}  // namespace

void CreditMargins::begin(const void* operation, const core::Credits& credits) {
    // One that ended without end_apply() may have had the same address.
    Applying* one = find(operation);
    if (one == nullptr) one = find(nullptr);
    ASSERT_NE(one, nullptr) << "too many operations apply at once in one thread";
    one->operation = operation;
    one->credits = credits;
    one->count = 0;
}

void CreditMargins::mark(const void* operation, u64 block) {
    Applying* const one = find(operation);
    if (one == nullptr || one->count == blocks_max) return;
    u64* const end = one->blocks + one->count;
    if (std::find(one->blocks, end, block) == end) one->blocks[one->count++] = block;
}

void CreditMargins::end(const void* operation) {
    Applying* const one = find(operation);
    if (one == nullptr) return;
    one->operation = nullptr;
    const Margin margin{one->credits.blocks, one->count};
    const UncountedAllocations uncounted;
    {
        const std::lock_guard lock(mutex_);
        const auto [at, is_new] = margins_.try_emplace(one->credits.name, margin);
        if (!is_new && margin.left() < at->second.left()) at->second = margin;
    }
    if (margin.left() >= 0) return;
    overrun(std::string(one->credits.name) + " is " + std::to_string(margin.credits) +
            " journal credits, and an operation marked " + std::to_string(margin.blocks) +
            " blocks dirty");
}

void CreditMargins::overrun(const std::string& message) {
    ADD_FAILURE() << message;
}

std::map<std::string, CreditMargins::Margin> CreditMargins::margins() const {
    const std::lock_guard lock(mutex_);
    return margins_;
}

void CreditMargins::print(std::ostream& out) const {
    const auto all = margins();
    std::vector<std::pair<std::string, Margin>> rows(all.begin(), all.end());
    std::ranges::stable_sort(rows, {}, [](const auto& row) { return row.second.left(); });
    out << "journal credits, tightest first: credits left, credits, blocks marked, name\n";
    for (const auto& [name, margin] : rows)
        out << "  " << margin.left() << ' ' << margin.credits << ' ' << margin.blocks << ' ' << name
            << '\n';
}

AuditInstead::AuditInstead(core::JournalAudit* audit)
    : before_(std::exchange(core::journal_audit, audit)) {}

AuditInstead::~AuditInstead() {
    core::journal_audit = before_;
}

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Compares the number of distinct blocks that each operation of the CPU engine marks dirty, whether
// or not they were dirty before, with its journal credits. An operation that exceeds its credits
// fails the test that ran it; the smallest margin of each named credit is recorded.
#pragma once

#include <map>
#include <mutex>
#include <ostream>
#include <string>

#include "fs/core/journal_credits.hpp"

namespace warren {

class CreditMargins : public core::JournalAudit {
 public:
    /// For one named credit, the operation that came closest to it.
    struct Margin {
        u64 credits = 0;
        u64 blocks = 0;
        i64 left() const { return static_cast<i64>(credits) - static_cast<i64>(blocks); }
    };

    void begin(const void* operation, const core::Credits& credits) override;
    void mark(const void* operation, u64 block) override;
    void end(const void* operation) override;

    std::map<std::string, Margin> margins() const;
    /// Prints one line for each named credit, smallest margin first.
    void print(std::ostream& out) const;

 protected:
    /// Called for an operation that has marked more blocks than its credits.
    virtual void overrun(const std::string& message);

 private:
    mutable std::mutex mutex_;
    std::map<std::string, Margin> margins_;
};

/// Audits the operations of the calling test, instead of the audit of the whole run.
class AuditInstead {
 public:
    explicit AuditInstead(core::JournalAudit* audit);
    ~AuditInstead();
    AuditInstead(const AuditInstead&) = delete;
    AuditInstead& operator=(const AuditInstead&) = delete;

 private:
    core::JournalAudit* const before_;
};

}  // namespace warren

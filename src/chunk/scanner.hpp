// SPDX-License-Identifier: Apache-2.0
// Finds candidates: the places whose window matches, whatever the sizes of chunks. A candidate
// depends on its window alone, so places are looked at in any order and by many at once; select.hpp
// chooses the cuts among them.
//
// Invariant: bit i of a result stands for the window that ends behind byte i of the scan.
#pragma once

#include "chunk/rabin.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk {

/// A rule with what its scan looks up.
class Scanner {
 public:
    Scanner() = default;
    explicit Scanner(const Rule& rule);

    /// Sets the bits of the windows that match, among those that end behind bytes[0] to
    /// bytes[count - 1], which are at `position` in the stream; for fastcdc also those in `early`
    /// that match early_mask. Requires: the history_bytes() before `bytes` are readable and hold
    /// what the stream held there; the bits are clear.
    void scan(const u8* bytes, u64 position, u64 count, u64* bits, u64* early) const;

    /// How many bytes before a scan its windows reach: a multiple of 64, 128 or more.
    u32 history_bytes() const { return history_bytes_; }
    const Rule& rule() const { return rule_; }
    /// Requires: the rule's method is rabin.
    const RabinTables& rabin() const { return rabin_; }

 private:
    Rule rule_;
    u32 history_bytes_ = 0;
    RabinTables rabin_{};
    std::array<u32, 256> buzhash_{};  // its table, the seed in it
};

/// The ways through Rabin's windows, for tests to hold against each other.
void scan_rabin_by_table(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                         u64* bits);
/// 64 streams at once by affine maps on bytes, for windows of up to 64 bytes. Requires:
/// can_scan_rabin_by_vector(), and 128 bytes of history.
void scan_rabin_by_vector(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                          u64* bits);
/// Whether this processor has what that needs: AVX-512 with VBMI, and GFNI.
bool can_scan_rabin_by_vector();

/// Buzhash, by its table.
void scan_buzhash(const Rule& rule, const u32* entries, const u8* bytes, u64 count, u64* bits);

}  // namespace warren::chunk

// SPDX-License-Identifier: Apache-2.0
// Finds candidates: the positions whose window matches, whatever the sizes of chunks. A candidate
// depends only on its window, so positions can be examined in any order and in parallel; select.hpp
// selects the cuts among them.
//
// Invariant: bit i of a result stands for the window that ends after byte i of the scan.
#pragma once

#include "chunk/rabin.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk {

/// A rule with the tables that its scan needs.
class Scanner {
 public:
    Scanner() = default;
    explicit Scanner(const Rule& rule);

    /// Sets the bits of the matching windows among those that end after bytes[0] to bytes[count -
    /// 1], which are at `position` of the stream; for fastcdc also the bits in `early` of those
    /// that match early_mask. Requires: the history_bytes() before `bytes` are readable and hold
    /// the preceding bytes of the stream, and the bits are clear.
    void scan(const u8* bytes, u64 position, u64 count, u64* bits, u64* early) const;

    /// How many bytes before a scan its windows reach: a multiple of 64, at least 128.
    u32 history_bytes() const { return history_bytes_; }
    const Rule& rule() const { return rule_; }
    /// Requires: the rule's method is rabin.
    const RabinTables& rabin() const { return rabin_; }

 private:
    Rule rule_;
    u32 history_bytes_ = 0;
    RabinTables rabin_{};
    std::array<u32, 256> buzhash_{};  // its table, XORed with the seed
};

/// The two implementations of Rabin, which tests compare.
void scan_rabin_by_table(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                         u64* bits);
/// Processes 64 streams in parallel by affine maps on bytes, for windows of up to 64 bytes.
/// Requires: can_scan_rabin_by_vector(), and 128 bytes of history.
void scan_rabin_by_vector(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                          u64* bits);
/// Whether this processor has AVX-512 with VBMI, and GFNI.
bool can_scan_rabin_by_vector();

/// Scans for matches of buzhash, given its table.
void scan_buzhash(const Rule& rule, const u32* entries, const u8* bytes, u64 count, u64* bits);

}  // namespace warren::chunk

// SPDX-License-Identifier: Apache-2.0
// The file of an index, version 1, as docs/CHUNKING.md describes it. Numbers are little-endian.
//
// Invariant: what is read is exactly what was written; each part has its checksum, and a file is
// replaced by renaming a complete one over it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "warren/dedup.hpp"

namespace warren::dedup {

/// Identifies the secret without revealing it; zeros without one.
using SecretMark = std::array<u8, 16>;

/// The contents of the file apart from the entries.
struct IndexHead {
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    SecretMark mark{};
    u64 next_place = 0;
    u64 entries = 0;
    std::vector<Source> sources;
};

/// Entries that pass at once; they have a checksum together.
inline constexpr u64 entries_in_group = 4096;

class IndexReader {
 public:
    IndexReader() = default;
    ~IndexReader();
    IndexReader(const IndexReader&) = delete;
    IndexReader& operator=(const IndexReader&) = delete;

    /// Reads all but the entries. This and read(): Errc::corrupt if the file is not one that an
    /// IndexWriter has finished.
    Errc open(const std::string& path);
    IndexHead& head() { return head_; }
    /// Reads the next entries, by rising key. Requires: so many as a group has, or all that are
    /// left of the last one.
    Errc read(std::span<Entry> group);

 private:
    int file_ = -1;
    IndexHead head_;
    u64 entries_at_ = 0;
    u64 done_ = 0;
    Key last_;
};

class IndexWriter {
 public:
    IndexWriter() = default;
    /// The old file stays, unless finish() has replaced it.
    ~IndexWriter();
    IndexWriter(const IndexWriter&) = delete;
    IndexWriter& operator=(const IndexWriter&) = delete;

    /// Begins a file beside `path`.
    Errc open(const std::string& path, const IndexHead& head);
    /// The next entry, by rising key. Requires: as many calls as the head has entries.
    Errc add(const Entry& entry);
    /// Replaces the file.
    Errc finish();

 private:
    Errc write_group();

    int file_ = -1;
    std::string path_;
    std::string name_;
    u64 entries_at_ = 0;    // where the next group goes
    u64 checksums_at_ = 0;  // and its checksum
    std::vector<Entry> group_;
};

}  // namespace warren::dedup

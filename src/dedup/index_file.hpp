// SPDX-License-Identifier: Apache-2.0
// The file of an index, version 1, as described in docs/CHUNKING.md. Numbers are little-endian.
//
// Invariant: only what was written is read back: each part has a checksum, and a file is replaced
// by renaming a complete one over it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "warren/dedup.hpp"

namespace warren::dedup {

/// Identifies the secret without revealing it; zeros if there is no secret.
using SecretMark = std::array<u8, 16>;

/// The contents of the file without the entries.
struct IndexHead {
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    SecretMark mark{};
    u64 next_place = 0;
    u64 entries = 0;
    std::vector<Source> sources;
};

/// How many entries are read or written at once. They share a checksum.
inline constexpr u64 entries_in_group = 4096;

class IndexReader {
 public:
    IndexReader() = default;
    ~IndexReader();
    IndexReader(const IndexReader&) = delete;
    IndexReader& operator=(const IndexReader&) = delete;

    /// Reads everything but the entries. open() and read() return Errc::corrupt if the file is not
    /// one that an IndexWriter has finished.
    Errc open(const std::string& path);
    IndexHead& head() { return head_; }
    /// Reads the next entries, in ascending order of keys. Requires: `group` has the size of a
    /// group, or that of the rest in the last one.
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
    /// Keeps the old file unless finish() has replaced it.
    ~IndexWriter();
    IndexWriter(const IndexWriter&) = delete;
    IndexWriter& operator=(const IndexWriter&) = delete;

    /// Begins a new file in the same folder as `path`.
    Errc open(const std::string& path, const IndexHead& head);
    /// Appends an entry, in ascending order of keys. Requires: add() is called head.entries times.
    Errc add(const Entry& entry);
    /// Syncs the new file and replaces the old one.
    Errc finish();

 private:
    Errc write_group();

    int file_ = -1;
    std::string path_;
    std::string name_;
    u64 entries_at_ = 0;    // where the next group is written
    u64 checksums_at_ = 0;  // where its checksum is written
    std::vector<Entry> group_;
};

}  // namespace warren::dedup

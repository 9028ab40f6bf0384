// SPDX-License-Identifier: Apache-2.0
// The file of an index, version 1, as docs/CHUNKING.md describes it. Numbers are little-endian.
//
// Invariant: what is read is exactly what was written; each part has its checksum, and a file is
// replaced by renaming a complete one over it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "warren/dedup.hpp"

namespace warren::dedup {

/// Tells one secret from another without telling the secret; zeros without one.
using SecretMark = std::array<u8, 16>;

struct IndexContents {
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    SecretMark mark{};
    u64 next_place = 0;
    std::vector<Source> sources;
    std::vector<Entry> entries;  // by key
};

/// Errc::corrupt if the file is not one that write_index_file() completed.
Errc read_index_file(const std::string& path, IndexContents& contents);

/// Replaces the file. What was there stays if anything fails.
Errc write_index_file(const std::string& path, const IndexContents& contents);

}  // namespace warren::dedup

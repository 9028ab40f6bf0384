// SPDX-License-Identifier: Apache-2.0
// Digests of many files on all cores. Small files are read whole and hashed side by side; a large
// one is read in parts, and BLAKE3 spreads it over the cores if there are few.
//
// Invariant: results come in the order of the files, one call at a time, whichever thread made
// them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/warren/hash_kept.hpp"
#include "apps/warren/location.hpp"
#include "warren/hash.hpp"

namespace warren::cli {

// What a GPU gets: a turn of its own is worth more than a turn of a core.
inline constexpr u64 small_bytes_for_gpu = 8 * mib;   // up to here a file is hashed beside others
inline constexpr u64 batch_bytes_for_gpu = 32 * mib;  // in one call
inline constexpr u64 least_tree_bytes = 64 * mib;     // of a BLAKE3 file that is held as a whole
inline constexpr u64 most_tree_bytes = 4 * gib;

class FailureList;

struct HashJob {
    Location location;  // its text is what is printed
    std::shared_ptr<Directory> start;
    hash::Algorithm algorithm;
    u64 bytes = 0;  // when it was listed
    std::shared_ptr<const KeptDigest> kept = nullptr;
};

struct HashResult {
    Errc code = Errc::ok;
    std::vector<u8> digest;
    bool has_changed = false;  // while it was read part by part: the digest is of no one state
};

struct HashOptions {
    u32 threads = 0;             // 0: as many as there are cores
    u64 direct_piece_bytes = 0;  // not 0: the direct hash instead of the standard one
    hash::Processor processor = hash::Processor::cpu;
    u64 operations_per_second = 0;  // opens, reads and stats together; 0: as many as there can be
    DigestKeeper* keeper = nullptr;
    FailureList* failures = nullptr;  // gets what could not be listed
};

/// What was done on a GPU.
struct GpuWork {
    u64 bytes = 0;
    hash::Stages stages;  // sums; its note is the last one
};

/// Sorts files as a tree with sorted names lists them: those of a directory before what has its
/// name and more.
void sort_by_path(std::vector<HashJob>& jobs);

/// Adds the file named by the operand, or all regular files below it in sorted order if it is a
/// directory. Symbolic links are followed only where they are the operand itself. False, with a
/// complaint, if something could not be listed. Of several ranks, with a directory of the host,
/// each adds what it has met, with its size, and only rank 0 can answer false.
bool add_hash_jobs(Session& session, const std::string& operand, const HashOptions& options,
                   hash::Algorithm algorithm, std::vector<HashJob>& jobs);

/// Hashes all files and hands on what became of each. With Processor::gpu files of up to 8 MiB are
/// gathered for the GPU, and larger ones for BLAKE3's tree; a stream of another algorithm has no
/// parallel parts. With a keeper that is cut not all files are handed on.
GpuWork hash_files(const std::vector<HashJob>& jobs, const HashOptions& options,
                   const std::function<void(const HashJob&, const HashResult&)>& done);

/// Reads the whole file, of any size.
Errc read_whole(const HashJob& job, std::vector<std::byte>& contents);

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// Digests of many files on all cores. Small files are read whole and hashed side by side; a large
// one is read in parts, and BLAKE3 spreads it over the cores if there are few.
//
// Invariant: results come in the order of the files, one call at a time, whichever thread made
// them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/warren/hash_jobs.hpp"

namespace warren::cli {

class FailureList;

struct HashOptions {
    u32 threads = 0;             // 0: as many as there are cores
    u64 direct_piece_bytes = 0;  // not 0: the direct hash instead of the standard one
    hash::Processor processor = hash::Processor::cpu;
    u64 operations_per_second = 0;  // opens, reads and stats together; 0: as many as there can be
    u64 list_bytes = walk::SpillSort::usual_memory_bytes;  // of memory, for each list
    DigestKeeper* keeper = nullptr;
    FailureList* failures = nullptr;  // gets what could not be listed
};

/// What was done on a GPU.
struct GpuWork {
    u64 bytes = 0;
    hash::Stages stages;  // sums; its note is the last one
};

/// Adds the file named by the operand, or all regular files below it if it is a directory, as a
/// group. Symbolic links are followed only where they are the operand itself. False, with a
/// complaint, if something could not be listed. Of several ranks, with a directory of the host,
/// each adds what it has met, with its size, and only rank 0 can answer false.
bool add_hash_jobs(Session& session, const std::string& operand, const HashOptions& options,
                   hash::Algorithm algorithm, HashJobs& jobs);

/// Hashes all files and hands on what became of each. With Processor::gpu files of up to 8 MiB are
/// gathered for the GPU, and larger ones for BLAKE3's tree; a stream of another algorithm has no
/// parallel parts. With a keeper that is cut not all files are handed on. An error if a list could
/// not be kept.
Errc hash_files(HashJobs& jobs, const HashOptions& options, const HashDone& done, GpuWork& work);

/// Opens the file; Errc::is_directory if it is none. `before`: what it is.
Errc open_job(const HashJob& job, std::unique_ptr<OpenFile>& file, Facts& before);

/// Reads the whole file, of any size. `changed`: whether it was written to meanwhile.
Errc read_whole(const HashJob& job, std::vector<std::byte>& contents, bool& changed);

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// Computes the digests of many files on all cores. Small files are read whole and hashed together
// in the lanes of a vector; a large file is read in parts, and BLAKE3 spreads it over several cores
// if there are few files.
//
// Invariant: results are delivered in the order of the files, one call at a time, whichever thread
// computed them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/warren/hash_jobs.hpp"

namespace warren::cli {

class FailureList;

struct HashOptions {
    u32 threads = 0;             // 0: one for each core
    u64 direct_piece_bytes = 0;  // not 0: compute direct hashes instead of standard digests
    hash::Processor processor = hash::Processor::cpu;
    u64 operations_per_second = 0;  // opens, reads and stats together; 0: unlimited
    u64 list_bytes = walk::SpillSort::usual_memory_bytes;  // of memory for each list
    DigestKeeper* keeper = nullptr;
    FailureList* failures = nullptr;  // receives the files that could not be listed
};

/// The work that was done on a GPU.
struct GpuWork {
    u64 bytes = 0;
    hash::Stages stages;  // sums; the note is the most recent one
};

/// Adds the file named by the operand, or all regular files below it if it is a directory, as a
/// group. A symbolic link is followed only if it is the operand itself. Returns false, after an
/// error message, if something could not be listed. With several ranks and a directory of the host,
/// each rank adds the files that it met, with their sizes, and only rank 0 can return false.
bool add_hash_jobs(Session& session, const std::string& operand, const HashOptions& options,
                   hash::Algorithm algorithm, HashJobs& jobs);

/// Hashes all files and delivers each result. With Processor::gpu, files of up to 8 MiB are batched
/// for the GPU, and larger ones use BLAKE3's tree there; other algorithms hash a long stream
/// sequentially, on the CPU. If the keeper is told to stop, not all files are delivered. Returns an
/// error if a list could not be kept.
Errc hash_files(HashJobs& jobs, const HashOptions& options, const HashDone& done, GpuWork& work);

/// Opens the file; Errc::is_directory for a directory. `before` is its state when it was opened.
Errc open_job(const HashJob& job, std::unique_ptr<OpenFile>& file, Facts& before);

/// Reads a whole file of any size. `changed` is set if it was written to in the meantime.
Errc read_whole(const HashJob& job, std::vector<std::byte>& contents, bool& changed);

}  // namespace warren::cli

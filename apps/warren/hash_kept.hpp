// SPDX-License-Identifier: Apache-2.0
// The checkpoint of `hash`: each digest is recorded in a folder as soon as it is computed, so that
// the same command can resume after it was stopped. A recorded digest is used if the file is
// unchanged.
//
// Invariant: a record is written after the whole file was read, and holds the result of a stat(2)
// from before the file was opened, so that any change since then is noticed. A truncated record is
// the last one of its list.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "apps/warren/directory.hpp"

namespace warren::cli {

/// What identifies the state of a file that was hashed.
struct FileStamp {
    u64 file_system = 0;
    u64 inode = 0;  // 0: the state is unknown
    u64 size_bytes = 0;
    i64 modified = 0;  // nanoseconds since 1970
    i64 changed = 0;
    bool operator==(const FileStamp&) const = default;
};

/// Nanoseconds since 1970.
i64 time_now();

/// The stamp for the result of a stat(2) that was made at time_now() `asked` or later. The stamp is
/// "unknown" for anything but a regular file, and for a file changed so recently that another
/// change might leave the same time.
FileStamp stamp_of(const Facts& facts, i64 asked);

/// The digest that an earlier run recorded.
struct KeptDigest {
    FileStamp stamp;
    std::vector<u8> digest;
};

class HashJobs;

class DigestKeeper {
 public:
    /// Records are written to disk every `milliseconds`.
    DigestKeeper(std::string folder, u32 milliseconds)
        : folder_(std::move(folder)), interval_(milliseconds) {}
    ~DigestKeeper();
    DigestKeeper(const DigestKeeper&) = delete;
    DigestKeeper& operator=(const DigestKeeper&) = delete;

    /// Begins the list of this rank; `goes_on`: after those of earlier runs. All ranks call it.
    /// Returns false, after an error message, if the folder cannot be used.
    bool begin(bool goes_on);
    /// Gives each job the digest that earlier runs recorded for its file, using at most so much
    /// memory for lists; returns the number of jobs that got one. jobs.error() reports failures.
    u64 recall(HashJobs& jobs, u64 memory_bytes) const;
    /// Records the digest of a file; from any thread.
    void keep(std::string_view path, const FileStamp& stamp, std::span<const u8> digest);
    /// Whether this or another rank was told to stop; to be called often, from any thread.
    bool is_cut();
    /// Writes what is left; false, after an error message, if anything could not be written.
    bool finish();
    /// Removes all lists. Called by rank 0 when the digests have been printed.
    void remove() const;

 private:
    std::string list_name(u64 run) const;
    void write_out();

    std::string folder_;
    std::chrono::milliseconds interval_;
    std::atomic<bool> is_cut_{false};
    std::mutex mutex_;  // guards the members below
    int file_ = -1;
    std::string records_;  // not written yet
    std::chrono::steady_clock::time_point written_at_;
    std::chrono::steady_clock::time_point synced_at_;
    i32 error_ = 0;  // of the first write that failed
};

}  // namespace warren::cli

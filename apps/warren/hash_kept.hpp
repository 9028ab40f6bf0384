// SPDX-License-Identifier: Apache-2.0
// The checkpoint of `hash`: digests are kept in a folder, file by file as they are made, so that
// the same command goes on after it was cut. What was kept holds for a file that is still the same.
//
// Invariant: a record is written when its file was read whole, and names what stat(2) told of it
// before it was opened, so that any change since then is seen. A record that is cut short is the
// last of its list.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "apps/warren/directory.hpp"

namespace warren::cli {

/// What tells whether a file is the one that was hashed.
struct FileStamp {
    u64 file_system = 0;
    u64 inode = 0;  // 0: nothing is known
    u64 size_bytes = 0;
    i64 modified = 0;  // nanoseconds since 1970
    i64 changed = 0;
    bool operator==(const FileStamp&) const = default;
};

/// Nanoseconds since 1970.
i64 time_now();

/// What stat(2) told when it was asked at time_now() `asked` or later. Of anything but a regular
/// file, and of one that was changed so shortly before that it may change again without a trace:
/// that nothing is known.
FileStamp stamp_of(const Facts& facts, i64 asked);

/// A digest of an earlier run.
struct KeptDigest {
    FileStamp stamp;
    std::vector<u8> digest;
};

class HashJobs;

class DigestKeeper {
 public:
    /// Every `milliseconds` what was kept goes to the disk.
    DigestKeeper(std::string folder, u32 milliseconds)
        : folder_(std::move(folder)), interval_(milliseconds) {}
    ~DigestKeeper();
    DigestKeeper(const DigestKeeper&) = delete;
    DigestKeeper& operator=(const DigestKeeper&) = delete;

    /// Begins this rank's list; `goes_on`: behind those of earlier runs. All ranks call it; false,
    /// with a complaint, if the folder does not allow it.
    bool begin(bool goes_on);
    /// Gives each job what earlier runs have kept of its file, with lists of so much memory; how
    /// many have got something. What goes wrong is told by jobs.error().
    u64 recall(HashJobs& jobs, u64 memory_bytes) const;
    /// Keeps the digest of a file; from any thread.
    void keep(std::string_view path, const FileStamp& stamp, std::span<const u8> digest);
    /// Whether the run is to end, as this or another rank was told; from any thread, often.
    bool is_cut();
    /// Writes what is left; false, with a complaint, if something could not be written.
    bool finish();
    /// Removes all lists. Rank 0, when the digests are printed.
    void remove() const;

 private:
    std::string list_name(u64 run) const;
    void write_out();

    std::string folder_;
    std::chrono::milliseconds interval_;
    std::atomic<bool> is_cut_{false};
    std::mutex mutex_;  // what follows
    int file_ = -1;
    std::string records_;  // not written yet
    std::chrono::steady_clock::time_point written_at_;
    std::chrono::steady_clock::time_point synced_at_;
    i32 error_ = 0;  // of the first write that failed
};

}  // namespace warren::cli

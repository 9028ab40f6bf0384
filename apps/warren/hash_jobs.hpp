// SPDX-License-Identifier: Apache-2.0
// The list of files that `hash` reads, in output order, and the list of results. Both grow with the
// size of a tree, so beyond a limit they spill to temporary files.
//
// Invariant: after an error nothing more is returned, and error() reports it: a list is never
// silently incomplete.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/warren/hash_kept.hpp"
#include "apps/warren/location.hpp"
#include "walk/bytes.hpp"
#include "walk/spill_sort.hpp"
#include "warren/hash.hpp"

namespace warren::cli {

// Batches for a GPU: a call to a GPU costs more than one to a core, so it gets more at a time.
inline constexpr u64 small_bytes_for_gpu = 8 * mib;   // up to here a file is hashed in a batch
inline constexpr u64 batch_bytes_for_gpu = 32 * mib;  // in one call
inline constexpr u64 least_tree_bytes = 64 * mib;     // of a BLAKE3 file in memory as a whole
inline constexpr u64 most_tree_bytes = 4 * gib;

struct HashJob {
    Location location;  // its text is what is printed
    std::shared_ptr<Directory> start;
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    u64 bytes = 0;  // as of the listing
    std::shared_ptr<const KeptDigest> kept = nullptr;
    std::vector<u8> expected = {};  // the digest in the list of --check
    u64 group = 0;                  // see HashJobs
};

struct HashResult {
    Errc code = Errc::ok;
    std::vector<u8> digest;
    bool has_changed = false;  // while it was read: the digest may mix several states
};

using HashDone = std::function<void(const HashJob&, const HashResult&)>;

/// A key by which paths sort in the order in which a walk with sorted names visits them: the
/// contents of a directory before any name of which the directory's name is a prefix.
std::string path_key(std::string_view path);

/// A number as bytes that sort in numeric order.
std::string number_key(u64 number);
u64 number_of_key(std::string_view key);

/// A job, or a job with its result, serialised. A job that is read back has no start directory.
std::string written_job(const HashJob& job);
HashJob read_job(walk::ByteReader& reader);
std::string written_result(const HashJob& job, const HashResult& result);
void read_result(std::string_view bytes, HashJob& job, HashResult& result);

/// Totals for the files of one algorithm.
struct HashShare {
    u64 files = 0;
    u64 bytes = 0;
    u64 small_bytes = 0;  // of files that a GPU gets in batches
    u64 tree_bytes = 0;   // of files that it can hash as a BLAKE3 tree
    u64 tree_files = 0;
};

class HashJobs {
 public:
    explicit HashJobs(u64 memory_bytes);

    /// Files that are added from here on come after all earlier ones.
    void begin_group() { ++group_; }
    /// Adds a file, sorted by path within its group; from any thread.
    Errc add(const HashJob& job) { return add_to_group(job, group_); }
    Errc add_to_group(const HashJob& job, u64 group);
    /// The next file in order; false after the last one or an error. Requires: all files were
    /// added.
    bool next(HashJob& job);
    /// Records an error; error() then returns it, or an earlier one.
    void fail(Errc code);
    Errc error() const;

    u64 size() const { return sort_->count(); }
    const HashShare& share(hash::Algorithm algorithm) const {
        return shares_[static_cast<u32>(algorithm)];
    }

 private:
    std::shared_ptr<Directory> host_;
    std::unique_ptr<walk::SpillSort> sort_;
    u64 group_ = 0;
    Errc error_ = Errc::ok;
    std::unique_ptr<std::mutex> mutex_;  // guards the members below while files are added
    std::map<std::string, std::shared_ptr<Directory>> images_;
    std::vector<HashShare> shares_;
};

/// Delivers results in the order of their numbers, whatever the order in which they arrive. Results
/// that wait for an earlier one beyond the memory limit are delivered at the end, with all later
/// ones.
class ResultOrder {
 public:
    ResultOrder(u64 memory_bytes, const HashDone& done)
        : memory_bytes_(memory_bytes), done_(done) {}

    /// Requires: each number is put once, counting from 0; one thread at a time.
    void put(u64 number, HashJob&& job, HashResult&& result);
    /// Delivers the remaining results.
    Errc finish();

 private:
    void wait(u64 number, HashJob&& job, HashResult&& result);

    const u64 memory_bytes_;
    const HashDone& done_;
    u64 next_ = 0;
    u64 waiting_bytes_ = 0;
    std::map<u64, std::pair<HashJob, HashResult>> waiting_;
    std::optional<walk::SpillSort> late_;
};

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// The files that `hash` reads, in the order in which they are told, and what became of them. Both
// grow with a tree, so beyond a limit they lie in temporary files.
//
// Invariant: after an error no more is given, and error() tells it: a list is never shorter in
// silence.
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

// What a GPU gets: a turn of its own is worth more than a turn of a core.
inline constexpr u64 small_bytes_for_gpu = 8 * mib;   // up to here a file is hashed beside others
inline constexpr u64 batch_bytes_for_gpu = 32 * mib;  // in one call
inline constexpr u64 least_tree_bytes = 64 * mib;     // of a BLAKE3 file that is held as a whole
inline constexpr u64 most_tree_bytes = 4 * gib;

struct HashJob {
    Location location;  // its text is what is printed
    std::shared_ptr<Directory> start;
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    u64 bytes = 0;  // when it was listed
    std::shared_ptr<const KeptDigest> kept = nullptr;
    std::vector<u8> expected = {};  // of --check
    u64 group = 0;                  // see HashJobs
};

struct HashResult {
    Errc code = Errc::ok;
    std::vector<u8> digest;
    bool has_changed = false;  // while it was read: the digest may be of no one state
};

using HashDone = std::function<void(const HashJob&, const HashResult&)>;

/// Paths by the bytes of their keys come in the order in which a tree with sorted names is read:
/// what is in a directory before what has its name and more.
std::string path_key(std::string_view path);

/// A number whose bytes are in its order.
std::string number_key(u64 number);
u64 number_of_key(std::string_view key);

/// A job, or a job and its result, as bytes; what is read again has no start.
std::string written_job(const HashJob& job);
HashJob read_job(walk::ByteReader& reader);
std::string written_result(const HashJob& job, const HashResult& result);
void read_result(std::string_view bytes, HashJob& job, HashResult& result);

/// Of the files of one algorithm.
struct HashShare {
    u64 files = 0;
    u64 bytes = 0;
    u64 small_bytes = 0;  // of those that a GPU gets many at a time
    u64 tree_bytes = 0;   // of those that it can hash by BLAKE3's tree
    u64 tree_files = 0;
};

class HashJobs {
 public:
    explicit HashJobs(u64 memory_bytes);

    /// What is added from now on comes behind what there is.
    void begin_group() { ++group_; }
    /// Adds a file, in its place by path among those of its group; from any thread.
    Errc add(const HashJob& job) { return add_to_group(job, group_); }
    Errc add_to_group(const HashJob& job, u64 group);
    /// The next in order; false behind the last and after an error. Requires: all was added.
    bool next(HashJob& job);
    /// From here on error() is at least that.
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
    std::unique_ptr<std::mutex> mutex_;  // what follows, while it is added to
    std::map<std::string, std::shared_ptr<Directory>> images_;
    std::vector<HashShare> shares_;
};

/// Hands on results in the order of their numbers, whichever order they come in. What waits for an
/// earlier one beyond the limit is handed on at the end, with all that comes after.
class ResultOrder {
 public:
    ResultOrder(u64 memory_bytes, const HashDone& done)
        : memory_bytes_(memory_bytes), done_(done) {}

    /// Requires: each number once, from 0 on; one thread at a time.
    void put(u64 number, HashJob&& job, HashResult&& result);
    /// Hands on the rest.
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

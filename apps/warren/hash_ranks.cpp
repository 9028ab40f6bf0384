// SPDX-License-Identifier: Apache-2.0
// The largest files are given out first, each to the rank that has least to do by then. What can
// only be read where the command was started (standard input, volumes) stays with rank 0.
#include "apps/warren/hash_ranks.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

#include "apps/warren/directory.hpp"
#include "apps/warren/ranks.hpp"
#include "base/processors.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr u64 file_bytes = 64 * kib;  // what opening a file costs beside reading it

bool is_for_rank_0(const HashJob& job) {
    return job.location.in_image() || job.location.text == "-" ||
           job.location.path.starts_with("/dev/") || job.location.path.starts_with("/proc/self/");
}

/// Which rank hashes which job.
std::vector<u32> give_out(const std::vector<HashJob>& jobs) {
    std::vector<size_t> order(jobs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t one, size_t two) { return jobs[one].bytes > jobs[two].bytes; });
    using Load = std::pair<u64, u32>;
    std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
    for (u32 rank = 0; rank < rank_count(); ++rank)
        loads.emplace(0, rank);
    std::vector<u32> ranks(jobs.size(), 0);
    for (const size_t at : order) {
        if (is_for_rank_0(jobs[at])) continue;
        const auto [load, rank] = loads.top();
        loads.pop();
        ranks[at] = rank;
        const u64 bytes = jobs[at].kept == nullptr ? jobs[at].bytes : 0;
        loads.emplace(load + bytes + file_bytes, rank);
    }
    return ranks;
}

void put_digest(walk::ByteWriter& writer, const std::vector<u8>& digest) {
    writer.put_bytes({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::vector<u8> get_digest(walk::ByteReader& reader) {
    const std::string_view digest = reader.get_bytes();
    return {digest.begin(), digest.end()};
}

/// Jobs of the other ranks as bytes.
std::string written(const std::vector<HashJob>& jobs, const std::vector<u32>& ranks) {
    walk::ByteWriter writer;
    for (size_t at = 0; at < jobs.size(); ++at) {
        if (ranks[at] == 0) continue;
        writer.put(ranks[at]);
        writer.put(jobs[at].algorithm);
        writer.put(jobs[at].bytes);
        writer.put_bytes(jobs[at].location.path);
        const std::shared_ptr<const KeptDigest>& kept = jobs[at].kept;
        writer.put(kept != nullptr);
        if (kept == nullptr) continue;
        writer.put(kept->stamp);
        put_digest(writer, kept->digest);
    }
    return writer.take();
}

std::vector<HashJob> own_jobs(std::string_view bytes) {
    std::vector<HashJob> own;
    const std::shared_ptr<Directory> start = host_directory();
    for (walk::ByteReader reader(bytes); !reader.at_end();) {
        const u32 rank = reader.get<u32>();
        HashJob job;
        job.algorithm = reader.get<hash::Algorithm>();
        job.bytes = reader.get<u64>();
        job.start = start;
        job.location.path = reader.get_bytes();
        if (reader.get<bool>()) {
            const FileStamp stamp = reader.get<FileStamp>();
            job.kept = std::make_shared<KeptDigest>(KeptDigest{stamp, get_digest(reader)});
        }
        if (rank == rank_number()) own.push_back(std::move(job));
    }
    return own;
}

bool is_cut(const HashOptions& options) {
    return options.keeper != nullptr && options.keeper->is_cut();
}

/// Whether the run was cut, and the results if it was not.
std::string write_results(const std::vector<HashJob>& jobs, const HashOptions& options,
                          bool is_verbose) {
    walk::ByteWriter writer;
    hash_by_choice(jobs, options, is_verbose, [&](const HashJob&, const HashResult& result) {
        writer.put(result.code);
        writer.put(result.has_changed);
        put_digest(writer, result.digest);
    });
    walk::ByteWriter whole;
    whole.put(is_cut(options));
    return whole.take() + writer.take();
}

/// Ranks on one node share its processors.
u32 own_threads() {
    const std::vector<u32>& nodes = rank_group()->nodes();
    const auto sharing = std::count(nodes.begin(), nodes.end(), nodes[rank_number()]);
    return std::max(1u, usable_processors() / static_cast<u32>(sharing));
}

}  // namespace

bool add_hash_jobs_over_ranks(Session& session, const std::string& operand,
                              const HashOptions& options, hash::Algorithm algorithm,
                              std::vector<HashJob>& jobs) {
    if (rank_count() == 1) return add_hash_jobs(session, operand, options, algorithm, jobs);
    bool is_tree = false;
    if (rank_number() == 0) {
        const Location location = parse_location(operand);
        const Result<Facts> facts = host_directory()->stat(location.path, Follow::yes);
        is_tree = !location.in_image() && facts && facts->is_directory();
    }
    if (share_over_ranks(is_tree ? "tree" : "other") != "tree") {
        return rank_number() != 0 || add_hash_jobs(session, operand, options, algorithm, jobs);
    }
    std::vector<HashJob> own;
    const bool is_good = add_hash_jobs(session, operand, options, algorithm, own);
    walk::ByteWriter writer;
    for (const HashJob& job : own) {
        writer.put(job.bytes);
        writer.put_bytes(job.location.path);
    }
    const std::vector<std::string> of_all = gather_over_ranks(writer.bytes());
    if (rank_number() != 0) return true;
    const std::shared_ptr<Directory> start = host_directory();
    std::vector<HashJob> all;
    for (const std::string& of_rank : of_all) {
        for (walk::ByteReader reader(of_rank); !reader.at_end();) {
            HashJob job;
            job.bytes = reader.get<u64>();
            job.location.path = job.location.text = reader.get_bytes();
            job.algorithm = algorithm;
            job.start = start;
            all.push_back(std::move(job));
        }
    }
    sort_by_path(all);
    std::move(all.begin(), all.end(), std::back_inserter(jobs));
    return is_good;
}

bool hash_over_ranks(const std::vector<HashJob>& jobs, HashOptions options, bool is_verbose,
                     const std::function<void(const HashJob&, const HashResult&)>& done) {
    // With a keeper results are handed on when there are all.
    if (rank_count() == 1 && options.keeper == nullptr) {
        hash_by_choice(jobs, options, is_verbose, done);
        return true;
    }
    if (options.threads == 0 && rank_count() > 1) options.threads = own_threads();
    if (options.operations_per_second != 0) {
        options.operations_per_second =
            std::max<u64>(1, options.operations_per_second / rank_count());
    }
    const std::vector<u32> ranks = give_out(jobs);
    const std::string of_others = share_over_ranks(written(jobs, ranks));
    std::vector<HashJob> own;
    if (rank_number() != 0) {
        own = own_jobs(of_others);
    } else {
        for (size_t at = 0; at < jobs.size(); ++at) {
            if (ranks[at] == 0) own.push_back(jobs[at]);
        }
    }
    const std::vector<std::string> of_all =
        gather_over_ranks(write_results(own, options, is_verbose));
    std::vector<walk::ByteReader> readers(of_all.begin(), of_all.end());
    bool is_whole = true;
    for (walk::ByteReader& reader : readers)
        is_whole = !reader.get<bool>() && is_whole;
    if (rank_number() != 0 || !is_whole) return is_whole;
    for (size_t at = 0; at < jobs.size(); ++at) {
        HashResult result;
        walk::ByteReader& reader = readers[ranks[at]];
        result.code = reader.get<Errc>();
        result.has_changed = reader.get<bool>();
        result.digest = get_digest(reader);
        done(jobs[at], result);
    }
    return true;
}

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// The largest files are assigned first, each to the rank with the least work so far. Input that
// only the starting process can read (standard input, volumes) stays with rank 0. Lists are
// exchanged in rounds: each rank contributes a part, until none has anything left.
#include "apps/warren/hash_ranks.hpp"

#include <algorithm>
#include <queue>

#include "apps/warren/directory.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "base/processors.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr u64 file_bytes = 64 * kib;       // cost of opening a file, in bytes read
constexpr u64 round_bytes = 64 * mib;      // of all ranks together
constexpr u64 round_bytes_most = 1 * mib;  // of one rank

bool is_for_rank_0(const HashJob& job) {
    return job.location.in_image() || job.location.text == "-" ||
           job.location.path.starts_with("/dev/") || job.location.path.starts_with("/proc/self/");
}

u64 bytes_of_part() {
    return std::min(round_bytes_most, round_bytes / rank_count());
}

/// The part that this rank contributes to a round; empty when it has no more.
template <class Next>
std::string part_of(Next&& next) {
    walk::ByteWriter writer;
    while (writer.bytes().size() < bytes_of_part()) {
        const std::string record = next();
        if (record.empty()) break;
        writer.put_bytes(record);
    }
    return writer.take();
}

/// Sends the records of all ranks to rank 0, which passes them to `take`. An empty record from
/// `next` ends a rank's list. Called by all ranks.
template <class Next, class Take>
void bring_to_rank_0(Next&& next, Take&& take) {
    while (true) {
        const std::vector<std::string> parts = gather_over_ranks(part_of(next));
        if (std::all_of(parts.begin(), parts.end(),
                        [](const std::string& part) { return part.empty(); })) {
            return;
        }
        if (rank_number() != 0) continue;
        for (const std::string& part : parts) {
            for (walk::ByteReader reader(part); !reader.at_end();)
                take(reader.get_bytes());
        }
    }
}

/// The first error, or Errc::ok.
Errc first_of(std::initializer_list<Errc> codes) {
    for (const Errc code : codes)
        if (code != Errc::ok) return code;
    return Errc::ok;
}

/// The outcome that all ranks agree on. Each rank reports its own list errors.
HashEnd agree(Errc code, bool is_cut) {
    if (code != Errc::ok) complain_of_list(code);
    const char own = code != Errc::ok ? 'f' : is_cut ? 'c' : 'w';
    bool has_failed = false;
    bool was_cut = false;
    for (const std::string& of_rank : gather_over_ranks({&own, 1})) {
        has_failed = has_failed || of_rank == "f";
        was_cut = was_cut || of_rank == "c";
    }
    return has_failed ? HashEnd::failed : was_cut ? HashEnd::cut : HashEnd::whole;
}

/// Chooses the rank for the next file; files come in order of decreasing size.
class Dealer {
 public:
    Dealer() {
        for (u32 rank = 0; rank < rank_count(); ++rank)
            loads_.emplace(0, rank);
    }
    u32 deal(const HashJob& job) {
        if (is_for_rank_0(job)) return 0;
        const auto [load, rank] = loads_.top();
        loads_.pop();
        loads_.emplace(load + (job.kept == nullptr ? job.bytes : 0) + file_bytes, rank);
        return rank;
    }

 private:
    using Load = std::pair<u64, u32>;
    std::priority_queue<Load, std::vector<Load>, std::greater<>> loads_;
};

/// At rank 0: numbers the jobs in output order (as their groups), assigns them to ranks, and adds
/// them in that order, with their ranks, to `dealt`.
Errc deal(HashJobs& jobs, u64 memory_bytes, walk::SpillSort& dealt) {
    walk::SpillSort by_size(memory_bytes);
    u64 place = 0;
    for (HashJob job; jobs.next(job);) {
        job.group = place++;
        const std::string key = number_key(~job.bytes) + number_key(job.group);
        WARREN_TRY(by_size.add(key, written_job(job)));
    }
    Dealer dealer;
    for (std::string_view key, bytes; by_size.next(key, bytes);) {
        walk::ByteReader reader(bytes);
        const HashJob job = read_job(reader);
        walk::ByteWriter record;
        record.put(dealer.deal(job));
        WARREN_TRY(dealt.add(number_key(job.group), record.take().append(bytes)));
    }
    return first_of({jobs.error(), by_size.error()});
}

/// Distributes the jobs of rank 0: those assigned to this rank are added to `own`. Called by all
/// ranks.
Errc share_jobs(HashJobs& jobs, Session& session, u64 memory_bytes, HashJobs& own) {
    walk::SpillSort dealt(memory_bytes);
    Errc code = rank_number() == 0 ? deal(jobs, memory_bytes, dealt) : Errc::ok;
    while (true) {
        const std::string part = share_over_ranks(part_of([&] {
            std::string_view key;
            std::string_view record;
            const bool is_there = code == Errc::ok && dealt.next(key, record);
            return std::string(is_there ? record : std::string_view());
        }));
        if (part.empty()) return first_of({code, dealt.error(), jobs.error()});
        for (walk::ByteReader parts(part); !parts.at_end();) {
            walk::ByteReader reader(parts.get_bytes());
            if (reader.get<u32>() != rank_number()) continue;
            HashJob job = read_job(reader);
            job.start = session.directory(job.location, Access::read);
            if (code == Errc::ok) code = own.add_to_group(job, job.group);
        }
    }
}

/// Ranks on the same node share its processors.
u32 own_threads() {
    const std::vector<u32>& nodes = rank_group()->nodes();
    const auto sharing = std::count(nodes.begin(), nodes.end(), nodes[rank_number()]);
    return std::max(1u, usable_processors() / static_cast<u32>(sharing));
}

/// Hashes the jobs and stores each result under its group or, with `in_order`, under a counter.
Errc hash_into(walk::SpillSort& results, HashJobs& jobs, const HashOptions& options,
               bool is_verbose, bool in_order) {
    u64 number = 0;
    const Errc code = hash_by_choice(
        jobs, options, is_verbose, [&](const HashJob& job, const HashResult& result) {
            const u64 place = in_order ? number++ : job.group;
            // results.error() reports errors.
            static_cast<void>(results.add(number_key(place), written_result(job, result)));
        });
    return first_of({code, results.error()});
}

/// Collects the results of all ranks at rank 0. Called by all ranks.
Errc collect(walk::SpillSort& own, walk::SpillSort& all) {
    std::string_view key;
    std::string_view result;
    bring_to_rank_0(
        [&] {
            if (!own.next(key, result)) return std::string();
            return std::string(key).append(result);
        },
        [&](std::string_view record) {
            const size_t key_bytes = number_key(0).size();
            static_cast<void>(all.add(record.substr(0, key_bytes), record.substr(key_bytes)));
        });
    return first_of({own.error(), all.error()});
}

/// Delivers the results of all files.
Errc hand_on(walk::SpillSort& results, const HashDone& done) {
    HashJob job;
    HashResult result;
    for (std::string_view key, bytes; results.next(key, bytes);) {
        read_result(bytes, job, result);
        done(job, result);
    }
    return results.error();
}

HashEnd end_alone(Errc code) {
    if (code != Errc::ok) complain_of_list(code);
    return code == Errc::ok ? HashEnd::whole : HashEnd::failed;
}

HashEnd hash_with_others(HashJobs& jobs, Session& session, const HashOptions& options,
                         bool is_verbose, const HashDone& done) {
    HashJobs own(options.list_bytes);
    const Errc shared = share_jobs(jobs, session, options.list_bytes, own);
    if (agree(shared, false) != HashEnd::whole) return HashEnd::failed;
    walk::SpillSort results(options.list_bytes);
    Errc code = hash_into(results, own, options, is_verbose, false);
    const bool is_cut = options.keeper != nullptr && options.keeper->is_cut();
    if (const HashEnd end = agree(code, is_cut); end != HashEnd::whole) return end;
    walk::SpillSort all(options.list_bytes);
    code = collect(results, all);
    if (agree(code, false) != HashEnd::whole) return HashEnd::failed;
    return rank_number() == 0 ? end_alone(hand_on(all, done)) : HashEnd::whole;
}

}  // namespace

bool add_hash_jobs_over_ranks(Session& session, const std::string& operand,
                              const HashOptions& options, hash::Algorithm algorithm,
                              HashJobs& jobs) {
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
    HashJobs own(options.list_bytes);
    const bool is_good = add_hash_jobs(session, operand, options, algorithm, own);
    jobs.begin_group();
    HashJob job;
    bring_to_rank_0([&] { return own.next(job) ? written_job(job) : std::string(); },
                    [&](std::string_view record) {
                        walk::ByteReader reader(record);
                        static_cast<void>(jobs.add(read_job(reader)));
                    });
    jobs.fail(own.error());
    return rank_number() != 0 || is_good;
}

HashEnd hash_over_ranks(HashJobs& jobs, Session& session, HashOptions options, bool is_verbose,
                        const HashDone& done) {
    if (rank_count() > 1) {
        if (options.threads == 0) options.threads = own_threads();
        if (options.operations_per_second != 0) {
            options.operations_per_second =
                std::max<u64>(1, options.operations_per_second / rank_count());
        }
        return hash_with_others(jobs, session, options, is_verbose, done);
    }
    if (options.keeper == nullptr)
        return end_alone(hash_by_choice(jobs, options, is_verbose, done));
    // With a keeper, results are delivered only when all of them are there.
    walk::SpillSort results(options.list_bytes);
    const Errc code = hash_into(results, jobs, options, is_verbose, true);
    if (code == Errc::ok && options.keeper->is_cut()) return HashEnd::cut;
    return end_alone(code != Errc::ok ? code : hand_on(results, done));
}

}  // namespace warren::cli

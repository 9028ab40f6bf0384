// SPDX-License-Identifier: Apache-2.0
// A thread takes files until it has enough bytes for all lanes of its vectors, then hashes them
// together. What a file's size was when it was listed does not matter: it is read until its end.
#include "apps/warren/hash_files.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>

#include "apps/warren/host_walk.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "base/processors.hpp"
#include "walk/rate_limit.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

namespace {

constexpr u64 small_bytes = 256 * kib;  // up to here a file is hashed beside others
constexpr u64 batch_bytes = 4 * mib;    // enough for one turn
constexpr u64 batch_files = 256;
constexpr u64 part_bytes = 4 * mib;  // of a large file, for each thread that hashes it
constexpr u64 batch_files_for_gpu = 65536;
constexpr auto longest_batch = std::chrono::seconds(1);  // where digests are kept
constexpr u64 readers_for_gpu = 8;
constexpr size_t path_most = 4000;  // bytes in one call, below PATH_MAX

/// Where the file is: a path that is longer than a system call takes is gone down in steps.
Errc reach(const HashJob& job, std::shared_ptr<Directory>& start, std::string_view& path) {
    start = job.start;
    path = job.location.path;
    while (path.size() > path_most) {
        const size_t slash = path.rfind('/', path_most);
        if (slash == path.npos || slash == 0) return Errc::name_too_long;
        std::shared_ptr<Directory> below;
        const Errc code = start->open_directory(path.substr(0, slash), Follow::yes, below);
        if (code != Errc::ok) return code;
        start = std::move(below);
        path.remove_prefix(slash + 1);
    }
    return Errc::ok;
}

Result<Facts> stat_job(const HashJob& job) {
    std::shared_ptr<Directory> start;
    std::string_view path;
    if (const Errc code = reach(job, start, path); code != Errc::ok) return code;
    return start->stat(path, Follow::yes);
}

Errc open_job(const HashJob& job, std::unique_ptr<OpenFile>& file, Facts& before) {
    std::shared_ptr<Directory> start;
    std::string_view path;
    if (const Errc code = reach(job, start, path); code != Errc::ok) return code;
    const Result<Facts> facts = start->stat(path, Follow::yes);
    if (!facts) return facts.code();
    if (facts->is_directory()) return Errc::is_directory;
    before = *facts;
    return start->open_file(path, Follow::yes, Access::read, file);
}

/// Whether the file was written to since `before`.
bool has_changed(const HashJob& job, const Attributes& before) {
    const Result<Facts> facts = stat_job(job);
    return facts &&
           (facts->attributes.size != before.size || facts->attributes.modified != before.modified);
}

/// Reads until `target` is full or the file ends; answers how much.
Result<u64> read_fully(OpenFile& file, u64 offset, std::span<std::byte> target) {
    u64 filled = 0;
    while (filled < target.size()) {
        const Result<u64> got = file.read(offset + filled, target.subspan(filled));
        if (!got) return got;
        if (*got == 0) break;
        filled += *got;
    }
    return filled;
}

using Clock = std::chrono::steady_clock;

class Hasher {
 public:
    Hasher(const std::vector<HashJob>& jobs, const HashOptions& options,
           const std::function<void(const HashJob&, const HashResult&)>& done)
        : jobs_(jobs),
          options_(options),
          done_(done),
          limit_(options.operations_per_second),
          results_(jobs.size()),
          progress_("hashing") {
        threads_ = options.threads != 0 ? options.threads : usable_processors();
        is_for_gpu_ = options.processor == hash::Processor::gpu;
    }

    GpuWork run() {
        u64 workers = std::min<u64>(threads_, jobs_.size());
        if (is_for_gpu_) workers = std::min(workers, readers_for_gpu);
        // Threads that have no file of their own help with the others'.
        threads_per_file_ = workers == 0 ? 1 : static_cast<u32>(threads_ / workers);
        std::vector<std::jthread> others;
        for (u64 i = 1; i < workers; ++i)
            others.emplace_back([this] { work(); });
        work();
        others.clear();
        return gpu_work_;
    }

 private:
    struct Slot {
        HashResult result;
        bool is_done = false;
    };
    /// Files of one turn that were read whole.
    struct Batch {
        std::vector<u64> jobs;
        std::vector<FileStamp> stamps;
        std::vector<std::byte> contents;
        std::vector<u64> ends;
        Clock::time_point begun;
    };

    void work() {
        Batch batch;
        while (true) {
            const u64 job = take();
            if (job == jobs_.size()) break;
            guarded(job, batch);
            const u64 most_bytes = is_for_gpu_ ? batch_bytes_for_gpu : batch_bytes;
            const u64 most_files = is_for_gpu_ ? batch_files_for_gpu : batch_files;
            if (batch.contents.size() >= most_bytes || batch.jobs.size() >= most_files ||
                is_overdue(batch)) {
                finish(batch);
            }
        }
        finish(batch);
    }

    /// What was read long ago is not to be lost.
    bool is_overdue(const Batch& batch) const {
        return options_.keeper != nullptr && !batch.jobs.empty() &&
               Clock::now() - batch.begun > longest_batch;
    }

    bool is_cut() { return options_.keeper != nullptr && options_.keeper->is_cut(); }

    u64 take() {
        if (is_cut()) return jobs_.size();
        const std::lock_guard lock(mutex_);
        return next_ < jobs_.size() ? next_++ : next_;
    }

    void guarded(u64 job, Batch& batch) {
        try {
            read(job, batch);
        } catch (const std::bad_alloc&) {
            report(job, {Errc::no_memory, {}});
        }
    }

    /// Whether an earlier run has hashed the file as it is.
    bool take_kept(u64 job) {
        const std::shared_ptr<const KeptDigest>& kept = jobs_[job].kept;
        if (kept == nullptr || stamp_now(job) != kept->stamp) return false;
        progress_.add(1, 0);
        report(job, {Errc::ok, kept->digest});
        return true;
    }

    /// What the file is now, where that is kept with its digest.
    FileStamp stamp_now(u64 job) {
        if (options_.keeper == nullptr) return {};
        limit_.take();
        const i64 asked = time_now();
        const Result<Facts> facts = stat_job(jobs_[job]);
        return facts ? stamp_of(*facts, asked) : FileStamp{};
    }

    void read(u64 job, Batch& batch) {
        if (take_kept(job)) return;
        if (options_.direct_piece_bytes != 0) return hash_directly(job);
        std::unique_ptr<OpenFile> file;
        Facts before;
        limit_.take();
        limit_.take();  // for its status
        const i64 asked = time_now();
        if (const Errc code = open_job(jobs_[job], file, before); code != Errc::ok) {
            return report(job, {code, {}});
        }
        const FileStamp stamp = stamp_of(before, asked);
        const u64 bytes = before.attributes.size;
        if (is_for_gpu_ && jobs_[job].algorithm == hash::Algorithm::blake3 &&
            bytes >= least_tree_bytes && bytes <= most_tree_bytes) {
            file.reset();
            return hash_tree(job);
        }
        const u64 start = batch.contents.size();
        const u64 room = is_for_gpu_ ? std::min(bytes + 1, small_bytes_for_gpu) : small_bytes;
        batch.contents.resize(start + room);
        limit_.take();
        const Result<u64> got =
            read_fully(*file, 0, std::span(batch.contents).subspan(start, room));
        if (!got || *got == room) {
            const std::vector<std::byte> head(batch.contents.begin() + static_cast<i64>(start),
                                              batch.contents.end());
            batch.contents.resize(start);
            if (!got) return report(job, {got.code(), {}});
            return hash_large(job, *file, before.attributes, stamp, head);
        }
        batch.contents.resize(start + *got);
        if (batch.jobs.empty()) batch.begun = Clock::now();
        batch.jobs.push_back(job);
        batch.stamps.push_back(stamp);
        batch.ends.push_back(batch.contents.size());
    }

    void hash_large(u64 job, OpenFile& file, const Attributes& before, const FileStamp& stamp,
                    std::span<const std::byte> head) {
        const hash::Algorithm algorithm = jobs_[job].algorithm;
        hash::Stream stream(algorithm, threads_per_file_);
        stream.update(head);
        std::vector<std::byte> part(part_bytes * std::min(threads_per_file_, 16u));
        for (u64 offset = head.size();;) {
            if (is_cut()) return;
            limit_.take();
            const Result<u64> got = read_fully(file, offset, part);
            if (!got) return report(job, {got.code(), {}});
            if (*got == 0) break;
            stream.update(std::span(part).first(*got));
            progress_.add(0, *got);
            offset += *got;
        }
        HashResult result{Errc::ok, std::vector<u8>(hash::digest_bytes(algorithm))};
        stream.finish(result.digest);
        result.has_changed = has_changed(jobs_[job], before);
        report(job, std::move(result), stamp);
    }

    void hash_directly(u64 job) {
        std::vector<std::byte> contents;
        const hash::Algorithm algorithm = jobs_[job].algorithm;
        const FileStamp before = stamp_now(job);
        limit_.take();
        HashResult result{read_whole(jobs_[job], contents), {}};
        if (result.code == Errc::ok) {
            hash::Stages stages;
            result.digest.resize(hash::digest_bytes(algorithm));
            result.code =
                hash::hash_direct(algorithm, contents, result.digest, options_.direct_piece_bytes,
                                  {threads_per_file_, options_.processor}, &stages);
            note(stages, contents.size());
        }
        report(job, std::move(result), before);
    }

    /// One long message of BLAKE3 by its tree, on the GPU.
    void hash_tree(u64 job) {
        std::vector<std::byte> contents;
        const FileStamp before = stamp_now(job);
        HashResult result{read_whole(jobs_[job], contents), {}};
        if (result.code == Errc::ok) {
            hash::Stages stages;
            result.digest.resize(hash::digest_bytes(hash::Algorithm::blake3));
            result.code = hash::hash_one(hash::Algorithm::blake3, contents, result.digest,
                                         {threads_per_file_, options_.processor}, &stages);
            note(stages, contents.size());
        }
        progress_.add(1, contents.size());
        report(job, std::move(result), before);
    }

    /// Adds up what a call did on the GPU.
    void note(const hash::Stages& stages, u64 bytes) {
        const std::lock_guard lock(mutex_);
        hash::Stages& sums = gpu_work_.stages;
        if (stages.note != nullptr) sums.note = stages.note;
        if (stages.processor != hash::Processor::gpu) return;
        gpu_work_.bytes += bytes;
        sums.initialise += stages.initialise;
        sums.copy_in += stages.copy_in;
        sums.staging += stages.staging;
        sums.kernel += stages.kernel;
        sums.copy_out += stages.copy_out;
        sums.finish += stages.finish;
        sums.total += stages.total;
    }

    /// Hashes what was read; files of one list have one algorithm, those of --check may not.
    void finish(Batch& batch) {
        for (const hash::Algorithm algorithm : hash::all_algorithms) {
            std::vector<size_t> places;
            std::vector<hash::Bytes> messages;
            for (size_t i = 0; i < batch.jobs.size(); ++i) {
                if (jobs_[batch.jobs[i]].algorithm != algorithm) continue;
                const u64 begin = i == 0 ? 0 : batch.ends[i - 1];
                places.push_back(i);
                messages.push_back(
                    hash::Bytes(batch.contents).subspan(begin, batch.ends[i] - begin));
            }
            if (places.empty()) continue;
            const u32 size = hash::digest_bytes(algorithm);
            std::vector<u8> digests(places.size() * size);
            hash::Stages stages;
            const Errc code =
                hash::hash_many(algorithm, messages, digests, {1, options_.processor}, &stages);
            note(stages, batch.contents.size());
            for (size_t i = 0; i < places.size(); ++i) {
                const u8* digest = digests.data() + i * size;
                report(batch.jobs[places[i]], {code, std::vector<u8>(digest, digest + size)},
                       batch.stamps[places[i]]);
            }
        }
        progress_.add(batch.jobs.size(), batch.contents.size());
        batch = {};
    }

    /// `before`: what the file was when its digest was begun, if that is to be kept.
    void report(u64 job, HashResult result, const FileStamp& before = {}) {
        if (options_.keeper != nullptr && result.code == Errc::ok && !result.has_changed) {
            options_.keeper->keep(jobs_[job].location.path, before, result.digest);
        }
        const std::lock_guard lock(mutex_);
        results_[job] = {std::move(result), true};
        for (; reported_ < jobs_.size() && results_[reported_].is_done; ++reported_) {
            done_(jobs_[reported_], results_[reported_].result);
            results_[reported_].result.digest = {};
        }
    }

    const std::vector<HashJob>& jobs_;
    const HashOptions& options_;
    const std::function<void(const HashJob&, const HashResult&)>& done_;
    u32 threads_ = 1;
    u32 threads_per_file_ = 1;
    bool is_for_gpu_ = false;
    walk::RateLimit limit_;
    GpuWork gpu_work_;
    std::mutex mutex_;
    u64 next_ = 0;
    u64 reported_ = 0;
    std::vector<Slot> results_;
    Progress progress_;
};

/// Adds the regular files below `location`, names in the order of their bytes.
bool add_tree(const Location& location, const std::shared_ptr<Directory>& start,
              hash::Algorithm algorithm, std::vector<HashJob>& jobs) {
    std::shared_ptr<Directory> directory;
    Errc code = start->open_directory(location.path, Follow::yes, directory);
    std::vector<Name> names;
    if (code == Errc::ok) code = directory->list(names);
    if (code != Errc::ok) {
        complain({location.text, ": ", reason(code)});
        return false;
    }
    std::sort(names.begin(), names.end(),
              [](const Name& left, const Name& right) { return left.name < right.name; });
    bool good = true;
    for (const Name& name : names) {
        Location below = location;
        below.text = joined(location.text, name.name);
        below.path = joined(location.path, name.name);
        const Result<Facts> facts = directory->stat(name.name, Follow::no);
        if (!facts) {
            complain({below.text, ": ", reason(facts.code())});
            good = false;
        } else if (facts->is_directory()) {
            if (!add_tree(below, start, algorithm, jobs)) good = false;
        } else if (facts->is_regular()) {
            jobs.push_back({std::move(below), start, algorithm, facts->attributes.size});
        }
    }
    return good;
}

/// The order in which a tree is listed with sorted names: a directory's files come before what has
/// its name and more.
bool is_before(const std::string& left, const std::string& right) {
    const auto rank = [](char letter) {
        return letter == '/' ? 0 : static_cast<int>(static_cast<unsigned char>(letter)) + 1;
    };
    return std::lexicographical_compare(
        left.begin(), left.end(), right.begin(), right.end(),
        [&](char one, char other) { return rank(one) < rank(other); });
}

/// The same for a tree of the host, listed on all cores.
bool add_host_tree(const Location& location, const std::shared_ptr<Directory>& start,
                   const HashOptions& options, hash::Algorithm algorithm,
                   std::vector<HashJob>& jobs) {
    std::mutex mutex;  // found
    std::vector<HashJob> found;
    walk::Options how;
    how.threads = options.threads;
    how.follow = walk::Follow::roots;
    how.group = rank_group();
    how.operations_per_second = options.operations_per_second;
    // Ranks share the work by them, and a processor is chosen by them.
    const bool wants_sizes =
        how.group != nullptr || options.processor == hash::Processor::automatic;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) {
        if (interrupted()) return walk::Next::stop;
        if (entry.type() != walk::Type::regular) return walk::Next::go_on;
        HashJob job{location, start, algorithm};
        job.location.text = job.location.path = entry.path();
        if (wants_sizes) {
            const struct statx* status = entry.status(STATX_SIZE, true);
            if (status != nullptr) job.bytes = status->stx_size;
        }
        std::lock_guard lock(mutex);
        found.push_back(std::move(job));
        return walk::Next::go_on;
    };
    callbacks.fail = [&](const walk::Failure& failure) {
        complain({failure.path, ": ", reason(static_cast<Errc>(failure.error))});
        if (options.failures != nullptr) options.failures->add(failure);
    };
    const walk::Totals totals = walk::walk(std::span(&location.text, 1), how, callbacks);
    if (how.group == nullptr) sort_by_path(found);
    std::move(found.begin(), found.end(), std::back_inserter(jobs));
    return totals.failures == 0;
}

}  // namespace

void sort_by_path(std::vector<HashJob>& jobs) {
    std::sort(jobs.begin(), jobs.end(), [](const HashJob& one, const HashJob& two) {
        return is_before(one.location.path, two.location.path);
    });
}

bool add_hash_jobs(Session& session, const std::string& operand, const HashOptions& options,
                   hash::Algorithm algorithm, std::vector<HashJob>& jobs) {
    Location location = parse_location(operand == "-" ? "/dev/stdin" : operand);
    location.text = operand;
    const std::shared_ptr<Directory> start = session.directory(location, Access::read);
    if (!start) return false;
    const Result<Facts> facts = start->stat(location.path, Follow::yes);
    if (facts && facts->is_directory()) {
        if (location.in_image()) return add_tree(location, start, algorithm, jobs);
        return add_host_tree(location, start, options, algorithm, jobs);
    }
    jobs.push_back({std::move(location), start, algorithm, facts ? facts->attributes.size : 0});
    return true;
}

GpuWork hash_files(const std::vector<HashJob>& jobs, const HashOptions& options,
                   const std::function<void(const HashJob&, const HashResult&)>& done) {
    return Hasher(jobs, options, done).run();
}

Errc read_whole(const HashJob& job, std::vector<std::byte>& contents) {
    std::unique_ptr<OpenFile> file;
    Facts facts;
    if (const Errc code = open_job(job, file, facts); code != Errc::ok) return code;
    u64 room = facts.attributes.size + 1;
    for (u64 filled = 0;; room = filled * 2) {
        contents.resize(std::max(room, part_bytes));
        const Result<u64> got = read_fully(*file, filled, std::span(contents).subspan(filled));
        if (!got) return got.code();
        filled += *got;
        if (filled == contents.size()) continue;
        contents.resize(filled);
        return Errc::ok;
    }
}

}  // namespace warren::cli

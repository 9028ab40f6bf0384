// SPDX-License-Identifier: Apache-2.0
// A thread collects files until it has enough bytes for all lanes of its vectors, then hashes them
// together. A file is read until its end, whatever its size was when it was listed.
#include "apps/warren/hash_files.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>

#include "apps/warren/host_walk.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/place.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "base/processors.hpp"
#include "base/workers.hpp"
#include "walk/rate_limit.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

namespace {

constexpr u64 small_bytes = 256 * kib;  // up to here a file is hashed in a batch
constexpr u64 batch_bytes = 4 * mib;    // enough for one batch
constexpr u64 batch_files = 256;
constexpr u64 part_bytes = 4 * mib;  // of a large file, for each thread that hashes it
constexpr u64 batch_files_for_gpu = 65536;
constexpr auto longest_batch = std::chrono::seconds(1);  // if digests are kept
constexpr u64 readers_for_gpu = 8;
constexpr u32 most_readers = 4;  // of one file: with more, a disk seeks too much

/// The directory and the relative path of the file: a path too long for a system call is resolved
/// in steps.
Errc reach(const HashJob& job, std::shared_ptr<Directory>& start, std::string_view& path) {
    start = job.start;
    path = job.location.path;
    while (path.size() > call_path_bytes_max) {
        const size_t slash = path.rfind('/', call_path_bytes_max);
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

/// Whether the file was written to since `before`. Contents of other file types have no stable
/// state.
bool has_changed(const HashJob& job, const Facts& before) {
    if (!before.is_regular()) return false;
    const Result<Facts> facts = stat_job(job);
    return facts && (facts->attributes.size != before.attributes.size ||
                     facts->attributes.modified != before.attributes.modified);
}

/// Like read_fully(), but by several threads, each of which reads its own ranges. The result is
/// that of the first range that came short.
Result<u64> read_by_threads(Workers& workers, OpenFile& file, u64 offset,
                            std::span<std::byte> target) {
    // A stream reports its end once, so a single thread must read it.
    if (workers.threads() == 1) return read_fully(file, offset, target);
    std::mutex mutex;  // guards filled, code
    u64 filled = target.size();
    Errc code = Errc::ok;
    workers.run_ranges(target.size(), mib, [&](u64 first, u64 last, u32) {
        const Result<u64> got =
            read_fully(file, offset + first, target.subspan(first, last - first));
        const u64 here = first + (got ? *got : 0);
        if (here == last) return;
        const std::lock_guard lock(mutex);
        if (here >= filled) return;
        filled = here;
        code = got ? Errc::ok : got.code();
    });
    if (code != Errc::ok) return code;
    return filled;
}

using Clock = std::chrono::steady_clock;

class Hasher {
 public:
    Hasher(HashJobs& jobs, const HashOptions& options, const HashDone& done)
        : jobs_(jobs),
          options_(options),
          limit_(options.operations_per_second),
          order_(options.list_bytes, done),
          progress_("hashing") {
        threads_ = options.threads != 0 ? options.threads : usable_processors();
        is_for_gpu_ = options.processor == hash::Processor::gpu;
    }

    Errc run(GpuWork& work_done) {
        u64 workers = std::min<u64>(threads_, jobs_.size());
        if (is_for_gpu_) workers = std::min(workers, readers_for_gpu);
        // Threads without a file of their own help to hash the others'.
        threads_per_file_ = workers == 0 ? 1 : static_cast<u32>(threads_ / workers);
        Workers(static_cast<u32>(std::max<u64>(workers, 1))).run_last([this](u32) { work(); });
        work_done = gpu_work_;
        const Errc of_results = order_.finish();
        return jobs_.error() != Errc::ok ? jobs_.error() : of_results;
    }

 private:
    /// A file and its position in the order.
    struct Taken {
        u64 number = 0;
        HashJob job;
    };
    /// A file that was read whole, and the end of its bytes in the buffer.
    struct Whole {
        Taken taken;
        FileStamp stamp;
        u64 end;
        bool has_changed;
    };
    /// Files that are hashed together.
    struct Batch {
        std::vector<Whole> files;
        std::vector<std::byte> contents;
        Clock::time_point begun;
        u64 end() const { return files.empty() ? 0 : files.back().end; }
    };

    void work() {
        Batch batch;
        while (true) {
            Taken taken;
            if (!take(taken)) break;
            guarded(taken, batch);
            const u64 most_bytes = is_for_gpu_ ? batch_bytes_for_gpu : batch_bytes;
            const u64 most_files = is_for_gpu_ ? batch_files_for_gpu : batch_files;
            if (batch.contents.size() >= most_bytes || batch.files.size() >= most_files ||
                is_overdue(batch)) {
                finish(batch);
            }
        }
        finish(batch);
    }

    /// Limits how long a file that was read waits, so that a checkpoint loses little.
    bool is_overdue(const Batch& batch) const {
        return options_.keeper != nullptr && !batch.files.empty() &&
               Clock::now() - batch.begun > longest_batch;
    }

    bool is_cut() { return options_.keeper != nullptr && options_.keeper->is_cut(); }

    bool take(Taken& taken) {
        if (is_cut()) return false;
        const std::lock_guard lock(mutex_);
        taken.number = next_;
        if (!jobs_.next(taken.job)) return false;
        ++next_;
        return true;
    }

    void guarded(Taken& taken, Batch& batch) {
        try {
            read(taken, batch);
        } catch (const std::bad_alloc&) {
            batch.contents.resize(batch.end());
            report(taken, {Errc::no_memory, {}});
        }
    }

    /// Uses the digest of an earlier run if the file is unchanged.
    bool take_kept(Taken& taken) {
        const std::shared_ptr<const KeptDigest> kept = taken.job.kept;
        if (kept == nullptr || stamp_now(taken.job) != kept->stamp) return false;
        if (kept->digest.size() != hash::digest_bytes(taken.job.algorithm)) return false;
        progress_.add(1, 0);
        report(taken, {Errc::ok, kept->digest});
        return true;
    }

    /// The present state of the file, if it will be kept with its digest.
    FileStamp stamp_now(const HashJob& job) {
        if (options_.keeper == nullptr) return {};
        limit_.take();
        const i64 asked = time_now();
        const Result<Facts> facts = stat_job(job);
        return facts ? stamp_of(*facts, asked) : FileStamp{};
    }

    void read(Taken& taken, Batch& batch) {
        if (take_kept(taken)) return;
        if (options_.direct_piece_bytes != 0) return hash_directly(taken);
        std::unique_ptr<OpenFile> file;
        Facts before;
        limit_.take();
        limit_.take();  // for the stat
        const i64 asked = time_now();
        if (const Errc code = open_job(taken.job, file, before); code != Errc::ok) {
            return report(taken, {code, {}});
        }
        const FileStamp stamp = stamp_of(before, asked);
        const u64 bytes = before.attributes.size;
        if (is_for_gpu_ && taken.job.algorithm == hash::Algorithm::blake3 &&
            bytes >= least_tree_bytes && bytes <= most_tree_bytes) {
            return hash_tree(taken, *file, before);
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
            if (!got) return report(taken, {got.code(), {}});
            return hash_large(taken, *file, before, stamp, head);
        }
        batch.contents.resize(start + *got);
        // Allocate before moving: if memory is short, `taken` must still identify the file.
        if (batch.files.size() == batch.files.capacity()) {
            batch.files.reserve(2 * batch.files.size() + 16);
        }
        if (batch.files.empty()) batch.begun = Clock::now();
        limit_.take();
        const bool changed = has_changed(taken.job, before);
        batch.files.push_back({std::move(taken), stamp, start + *got, changed});
    }

    /// How many threads may read one file concurrently: more than one only if each can read at its
    /// own offset and system calls are not limited.
    u32 readers_of(const HashJob& job, const Facts& facts) const {
        if (job.location.in_image() || !facts.is_regular()) return 1;
        if (options_.operations_per_second != 0) return 1;
        return std::min(std::max(threads_per_file_, 1u), most_readers);
    }

    void hash_large(Taken& taken, OpenFile& file, const Facts& before, const FileStamp& stamp,
                    std::span<const std::byte> head) {
        const hash::Algorithm algorithm = taken.job.algorithm;
        if (is_for_gpu_) note({.note = "long files were hashed on the CPU, each as one stream"}, 0);
        Workers readers(readers_of(taken.job, before));
        hash::Stream stream(algorithm, threads_per_file_);
        stream.update(head);
        std::vector<std::byte> part(part_bytes * std::min(threads_per_file_, 16u));
        for (u64 offset = head.size();;) {
            if (is_cut()) return;
            limit_.take();
            const Result<u64> got = read_by_threads(readers, file, offset, part);
            if (!got) return report(taken, {got.code(), {}});
            stream.update(std::span(part).first(*got));
            progress_.add(0, *got);
            offset += *got;
            if (*got < part.size()) break;
        }
        HashResult result{Errc::ok, std::vector<u8>(hash::digest_bytes(algorithm))};
        stream.finish(result.digest);
        limit_.take();
        result.has_changed = has_changed(taken.job, before);
        report(taken, std::move(result), stamp);
    }

    void hash_directly(Taken& taken) {
        std::vector<std::byte> contents;
        const hash::Algorithm algorithm = taken.job.algorithm;
        const FileStamp before = stamp_now(taken.job);
        limit_.take();
        HashResult result;
        result.code = read_whole(taken.job, contents, result.has_changed);
        if (result.code == Errc::ok) {
            hash::Stages stages;
            result.digest.resize(hash::digest_bytes(algorithm));
            result.code =
                hash::hash_direct(algorithm, contents, result.digest, options_.direct_piece_bytes,
                                  {threads_per_file_, options_.processor}, &stages);
            note(stages, contents.size());
        }
        report(taken, std::move(result), before);
    }

    /// Hashes one long BLAKE3 message as a tree, on the GPU.
    void hash_tree(Taken& taken, OpenFile& file, const Facts& facts) {
        const u64 bytes = facts.attributes.size;
        const FileStamp before = stamp_now(taken.job);
        // One byte more than the size, to detect the end.
        const auto contents = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
        Workers readers(readers_of(taken.job, facts));
        limit_.take();
        const Result<u64> got = read_by_threads(readers, file, 0, {contents.get(), bytes + 1});
        if (!got) return report(taken, {got.code(), {}});
        if (*got > bytes) return hash_large(taken, file, facts, before, {});
        HashResult result{Errc::ok, std::vector<u8>(hash::digest_bytes(taken.job.algorithm))};
        hash::Stages stages;
        result.code = hash::hash_one(taken.job.algorithm, {contents.get(), *got}, result.digest,
                                     {threads_per_file_, options_.processor}, &stages);
        note(stages, *got);
        limit_.take();
        result.has_changed = has_changed(taken.job, facts);
        progress_.add(1, *got);
        report(taken, std::move(result), before);
    }

    /// Adds up the work of a call on the GPU.
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

    /// Hashes a batch. Files of a tree have one algorithm, those of --check may have several.
    void finish(Batch& batch) {
        for (const hash::Algorithm algorithm : hash::all_algorithms) {
            std::vector<size_t> places;
            std::vector<hash::Bytes> messages;
            u64 begin = 0;
            for (size_t i = 0; i < batch.files.size(); ++i) {
                const u64 end = batch.files[i].end;
                if (batch.files[i].taken.job.algorithm == algorithm) {
                    places.push_back(i);
                    messages.push_back(hash::Bytes(batch.contents).subspan(begin, end - begin));
                }
                begin = end;
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
                Whole& file = batch.files[places[i]];
                report(file.taken, {code, std::vector<u8>(digest, digest + size), file.has_changed},
                       file.stamp);
            }
        }
        progress_.add(batch.files.size(), batch.contents.size());
        batch = {};
    }

    /// `before`: the state of the file when reading began, if the digest is to be kept.
    void report(Taken& taken, HashResult result, const FileStamp& before = {}) {
        if (options_.keeper != nullptr && result.code == Errc::ok && !result.has_changed) {
            options_.keeper->keep(taken.job.location.path, before, result.digest);
        }
        const std::lock_guard lock(mutex_);
        order_.put(taken.number, std::move(taken.job), std::move(result));
    }

    HashJobs& jobs_;
    const HashOptions& options_;
    u32 threads_ = 1;
    u32 threads_per_file_ = 1;
    bool is_for_gpu_ = false;
    walk::RateLimit limit_;
    GpuWork gpu_work_;
    std::mutex mutex_;  // guards jobs_ and the members below
    u64 next_ = 0;
    ResultOrder order_;
    Progress progress_;
};

/// Adds all regular files below `location`.
bool add_tree(const Location& location, const std::shared_ptr<Directory>& start,
              hash::Algorithm algorithm, HashJobs& jobs) {
    std::shared_ptr<Directory> directory;
    Errc code = start->open_directory(location.path, Follow::yes, directory);
    std::vector<Name> names;
    if (code == Errc::ok) code = directory->list(names);
    if (code != Errc::ok) {
        complain({quote_if_needed(location.text), ": ", reason(code)});
        return false;
    }
    bool good = true;
    for (const Name& name : names) {
        Location below = location;
        below.text = joined(location.text, name.name);
        below.path = joined(location.path, name.name);
        const Result<Facts> facts = directory->stat(name.name, Follow::no);
        if (!facts) {
            complain({quote_if_needed(below.text), ": ", reason(facts.code())});
            good = false;
        } else if (facts->is_directory()) {
            if (!add_tree(below, start, algorithm, jobs)) good = false;
        } else if (facts->is_regular()) {
            if (jobs.add({std::move(below), start, algorithm, facts->attributes.size}) != Errc::ok)
                return false;
        }
    }
    return good;
}

/// The same for a tree of the host, listed on all cores.
bool add_host_tree(const Location& location, const std::shared_ptr<Directory>& start,
                   const HashOptions& options, hash::Algorithm algorithm, HashJobs& jobs) {
    walk::Options how;
    how.threads = options.threads;
    how.follow = walk::Follow::roots;
    how.group = rank_group();
    how.operations_per_second = options.operations_per_second;
    // Sizes are needed to distribute files over ranks, and to choose a processor.
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
        return jobs.add(job) == Errc::ok ? walk::Next::go_on : walk::Next::stop;
    };
    callbacks.fail = [&](const walk::Failure& failure) {
        complain({quote_if_needed(failure.path), ": ", reason(static_cast<Errc>(failure.error))});
        if (options.failures != nullptr) options.failures->add(failure);
    };
    const walk::Totals totals = walk::walk(std::span(&location.text, 1), how, callbacks);
    return totals.failures == 0;
}

}  // namespace

Errc open_job(const HashJob& job, std::unique_ptr<OpenFile>& file, Facts& before) {
    std::shared_ptr<Directory> start;
    std::string_view path;
    if (const Errc code = reach(job, start, path); code != Errc::ok) return code;
    WARREN_LET(facts, start->stat(path, Follow::yes));
    if (facts->is_directory()) return Errc::is_directory;
    before = *facts;
    return start->open_file(path, Follow::yes, Access::read, file);
}

bool add_hash_jobs(Session& session, const std::string& operand, const HashOptions& options,
                   hash::Algorithm algorithm, HashJobs& jobs) {
    jobs.begin_group();
    Location location = parse_location(operand == "-" ? "/dev/stdin" : operand);
    location.text = operand;
    const std::shared_ptr<Directory> start = session.directory(location, Access::read);
    if (!start) return false;
    const Result<Facts> facts = start->stat(location.path, Follow::yes);
    if (facts && facts->is_directory()) {
        if (location.in_image()) return add_tree(location, start, algorithm, jobs);
        return add_host_tree(location, start, options, algorithm, jobs);
    }
    const u64 bytes = facts ? facts->attributes.size : 0;
    return jobs.add({std::move(location), start, algorithm, bytes}) == Errc::ok;
}

Errc hash_files(HashJobs& jobs, const HashOptions& options, const HashDone& done, GpuWork& work) {
    return Hasher(jobs, options, done).run(work);
}

Errc read_whole(const HashJob& job, std::vector<std::byte>& contents, bool& changed) {
    std::unique_ptr<OpenFile> file;
    Facts facts;
    if (const Errc code = open_job(job, file, facts); code != Errc::ok) return code;
    u64 room = facts.attributes.size + 1;
    for (u64 filled = 0;; room = filled * 2) {
        contents.resize(std::max(room, part_bytes));
        WARREN_LET(got, read_fully(*file, filled, std::span(contents).subspan(filled)));
        filled += *got;
        if (filled == contents.size()) continue;
        contents.resize(filled);
        changed = has_changed(job, facts);
        return Errc::ok;
    }
}

}  // namespace warren::cli

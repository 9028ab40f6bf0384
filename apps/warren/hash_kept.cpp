// SPDX-License-Identifier: Apache-2.0
// Each run has a list for each rank, to which records are appended. Ranks do not wait for each
// other: a rank that is told to stop creates a file `stop` in the folder, which the others poll.
#include "apps/warren/hash_kept.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "apps/warren/hash_jobs.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "base/crc32c.hpp"
#include "base/whole_io.hpp"
#include "walk/bytes.hpp"
#include "walk/checkpoint.hpp"

namespace warren::cli {

namespace {

namespace files = std::filesystem;

constexpr std::string_view list_prefix = "digests-";
constexpr size_t write_buffer_bytes = 64 * kib;
constexpr auto longest_unwritten = std::chrono::seconds(1);
// The granularity of file times: a file that was changed less than this before may be changed again
// and keep the same time.
constexpr i64 clock_step = 50'000'000;  // nanoseconds

struct RecordHead {
    u32 bytes;
    u32 checksum;
};

/// The lists in the folder with the numbers of their runs, oldest first.
std::vector<std::pair<u64, files::path>> lists_in(const std::string& folder) {
    std::vector<std::pair<u64, files::path>> lists;
    std::error_code error;
    for (const auto& file : files::directory_iterator(folder, error)) {
        const std::string name = file.path().filename();
        if (!name.starts_with(list_prefix)) continue;
        u64 run = 0;
        std::from_chars(name.data() + list_prefix.size(), name.data() + name.size(), run);
        lists.emplace_back(run, file.path());
    }
    std::sort(lists.begin(), lists.end());
    return lists;
}

/// Adds the records of the list, sorted by path, up to its end or to a truncated record.
void read_list(const files::path& list, walk::SpillSort& recalled) {
    std::ifstream file(list, std::ios::binary);
    RecordHead head{};
    std::string bytes;
    while (file.read(reinterpret_cast<char*>(&head), sizeof head)) {
        if (head.bytes > 1 * mib) return;
        bytes.resize(head.bytes);
        if (!file.read(bytes.data(), head.bytes)) return;
        if (crc32c(std::as_bytes(std::span(bytes))) != head.checksum) return;
        walk::ByteReader reader(bytes, walk::Origin::file);
        reader.get<FileStamp>();
        reader.get_bytes();
        if (!reader.good()) return;
        const std::string_view path = reader.rest();
        const std::string_view kept = std::string_view(bytes).substr(0, bytes.size() - path.size());
        if (recalled.add(path, kept) != Errc::ok) return;
    }
}

/// Iterates over the recorded digests in the order of their paths; the last one of a path counts.
class RecalledPaths {
 public:
    explicit RecalledPaths(walk::SpillSort& recalled) : recalled_(recalled) { advance(); }

    /// The record for the path, or null. Requires: calls are in the order of paths.
    std::shared_ptr<const KeptDigest> find(std::string_view path) {
        while (is_there_ && path_ < path)
            advance();
        if (!is_there_ || path_ != path) return nullptr;
        std::string last;
        for (; is_there_ && path_ == path; advance())
            last = kept_;
        walk::ByteReader reader(last);
        const FileStamp stamp = reader.get<FileStamp>();
        const std::string_view digest = reader.get_bytes();
        return std::make_shared<KeptDigest>(
            KeptDigest{stamp, std::vector<u8>(digest.begin(), digest.end())});
    }

 private:
    void advance() { is_there_ = recalled_.next(path_, kept_); }

    walk::SpillSort& recalled_;
    bool is_there_ = false;
    std::string_view path_;
    std::string_view kept_;
};

}  // namespace

i64 time_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

FileStamp stamp_of(const Facts& facts, i64 asked) {
    const Attributes& attributes = facts.attributes;
    if (!facts.is_regular() || attributes.changed > asked - clock_step) return {};
    return {facts.file_system, attributes.handle.inode, attributes.size, attributes.modified,
            attributes.changed};
}

DigestKeeper::~DigestKeeper() {
    if (file_ >= 0) ::close(file_);
}

std::string DigestKeeper::list_name(u64 run) const {
    return folder_ + "/" + std::string(list_prefix) + std::to_string(run) + "-" +
           std::to_string(rank_number());
}

bool DigestKeeper::begin(bool goes_on) {
    u64 run = 0;  // no run
    if (rank_number() == 0) {
        if (!goes_on) remove();
        ::unlink((folder_ + "/stop").c_str());
        const walk::CheckpointFolder folder(folder_);
        walk::Manifest manifest;
        Errc code = goes_on ? folder.read_manifest(manifest) : Errc::ok;
        manifest.ranks = rank_count();
        ++manifest.epoch;
        if (code == Errc::ok) code = folder.write_manifest(manifest);
        if (code == Errc::ok) run = manifest.epoch;
        if (code != Errc::ok)
            complain({"cannot use ", quote(folder_), ": ", checkpoint_reason(code)});
    }
    const std::string shared = share_over_ranks({reinterpret_cast<const char*>(&run), sizeof run});
    run = walk::ByteReader(shared).get<u64>();
    if (run == 0) return false;
    file_ =
        ::open(list_name(run).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (file_ < 0) error_ = errno;
    written_at_ = synced_at_ = std::chrono::steady_clock::now();
    return true;
}

u64 DigestKeeper::recall(HashJobs& jobs, u64 memory_bytes) const {
    walk::SpillSort recalled(memory_bytes);
    for (const auto& [run, list] : lists_in(folder_))
        read_list(list, recalled);
    if (recalled.count() == 0) return 0;
    walk::SpillSort by_path(memory_bytes);
    HashJobs result(memory_bytes);
    for (HashJob job; jobs.next(job);) {
        if (by_path.add(job.location.path, written_job(job)) != Errc::ok) break;
    }
    u64 found = 0;
    std::optional<std::string> last_path;
    std::shared_ptr<const KeptDigest> kept;
    RecalledPaths paths(recalled);
    for (std::string_view path, bytes; by_path.next(path, bytes);) {
        walk::ByteReader reader(bytes);
        HashJob job = read_job(reader);
        // Two operands may name the same file.
        if (path != last_path) kept = paths.find(path);
        last_path = path;
        job.kept = kept;
        if (kept != nullptr) ++found;
        if (result.add_to_group(job, job.group) != Errc::ok) break;
    }
    for (const Errc code : {jobs.error(), recalled.error(), by_path.error()})
        if (code != Errc::ok) result.fail(code);
    jobs = std::move(result);
    return found;
}

void DigestKeeper::keep(std::string_view path, const FileStamp& stamp, std::span<const u8> digest) {
    if (stamp.inode == 0) return;
    walk::ByteWriter record;
    record.put(stamp);
    record.put_bytes({reinterpret_cast<const char*>(digest.data()), digest.size()});
    const std::string bytes = record.take().append(path);
    const RecordHead head{static_cast<u32>(bytes.size()), crc32c(std::as_bytes(std::span(bytes)))};
    std::lock_guard lock(mutex_);
    records_.append(reinterpret_cast<const char*>(&head), sizeof head).append(bytes);
    if (records_.size() >= write_buffer_bytes) write_out();
}

/// Requires: mutex_.
void DigestKeeper::write_out() {
    const auto bytes = std::as_bytes(std::span(records_));
    if (error_ == 0) error_ = static_cast<int>(write_fully(file_, bytes));
    records_.clear();
}

bool DigestKeeper::is_cut() {
    if (is_cut_.load(std::memory_order_relaxed)) return true;
    const std::string stop = folder_ + "/stop";
    const auto now = std::chrono::steady_clock::now();
    bool is_cut = interrupted();
    if (is_cut) {
        const int file = ::open(stop.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0) ::close(file);
    }
    std::lock_guard lock(mutex_);
    if (!is_cut &&
        now - written_at_ >= std::min<std::chrono::nanoseconds>(interval_, longest_unwritten)) {
        written_at_ = now;
        write_out();
        is_cut = ::access(stop.c_str(), F_OK) == 0;
    }
    if (now - synced_at_ >= interval_) {
        synced_at_ = now;
        if (error_ == 0 && ::fdatasync(file_) != 0) error_ = errno;
    }
    if (is_cut) is_cut_.store(true, std::memory_order_relaxed);
    return is_cut;
}

bool DigestKeeper::finish() {
    std::lock_guard lock(mutex_);
    write_out();
    if (error_ == 0 && ::fsync(file_) != 0) error_ = errno;
    if (error_ == 0) return true;
    complain({"cannot keep digests in ", quote(folder_), ": ", reason(static_cast<Errc>(error_))});
    return false;
}

void DigestKeeper::remove() const {
    for (const auto& [run, list] : lists_in(folder_))
        ::unlink(list.c_str());
    ::unlink((folder_ + "/stop").c_str());
}

}  // namespace warren::cli

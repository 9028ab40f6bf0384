// SPDX-License-Identifier: Apache-2.0
// No name contains a zero byte, so replacing slashes by zero bytes sorts the files of a directory
// before any name of which the directory's name is a prefix, and can be reversed.
#include "apps/warren/hash_jobs.hpp"

#include <algorithm>

namespace warren::cli {

namespace {

constexpr size_t number_bytes = 8;
constexpr u64 waiting_bytes_each = 400;  // of a job and its result, besides the path

void put_digest(walk::ByteWriter& writer, const std::vector<u8>& digest) {
    writer.put_bytes({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::vector<u8> get_digest(walk::ByteReader& reader) {
    const std::string_view digest = reader.get_bytes();
    return {digest.begin(), digest.end()};
}

/// Serialises everything but the path and the group.
void put_rest(walk::ByteWriter& writer, const HashJob& job) {
    const bool has_text = job.location.text != job.location.path;
    writer.put(has_text);
    if (has_text) writer.put_bytes(job.location.text);
    writer.put_bytes(job.location.image);
    writer.put(job.algorithm);
    writer.put_number(job.bytes);
    put_digest(writer, job.expected);
    writer.put(job.kept != nullptr);
    if (job.kept == nullptr) return;
    writer.put(job.kept->stamp);
    put_digest(writer, job.kept->digest);
}

void get_rest(walk::ByteReader& reader, HashJob& job) {
    job.location.text = reader.get<bool>() ? reader.get_bytes() : job.location.path;
    job.location.image = reader.get_bytes();
    job.algorithm = reader.get<hash::Algorithm>();
    job.bytes = reader.get_number();
    job.expected = get_digest(reader);
    job.kept = nullptr;
    if (!reader.get<bool>()) return;
    const FileStamp stamp = reader.get<FileStamp>();
    job.kept = std::make_shared<KeptDigest>(KeptDigest{stamp, get_digest(reader)});
}

}  // namespace

std::string path_key(std::string_view path) {
    std::string key(path);
    std::replace(key.begin(), key.end(), '/', '\0');
    return key;
}

std::string number_key(u64 number) {
    std::string key(number_bytes, '\0');
    for (size_t at = number_bytes; at-- > 0; number >>= 8)
        key[at] = static_cast<char>(number);
    return key;
}

u64 number_of_key(std::string_view key) {
    u64 number = 0;
    for (const char byte : key.substr(0, number_bytes))
        number = number << 8 | static_cast<u8>(byte);
    return number;
}

std::string written_job(const HashJob& job) {
    walk::ByteWriter writer;
    writer.put(job.group);
    writer.put_bytes(job.location.path);
    put_rest(writer, job);
    return writer.take();
}

HashJob read_job(walk::ByteReader& reader) {
    HashJob job;
    job.group = reader.get<u64>();
    job.location.path = reader.get_bytes();
    get_rest(reader, job);
    return job;
}

std::string written_result(const HashJob& job, const HashResult& result) {
    walk::ByteWriter writer;
    writer.put(result.code);
    writer.put(result.has_changed);
    put_digest(writer, result.digest);
    return writer.take() + written_job(job);
}

void read_result(std::string_view bytes, HashJob& job, HashResult& result) {
    walk::ByteReader reader(bytes);
    result.code = reader.get<Errc>();
    result.has_changed = reader.get<bool>();
    result.digest = get_digest(reader);
    job = read_job(reader);
}

HashJobs::HashJobs(u64 memory_bytes)
    : host_(host_directory()),
      sort_(std::make_unique<walk::SpillSort>(memory_bytes)),
      mutex_(std::make_unique<std::mutex>()),
      shares_(std::size(hash::all_algorithms)) {}

Errc HashJobs::add_to_group(const HashJob& job, u64 group) {
    walk::ByteWriter writer;
    put_rest(writer, job);
    {
        std::lock_guard lock(*mutex_);
        if (job.location.in_image()) images_[job.location.image] = job.start;
        HashShare& share = shares_[static_cast<u32>(job.algorithm)];
        ++share.files;
        share.bytes += job.bytes;
        if (job.algorithm == hash::Algorithm::blake3 && job.bytes >= least_tree_bytes &&
            job.bytes <= most_tree_bytes) {
            share.tree_bytes += job.bytes;
            ++share.tree_files;
        } else if (job.bytes <= small_bytes_for_gpu) {
            share.small_bytes += job.bytes;
        }
    }
    return sort_->add(number_key(group) + path_key(job.location.path), writer.bytes());
}

bool HashJobs::next(HashJob& job) {
    std::string_view key;
    std::string_view value;
    if (error_ != Errc::ok || !sort_->next(key, value)) return false;
    job.group = number_of_key(key);
    job.location.path = key.substr(number_bytes);
    std::replace(job.location.path.begin(), job.location.path.end(), '\0', '/');
    walk::ByteReader reader(value);
    get_rest(reader, job);
    job.start = job.location.in_image() ? images_[job.location.image] : host_;
    return true;
}

void HashJobs::fail(Errc code) {
    if (error_ == Errc::ok) error_ = code;
}

Errc HashJobs::error() const {
    return error_ != Errc::ok ? error_ : sort_->error();
}

void ResultOrder::put(u64 number, HashJob&& job, HashResult&& result) {
    if (number != next_ || late_) return wait(number, std::move(job), std::move(result));
    done_(job, result);
    ++next_;
    for (auto at = waiting_.begin(); at != waiting_.end() && at->first == next_; ++next_) {
        const auto& [waiting_job, waiting_result] = at->second;
        done_(waiting_job, waiting_result);
        waiting_bytes_ -= waiting_bytes_each + waiting_job.location.path.size();
        at = waiting_.erase(at);
    }
}

void ResultOrder::wait(u64 number, HashJob&& job, HashResult&& result) {
    if (late_) {
        // finish() reports errors.
        static_cast<void>(late_->add(number_key(number), written_result(job, result)));
        return;
    }
    waiting_bytes_ += waiting_bytes_each + job.location.path.size();
    waiting_.emplace(number, std::pair(std::move(job), std::move(result)));
    if (waiting_bytes_ <= memory_bytes_) return;
    late_.emplace(memory_bytes_);
    for (const auto& [waiting_number, each] : waiting_)
        static_cast<void>(
            late_->add(number_key(waiting_number), written_result(each.first, each.second)));
    waiting_.clear();
}

Errc ResultOrder::finish() {
    for (const auto& [number, each] : waiting_)
        done_(each.first, each.second);
    waiting_.clear();
    if (!late_) return Errc::ok;
    HashJob job;
    HashResult result;
    for (std::string_view key, value; late_->next(key, value);) {
        read_result(value, job, result);
        done_(job, result);
    }
    return late_->error();
}

}  // namespace warren::cli

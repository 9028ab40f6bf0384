// SPDX-License-Identifier: Apache-2.0
// A file is written under a temporary name, synced, renamed, and then its folder is synced. It ends
// with a checksum of all bytes before it.
#include "walk/checkpoint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/crc32c.hpp"
#include "base/last_error.hpp"
#include "base/whole_io.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

/// Precedes each work batch of a queue. Has a checksum of its own because the batch is used before
/// the end of the file, with the file's checksum, has been read.
struct WorkBatchHead {
    u32 size;
    u32 checksum;
};

WorkBatchHead head_of(std::string_view batch) {
    return {static_cast<u32>(batch.size()), crc32c(std::as_bytes(std::span(batch)))};
}

}  // namespace

Errc CheckpointFolder::prepare() const {
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return last_error();
    return has_manifest() ? Errc::exists : Errc::ok;
}

bool CheckpointFolder::has_manifest() const {
    return ::access(manifest_name().c_str(), F_OK) == 0;
}

void CheckpointFolder::remove(const Manifest& manifest) const {
    ::unlink(manifest_name().c_str());
    remove_ranks(manifest.epoch, manifest.ranks);
}

std::string CheckpointFolder::rank_name(u64 epoch, u32 rank) const {
    return path_ + "/rank-" + std::to_string(epoch) + "-" + std::to_string(rank);
}

std::string CheckpointFolder::queue_name(u64 epoch, u32 rank) const {
    return path_ + "/queue-" + std::to_string(epoch) + "-" + std::to_string(rank);
}

CheckpointFile::CheckpointFile(std::string folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {
    const std::string temporary = name_ + ".new";
    file_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_ < 0) note_error();
}

CheckpointFile::~CheckpointFile() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink((name_ + ".new").c_str());
}

void CheckpointFile::note_error() {
    if (code_ == Errc::ok) code_ = last_error();
}

void CheckpointFile::put(std::string_view bytes) {
    if (code_ != Errc::ok) return;
    checksum_ = crc32c(std::as_bytes(std::span(bytes)), checksum_);
    code_ = write_fully(file_, std::as_bytes(std::span(bytes)));
}

Errc CheckpointFile::finish() {
    if (file_ < 0) return code_;
    const u32 checksum = checksum_;
    put({reinterpret_cast<const char*>(&checksum), sizeof checksum});
    const std::string temporary = name_ + ".new";
    if (code_ == Errc::ok && ::fsync(file_) != 0) note_error();
    if (::close(std::exchange(file_, -1)) != 0) note_error();
    if (code_ == Errc::ok && ::rename(temporary.c_str(), name_.c_str()) != 0) note_error();
    if (code_ != Errc::ok) {
        ::unlink(temporary.c_str());
        return code_;
    }
    const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return last_error();
    if (::fsync(folder) != 0) note_error();
    ::close(folder);
    return code_;
}

Errc CheckpointFolder::write_whole(const std::string& name, std::string_view bytes) const {
    CheckpointFile file(path_, name);
    file.put(bytes);
    return file.finish();
}

Errc CheckpointFolder::read_whole(const std::string& name, std::string& bytes) const {
    const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return last_error();
    bytes.clear();
    std::string part(1 * mib, '\0');
    ssize_t size = 0;
    while ((size = ::read(file, part.data(), part.size())) > 0)
        bytes.append(part, 0, static_cast<size_t>(size));
    const Errc code = size < 0 ? last_error() : Errc::ok;
    ::close(file);
    if (code != Errc::ok) return code;
    u32 checksum = 0;
    if (bytes.size() < sizeof checksum) return Errc::corrupt;
    const size_t end = bytes.size() - sizeof checksum;
    std::memcpy(&checksum, bytes.data() + end, sizeof checksum);
    bytes.resize(end);
    return crc32c(std::as_bytes(std::span(bytes))) == checksum ? Errc::ok : Errc::corrupt;
}

Errc CheckpointFolder::write_rank(u64 epoch, u32 rank, std::string_view bytes) const {
    return write_whole(rank_name(epoch, rank), bytes);
}

Errc CheckpointFolder::read_rank(u64 epoch, u32 rank, std::string& bytes) const {
    return read_whole(rank_name(epoch, rank), bytes);
}

CheckpointFile CheckpointFolder::begin_queue(u64 epoch, u32 rank) const {
    return {path_, queue_name(epoch, rank)};
}

void CheckpointFolder::write_batch(CheckpointFile& queue, std::string_view batch) {
    const WorkBatchHead head = head_of(batch);
    queue.put({reinterpret_cast<const char*>(&head), sizeof head});
    queue.put(batch);
}

Errc CheckpointFolder::read_queue(u64 epoch, u32 rank, u64 work_batches,
                                  const std::function<Errc(std::string_view)>& visitor) const {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(
        std::fopen(queue_name(epoch, rank).c_str(), "re"), std::fclose);
    if (file == nullptr) return last_error();
    u32 sum = 0;
    std::string batch;
    const auto read = [&](void* bytes, size_t size) {
        if (std::fread(bytes, 1, size, file.get()) != size) {
            return std::ferror(file.get()) != 0 ? last_error() : Errc::corrupt;
        }
        sum = crc32c({static_cast<const std::byte*>(bytes), size}, sum);
        return Errc::ok;
    };
    for (; work_batches > 0; --work_batches) {
        WorkBatchHead head{};
        WARREN_TRY(read(&head, sizeof head));
        if (head.size > WorkBatch::most) return Errc::corrupt;
        batch.resize(head.size);
        WARREN_TRY(read(batch.data(), head.size));
        if (head_of(batch).checksum != head.checksum) return Errc::corrupt;
        WARREN_TRY(visitor(batch));
    }
    const u32 expected = sum;
    u32 checksum = 0;
    WARREN_TRY(read(&checksum, sizeof checksum));
    return checksum == expected && std::fgetc(file.get()) == EOF ? Errc::ok : Errc::corrupt;
}

Errc CheckpointFolder::write_manifest(const Manifest& manifest) const {
    return write_whole(manifest_name(),
                       {reinterpret_cast<const char*>(&manifest), sizeof manifest});
}

Errc CheckpointFolder::read_manifest(Manifest& manifest) const {
    std::string bytes;
    const Errc code = read_whole(manifest_name(), bytes);
    if (code != Errc::ok) return code;
    if (bytes.size() != sizeof manifest) return Errc::corrupt;
    std::memcpy(&manifest, bytes.data(), sizeof manifest);
    const bool is_good = manifest.magic == Manifest::expected_magic && manifest.ranks > 0 &&
                         manifest.epoch > 0 && manifest.epoch < ~u64{0};
    return is_good ? Errc::ok : Errc::corrupt;
}

Errc CheckpointFolder::write_command(std::string_view bytes) const {
    return write_whole(path_ + "/command", bytes);
}

Errc CheckpointFolder::read_command(std::string& bytes) const {
    return read_whole(path_ + "/command", bytes);
}

void CheckpointFolder::remove_command() const {
    ::unlink((path_ + "/command").c_str());
}

void CheckpointFolder::remove_ranks(u64 epoch, u32 ranks) const {
    for (u32 rank = 0; rank < ranks; ++rank) {
        ::unlink(rank_name(epoch, rank).c_str());
        ::unlink(queue_name(epoch, rank).c_str());
    }
}

}  // namespace warren::walk

// SPDX-License-Identifier: Apache-2.0
// A file is written under another name, synced, renamed, and its folder synced. It ends with a
// checksum of all before.
#include "walk/checkpoint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/crc32c.hpp"

namespace warren::walk {

namespace {

Errc last_error() {
    return static_cast<Errc>(errno);
}

bool write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    }
    return true;
}

}  // namespace

Errc CheckpointFolder::prepare() const {
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return last_error();
    return has_manifest() ? Errc::exists : Errc::ok;
}

bool CheckpointFolder::has_manifest() const {
    return ::access((path_ + "/manifest").c_str(), F_OK) == 0;
}

void CheckpointFolder::remove(const Manifest& manifest) const {
    ::unlink((path_ + "/manifest").c_str());
    remove_ranks(manifest.epoch, manifest.ranks);
}

std::string CheckpointFolder::rank_name(u64 epoch, u32 rank) const {
    return path_ + "/rank-" + std::to_string(epoch) + "-" + std::to_string(rank);
}

Errc CheckpointFolder::write_whole(const std::string& name, std::string_view bytes) const {
    const std::string temporary = name + ".new";
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return last_error();
    const u32 checksum = crc32c(std::as_bytes(std::span(bytes)));
    const bool is_good =
        write_all(file, bytes) &&
        write_all(file, {reinterpret_cast<const char*>(&checksum), sizeof checksum}) &&
        ::fsync(file) == 0;
    Errc code = is_good ? Errc::ok : last_error();
    if (::close(file) != 0 && code == Errc::ok) code = last_error();
    if (code == Errc::ok && ::rename(temporary.c_str(), name.c_str()) != 0) code = last_error();
    if (code != Errc::ok) {
        ::unlink(temporary.c_str());
        return code;
    }
    const int folder = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return last_error();
    if (::fsync(folder) != 0) code = last_error();
    ::close(folder);
    return code;
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

Errc CheckpointFolder::write_manifest(const Manifest& manifest) const {
    return write_whole(path_ + "/manifest",
                       {reinterpret_cast<const char*>(&manifest), sizeof manifest});
}

Errc CheckpointFolder::read_manifest(Manifest& manifest) const {
    std::string bytes;
    const Errc code = read_whole(path_ + "/manifest", bytes);
    if (code != Errc::ok) return code;
    if (bytes.size() != sizeof manifest) return Errc::corrupt;
    std::memcpy(&manifest, bytes.data(), sizeof manifest);
    return manifest.magic == Manifest::expected_magic && manifest.ranks > 0 ? Errc::ok
                                                                            : Errc::corrupt;
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
    for (u32 rank = 0; rank < ranks; ++rank)
        ::unlink(rank_name(epoch, rank).c_str());
}

}  // namespace warren::walk

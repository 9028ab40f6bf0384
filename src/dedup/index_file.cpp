// SPDX-License-Identifier: Apache-2.0
// The file consists of a header, inputs, entries, and checksums of the entries. The header gives
// the position of each part, so a truncated or extended file is detected before anything else is
// read. Entries are read and written in groups with one checksum each, so an index of any size
// needs the memory of one group.
#include "dedup/index_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/crc32c.hpp"
#include "base/last_error.hpp"
#include "base/whole_io.hpp"

namespace warren::dedup {

namespace {

constexpr char magic[8] = {'W', 'A', 'R', 'R', 'E', 'N', 'I', 'X'};
constexpr u32 version = 1;

struct Header {
    char magic[8];
    u32 version;
    u32 algorithm;
    u64 entries;
    u64 sources;
    u64 sources_bytes;
    u64 next_place;
    SecretMark mark;
    u32 sources_checksum;
    u32 checksum;  // of the bytes before it
};
static_assert(sizeof(Header) == 72 && sizeof(Entry) == 32);

/// Precedes each path.
struct SourceHeader {
    u64 base;
    u64 size;
    u64 path_bytes;
};

u32 checksum_of(const void* at, u64 bytes) {
    return crc32c({static_cast<const std::byte*>(at), bytes});
}

u32 checksum_of(const Header& header) {
    return checksum_of(&header, offsetof(Header, checksum));
}

u64 group_count(u64 entries) {
    return (entries + entries_in_group - 1) / entries_in_group;
}

Errc read_at(int file, u64 place, void* at, u64 bytes) {
    const Result<u64> got = read_fully(file, place, {static_cast<std::byte*>(at), bytes});
    return got && *got != bytes ? Errc::corrupt : got.code();
}

Errc write_at(int file, u64 place, const void* at, u64 bytes) {
    return write_fully(file, place, {static_cast<const std::byte*>(at), bytes});
}

Errc parse_sources(const std::string& text, u64 count, std::vector<Source>& sources) {
    u64 at = 0;
    for (; count > 0; --count) {
        SourceHeader header;
        if (text.size() - at < sizeof header) return Errc::corrupt;
        std::memcpy(&header, text.data() + at, sizeof header);
        at += sizeof header;
        if (text.size() - at < header.path_bytes) return Errc::corrupt;
        sources.push_back({header.base, header.size, text.substr(at, header.path_bytes)});
        at += header.path_bytes;
    }
    return at == text.size() ? Errc::ok : Errc::corrupt;
}

std::string format_sources(const std::vector<Source>& sources) {
    std::string text;
    for (const Source& source : sources) {
        const SourceHeader header{source.base, source.size, source.path.size()};
        text.append(reinterpret_cast<const char*>(&header), sizeof header);
        text += source.path;
    }
    return text;
}

bool is_plausible(const Header& header, u64 file_bytes) {
    if (std::memcmp(header.magic, magic, sizeof magic) != 0 || header.version != version ||
        header.checksum != checksum_of(header) || header.algorithm > 4 ||
        header.entries > file_bytes / sizeof(Entry) || header.sources_bytes > file_bytes) {
        return false;
    }
    return file_bytes == sizeof header + header.sources_bytes + header.entries * sizeof(Entry) +
                             group_count(header.entries) * sizeof(u32);
}

}  // namespace

IndexReader::~IndexReader() {
    if (file_ >= 0) ::close(file_);
}

Errc IndexReader::open(const std::string& path) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) return last_error();
    struct stat status;
    if (::fstat(file_, &status) != 0) return last_error();
    Header header;
    WARREN_TRY(read_at(file_, 0, &header, sizeof header));
    if (!is_plausible(header, static_cast<u64>(status.st_size))) return Errc::corrupt;
    std::string sources(header.sources_bytes, '\0');
    WARREN_TRY(read_at(file_, sizeof header, sources.data(), sources.size()));
    if (checksum_of(sources.data(), sources.size()) != header.sources_checksum) {
        return Errc::corrupt;
    }
    WARREN_TRY(parse_sources(sources, header.sources, head_.sources));
    head_.algorithm = static_cast<hash::Algorithm>(header.algorithm);
    head_.mark = header.mark;
    head_.next_place = header.next_place;
    head_.entries = header.entries;
    entries_at_ = sizeof header + sources.size();
    return Errc::ok;
}

Errc IndexReader::read(std::span<Entry> group) {
    const u64 checksums_at =
        entries_at_ + head_.entries * sizeof(Entry) + done_ / entries_in_group * sizeof(u32);
    WARREN_TRY(
        read_at(file_, entries_at_ + done_ * sizeof(Entry), group.data(), group.size_bytes()));
    u32 checksum = 0;
    WARREN_TRY(read_at(file_, checksums_at, &checksum, sizeof checksum));
    if (checksum != checksum_of(group.data(), group.size_bytes())) return Errc::corrupt;
    for (const Entry& entry : group) {
        if (entry.count == 0 || entry.place >= head_.next_place) return Errc::corrupt;
        if (done_ > 0 && !(last_ < entry.key)) return Errc::corrupt;
        last_ = entry.key;
        ++done_;
    }
    return Errc::ok;
}

IndexWriter::~IndexWriter() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(name_.c_str());
}

Errc IndexWriter::open(const std::string& path, const IndexHead& head) {
    path_ = path;
    name_ = path + ".XXXXXX";
    file_ = ::mkstemp(name_.data());
    if (file_ < 0) return last_error();
    const std::string sources = format_sources(head.sources);
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = version;
    header.algorithm = static_cast<u32>(head.algorithm);
    header.entries = head.entries;
    header.sources = head.sources.size();
    header.sources_bytes = sources.size();
    header.next_place = head.next_place;
    header.mark = head.mark;
    header.sources_checksum = checksum_of(sources.data(), sources.size());
    header.checksum = checksum_of(header);
    entries_at_ = sizeof header + sources.size();
    checksums_at_ = entries_at_ + head.entries * sizeof(Entry);
    group_.reserve(std::min(head.entries, entries_in_group));
    WARREN_TRY(write_at(file_, 0, &header, sizeof header));
    return write_at(file_, sizeof header, sources.data(), sources.size());
}

Errc IndexWriter::add(const Entry& entry) {
    group_.push_back(entry);
    return group_.size() == entries_in_group ? write_group() : Errc::ok;
}

Errc IndexWriter::write_group() {
    const u64 bytes = group_.size() * sizeof(Entry);
    const u32 checksum = checksum_of(group_.data(), bytes);
    WARREN_TRY(write_at(file_, entries_at_, group_.data(), bytes));
    WARREN_TRY(write_at(file_, checksums_at_, &checksum, sizeof checksum));
    entries_at_ += bytes;
    checksums_at_ += sizeof checksum;
    group_.clear();
    return Errc::ok;
}

Errc IndexWriter::finish() {
    if (!group_.empty()) WARREN_TRY(write_group());
    if (::fsync(file_) != 0) return last_error();
    if (::rename(name_.c_str(), path_.c_str()) != 0) return last_error();
    const int written = std::exchange(file_, -1);
    if (::close(written) != 0) return last_error();
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    const int directory =
        ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return Errc::ok;
    const Errc code = ::fsync(directory) == 0 ? Errc::ok : last_error();
    ::close(directory);
    return code;
}

}  // namespace warren::dedup

// SPDX-License-Identifier: Apache-2.0
// Header, inputs, entries, checksums of the entries: each part knows its length from the header, so
// a file that was cut off or grew is found before anything else is looked at.
#include "dedup/index_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/crc32c.hpp"

namespace warren::dedup {

namespace {

constexpr char magic[8] = {'W', 'A', 'R', 'R', 'E', 'N', 'I', 'X'};
constexpr u32 version = 1;
constexpr u64 entries_in_group = 4096;  // that have a checksum together

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

/// What stands before each path.
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

std::vector<u32> group_checksums(const std::vector<Entry>& entries) {
    std::vector<u32> sums;
    for (u64 at = 0; at < entries.size(); at += entries_in_group) {
        const u64 count = std::min<u64>(entries_in_group, entries.size() - at);
        sums.push_back(checksum_of(&entries[at], count * sizeof(Entry)));
    }
    return sums;
}

class Descriptor {
 public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int number() const { return number_; }
    int close() {
        const int result = number_ >= 0 ? ::close(number_) : 0;
        number_ = -1;
        return result;
    }
    Errc read(void* at, u64 bytes) const {
        auto* to = static_cast<char*>(at);
        while (bytes > 0) {
            const ssize_t count = ::read(number_, to, bytes);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) return static_cast<Errc>(errno);
            if (count == 0) return Errc::corrupt;
            to += count;
            bytes -= static_cast<u64>(count);
        }
        return Errc::ok;
    }
    Errc write(const void* at, u64 bytes) const {
        const auto* from = static_cast<const char*>(at);
        while (bytes > 0) {
            const ssize_t count = ::write(number_, from, bytes);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) return static_cast<Errc>(errno);
            from += count;
            bytes -= static_cast<u64>(count);
        }
        return Errc::ok;
    }

 private:
    int number_;
};

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

bool is_sound(const std::vector<Entry>& entries, u64 next_place) {
    for (size_t index = 0; index < entries.size(); ++index) {
        const Entry& entry = entries[index];
        if (entry.count == 0 || entry.place >= next_place) return false;
        if (index > 0 && !(entries[index - 1].key < entry.key)) return false;
    }
    return true;
}

Errc write_all(const Descriptor& file, const IndexContents& contents) {
    const std::string sources = format_sources(contents.sources);
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = version;
    header.algorithm = static_cast<u32>(contents.algorithm);
    header.entries = contents.entries.size();
    header.sources = contents.sources.size();
    header.sources_bytes = sources.size();
    header.next_place = contents.next_place;
    header.mark = contents.mark;
    header.sources_checksum = checksum_of(sources.data(), sources.size());
    header.checksum = checksum_of(header);
    const std::vector<u32> sums = group_checksums(contents.entries);
    WARREN_TRY(file.write(&header, sizeof header));
    WARREN_TRY(file.write(sources.data(), sources.size()));
    WARREN_TRY(file.write(contents.entries.data(), contents.entries.size() * sizeof(Entry)));
    return file.write(sums.data(), sums.size() * sizeof(u32));
}

}  // namespace

Errc read_index_file(const std::string& path, IndexContents& contents) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.number() < 0) return static_cast<Errc>(errno);
    struct stat status;
    if (::fstat(file.number(), &status) != 0) return static_cast<Errc>(errno);
    Header header;
    WARREN_TRY(file.read(&header, sizeof header));
    if (!is_plausible(header, static_cast<u64>(status.st_size))) return Errc::corrupt;
    std::string sources(header.sources_bytes, '\0');
    WARREN_TRY(file.read(sources.data(), sources.size()));
    if (checksum_of(sources.data(), sources.size()) != header.sources_checksum) {
        return Errc::corrupt;
    }
    WARREN_TRY(parse_sources(sources, header.sources, contents.sources));
    contents.entries.resize(header.entries);
    WARREN_TRY(file.read(contents.entries.data(), header.entries * sizeof(Entry)));
    std::vector<u32> sums(group_count(header.entries));
    WARREN_TRY(file.read(sums.data(), sums.size() * sizeof(u32)));
    if (sums != group_checksums(contents.entries) ||
        !is_sound(contents.entries, header.next_place)) {
        return Errc::corrupt;
    }
    contents.algorithm = static_cast<hash::Algorithm>(header.algorithm);
    contents.mark = header.mark;
    contents.next_place = header.next_place;
    return Errc::ok;
}

Errc write_index_file(const std::string& path, const IndexContents& contents) {
    std::string name = path + ".XXXXXX";
    Descriptor file(::mkstemp(name.data()));
    if (file.number() < 0) return static_cast<Errc>(errno);
    Errc code = write_all(file, contents);
    if (code == Errc::ok && ::fsync(file.number()) != 0) code = static_cast<Errc>(errno);
    if (file.close() != 0 && code == Errc::ok) code = static_cast<Errc>(errno);
    if (code == Errc::ok && ::rename(name.c_str(), path.c_str()) != 0)
        code = static_cast<Errc>(errno);
    if (code != Errc::ok) {
        ::unlink(name.c_str());
        return code;
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    const Descriptor directory(
        ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.number() >= 0 && ::fsync(directory.number()) != 0)
        return static_cast<Errc>(errno);
    return Errc::ok;
}

}  // namespace warren::dedup

// SPDX-License-Identifier: Apache-2.0
// The messages of the control socket: frames with a small header and a payload of little-endian
// numbers and counted byte strings, and descriptors of directories or files passed with the header.
//
// Invariant: received data are not trusted. A length beyond its limit ends the connection; a
// decoder that runs out of bytes returns zeros and sets an error flag.
#pragma once

#include <bit>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/fuse/control.hpp"
#include "base/descriptor.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

static_assert(std::endian::native == std::endian::little);

inline constexpr u32 protocol_version = 5;
/// The error for a frame of another protocol version.
inline constexpr auto other_protocol = static_cast<Errc>(EPROTONOSUPPORT);
inline constexpr u32 frame_limit_bytes = 1u << 20;
/// Of one frame. The daemon keeps this many free for each connection.
inline constexpr size_t descriptor_limit = 16;

enum class ControlVerb : u16 {
    info = 1,
    sync,
    remove_tree,
    move,
    rebuild,
    scan,
    remount,
    close,
    usage,
    open_ring,    // the ring follows the answer: SharedRing::hand_over()
    attach_ring,  // directories that commands of the connection's ring may use
    dedupe,       // of two files
    scan_space,   // like scan, with the space that the contents of each file take
    clone,        // of a file or tree, to a name in a directory
    release_device,
    part = 100,  // daemon to client: a part of an answer, more follow
    answer,      // daemon to client: the last part; begins with an error number
};

/// `T` is the type `Record`, const or not.
template <class T, class Record>
concept Is = std::same_as<std::remove_const_t<T>, Record>;

// The fields of each record, in the order in which they are sent.
auto fields_of(Is<Handle> auto& handle) {
    return std::tie(handle.inode, handle.generation);
}
auto fields_of(Is<Attributes> auto& its) {
    return std::tie(its.handle, its.mode, its.links, its.user, its.group, its.device, its.size,
                    its.blocks, its.parent, its.accessed, its.modified, its.changed, its.born);
}
auto fields_of(Is<ScanFilter> auto& filter) {
    return std::tie(filter.depth_max, filter.pattern, filter.folds_case, filter.types,
                    filter.size_min, filter.size_max, filter.modified_min, filter.modified_max);
}
auto fields_of(Is<Scanned> auto& entry) {
    return std::tie(entry.directory, entry.depth, entry.attributes, entry.name);
}
auto fields_of(Is<DirectoryUsage> auto& usage) {
    return std::tie(usage.above, usage.depth, usage.name, usage.entries, usage.blocks, usage.bytes);
}
auto fields_of(Is<Removal> auto& removal) {
    return std::tie(removal.files, removal.directories, removal.blocks);
}
auto fields_of(Is<ClonedTree> auto& cloned) {
    return std::tie(cloned.files, cloned.directories, cloned.failed);
}
auto fields_of(Is<Rebuilt> auto& rebuilt) {
    return std::tie(rebuilt.entries, rebuilt.blocks_before, rebuilt.blocks_after, rebuilt.in_steps);
}
auto fields_of(Is<Deduped> auto& deduped) {
    return std::tie(deduped.bytes, deduped.differs);
}
auto fields_of(Is<Statistics> auto& its) {
    return std::tie(its.blocks, its.blocks_free, its.blocks_available, its.inodes_used,
                    its.inodes_free);
}
auto fields_of(Is<DedupStatistics> auto& its) {
    return std::tie(its.is_default, its.is_on, its.index_bytes, its.looked_up, its.found,
                    its.shared_bytes, its.zero_bytes, its.filled_bytes, its.is_filling);
}

auto fields_of(Is<MountInfo> auto& info) {
    return std::tie(info.image, info.mountpoint, info.label, info.uuid, info.statistics,
                    info.read_only, info.process, info.engine, info.engine_note, info.disk_note,
                    info.requests, info.dedup, info.predictions);
}

class Encoder {
 public:
    Encoder& number(u64 value) {
        char bytes[sizeof(value)];
        std::memcpy(bytes, &value, sizeof(value));
        bytes_.append(bytes, sizeof(value));
        return *this;
    }
    Encoder& text(std::string_view value) {
        number(value.size());
        bytes_ += value;
        return *this;
    }
    /// Appends an integer as a number, a string as a text, a list with its size, and a record field
    /// by field.
    template <class T>
    Encoder& put(const T& value) {
        if constexpr (std::integral<T>) {
            number(static_cast<u64>(value));
        } else if constexpr (std::convertible_to<T, std::string_view>) {
            text(value);
        } else if constexpr (std::same_as<T, std::vector<std::string>>) {
            number(value.size());
            for (const std::string& line : value)
                text(line);
        } else {
            std::apply([this](const auto&... fields) { (put(fields), ...); }, fields_of(value));
        }
        return *this;
    }
    void append(const Encoder& other) { bytes_ += other.bytes_; }
    /// Allocates now, so that appending up to `size_bytes` allocates nothing.
    void reserve(size_t size_bytes) { bytes_.reserve(size_bytes); }
    /// Overwrites the first number.
    void set_first(u64 value) { std::memcpy(bytes_.data(), &value, sizeof(value)); }
    std::string take() { return std::move(bytes_); }
    const std::string& bytes() const { return bytes_; }
    void clear() { bytes_.clear(); }
    size_t size() const { return bytes_.size(); }

 private:
    std::string bytes_;
};

class Decoder {
 public:
    explicit Decoder(std::string_view bytes) : bytes_(bytes) {}

    u64 number() {
        u64 value = 0;
        if (bytes_.size() < sizeof(value)) return failed_ = true, 0;
        std::memcpy(&value, bytes_.data(), sizeof(value));
        bytes_.remove_prefix(sizeof(value));
        return value;
    }
    u32 number32() { return static_cast<u32>(number()); }
    std::string_view text() {
        const u64 size_bytes = number();
        if (size_bytes > bytes_.size()) return failed_ = true, std::string_view();
        const std::string_view value = bytes_.substr(0, size_bytes);
        bytes_.remove_prefix(size_bytes);
        return value;
    }
    /// Takes what Encoder::put() has appended. A string_view points into the bytes.
    template <class T>
    void take(T& value) {
        if constexpr (std::same_as<T, bool>) {
            value = number() != 0;
        } else if constexpr (std::integral<T>) {
            value = static_cast<T>(number());
        } else if constexpr (std::convertible_to<T, std::string_view>) {
            value = text();
        } else if constexpr (std::same_as<T, std::vector<std::string>>) {
            value.clear();
            for (u64 left = number(); left > 0 && good(); --left)
                value.emplace_back(text());
        } else {
            std::apply([this](auto&... fields) { (take(fields), ...); }, fields_of(value));
        }
    }
    bool at_end() const { return bytes_.empty(); }
    /// Whether no read went beyond the end.
    bool good() const { return !failed_; }

 private:
    std::string_view bytes_;
    bool failed_ = false;
};

struct Frame {
    ControlVerb verb = ControlVerb::answer;
    std::string payload;
    std::vector<Descriptor> descriptors;
};

/// Sends a frame; returns the socket's error if the peer is gone or does not read.
Errc send_frame(int socket, ControlVerb verb, std::string_view payload,
                std::span<const int> descriptors = {});

/// Sends the bytes of both strings, with the descriptors attached to the first byte.
Errc send_with(int socket, std::string_view first, std::string_view then,
               std::span<const int> descriptors);

/// Receives a frame; Errc::no_data at a clean end of the connection, Errc::invalid if it is
/// malformed, ETIMEDOUT if more of it is missing `patience` after its first byte.
Errc receive_frame(int socket, Frame& frame, std::chrono::seconds patience = std::chrono::years(1));

/// The file name of the socket of the mount with this device number.
std::string socket_name(u32 device_major, u32 device_minor);

}  // namespace warren::fuse

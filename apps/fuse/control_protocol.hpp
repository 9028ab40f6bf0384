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
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

static_assert(std::endian::native == std::endian::little);

inline constexpr u32 protocol_version = 3;
/// The error for a frame of another protocol version.
inline constexpr auto other_protocol = static_cast<Errc>(EPROTONOSUPPORT);
inline constexpr u32 frame_limit_bytes = 1u << 20;
/// Of one frame. The daemon keeps this many free for each connection.
inline constexpr size_t descriptor_limit = 16;

enum class Verb : u16 {
    info = 1,
    sync,
    remove_tree,
    move,
    rebuild,
    scan,
    remount,
    close,
    usage,
    open_ring,    // the ring follows the answer: RingPool::hand_over()
    attach_ring,  // directories that commands of the connection's ring may use
    dedupe,       // of two files
    scan_space,   // like scan, with the space that the contents of each file take
    clone,        // of a file or tree, to a name in a directory
    release_device,
    part = 100,  // daemon to client: a part of an answer, more follow
    answer,      // daemon to client: the last part; begins with an error number
};

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
    bool at_end() const { return bytes_.empty(); }
    /// Whether no read went beyond the end.
    bool good() const { return !failed_; }

 private:
    std::string_view bytes_;
    bool failed_ = false;
};

void put(Encoder& encoder, const DedupStatistics& statistics);
DedupStatistics take_dedup_statistics(Decoder& decoder);

struct Frame {
    Verb verb = Verb::answer;
    std::string payload;
    std::vector<Descriptor> descriptors;
};

/// Sends a frame; returns the socket's error if the peer is gone or does not read.
Errc send_frame(int socket, Verb verb, std::string_view payload,
                std::span<const int> descriptors = {});

/// Sends the bytes of both strings, with the descriptors attached to the first byte.
Errc send_with(int socket, std::string_view first, std::string_view then,
               std::span<const int> descriptors);

/// Receives a frame; Errc::no_data at a clean end of the connection, Errc::invalid if it is
/// malformed, ETIMEDOUT if more of it is missing `patience` after its first byte.
Errc receive_frame(int socket, Frame& frame, std::chrono::seconds patience = std::chrono::years(1));

void encode(Encoder& encoder, const Attributes& attributes);
Attributes decode_attributes(Decoder& decoder);
void encode(Encoder& encoder, const ScanFilter& filter);
/// The pattern points into the decoded payload.
ScanFilter decode_filter(Decoder& decoder);

/// The file name of the socket of the mount with this device number.
std::string socket_name(u32 device_major, u32 device_minor);

}  // namespace warren::fuse

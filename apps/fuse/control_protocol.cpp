// SPDX-License-Identifier: Apache-2.0
// Frames on a stream socket. The header is 8 bytes: payload length (32 bits), verb (16), protocol
// version (16); descriptors travel with its first byte.
#include "apps/fuse/control_protocol.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace warren::fuse {

namespace {

struct FrameHeader {
    u32 length = 0;
    u16 verb = 0;
    u16 version = 0;
};
static_assert(sizeof(FrameHeader) == 8);

using Clock = std::chrono::steady_clock;
using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * descriptor_limit)>;

Errc socket_error() {
    return static_cast<Errc>(errno == EAGAIN ? ETIMEDOUT : errno);
}

Errc send_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return socket_error();
        bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return Errc::ok;
}

/// Fills `target`; Errc::no_data if the connection ends before.
Errc receive_all(int socket, char* target, size_t size_bytes, Clock::time_point until) {
    size_t got = 0;
    while (got < size_bytes) {
        if (Clock::now() > until) return static_cast<Errc>(ETIMEDOUT);
        const ssize_t part = ::recv(socket, target + got, size_bytes - got, 0);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return socket_error();
        if (part == 0) return Errc::no_data;
        got += static_cast<size_t>(part);
    }
    return Errc::ok;
}

void take_descriptors(msghdr& message, std::vector<Descriptor>& descriptors) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int number = -1;
            std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            descriptors.emplace_back(number);
        }
    }
}

/// Receives the header and the descriptors passed with it; `patience` becomes the time until which
/// the frame must be complete.
Errc receive_header(int socket, FrameHeader& header, std::vector<Descriptor>& descriptors,
                    std::chrono::seconds patience, Clock::time_point& until) {
    alignas(cmsghdr) ControlBuffer control;
    iovec piece{&header, sizeof(header)};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = -1;
    do {
        got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return socket_error();
    take_descriptors(message, descriptors);
    if (got == 0) return Errc::no_data;
    if ((message.msg_flags & MSG_CTRUNC) != 0) return Errc::invalid;
    until = Clock::now() + patience;
    const auto begun = static_cast<size_t>(got);
    return receive_all(socket, reinterpret_cast<char*>(&header) + begun, sizeof(header) - begun,
                       until);
}

}  // namespace

Errc send_frame(int socket, ControlVerb verb, std::string_view payload,
                std::span<const int> descriptors) {
    if (payload.size() > frame_limit_bytes || descriptors.size() > descriptor_limit) {
        return Errc::invalid;
    }
    const FrameHeader header{static_cast<u32>(payload.size()), static_cast<u16>(verb),
                             static_cast<u16>(protocol_version)};
    return send_with(socket, {reinterpret_cast<const char*>(&header), sizeof(header)}, payload,
                     descriptors);
}

Errc send_with(int socket, std::string_view first, std::string_view then,
               std::span<const int> descriptors) {
    alignas(cmsghdr) ControlBuffer control{};
    std::array<iovec, 2> pieces{{{const_cast<char*>(first.data()), first.size()},
                                 {const_cast<char*>(then.data()), then.size()}}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
    }
    ssize_t sent = -1;
    do {
        sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return socket_error();
    const auto done = static_cast<size_t>(sent);
    const size_t of_first = std::min(done, first.size());
    WARREN_TRY(send_all(socket, first.substr(of_first)));
    return send_all(socket, then.substr(done - of_first));
}

Errc receive_frame(int socket, Frame& frame, std::chrono::seconds patience) {
    frame.descriptors.clear();
    FrameHeader header;
    Clock::time_point until;
    WARREN_TRY(receive_header(socket, header, frame.descriptors, patience, until));
    if (header.version != protocol_version) return other_protocol;
    if (header.length > frame_limit_bytes) return Errc::invalid;
    frame.verb = static_cast<ControlVerb>(header.verb);
    frame.payload.resize(header.length);
    const Errc code = receive_all(socket, frame.payload.data(), frame.payload.size(), until);
    return code == Errc::no_data ? Errc::invalid : code;
}

std::string socket_name(u32 device_major, u32 device_minor) {
    return std::to_string(device_major) + ":" + std::to_string(device_minor);
}

}  // namespace warren::fuse

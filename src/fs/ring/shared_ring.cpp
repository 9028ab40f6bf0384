// SPDX-License-Identifier: Apache-2.0
// See fs/ring/shared_ring.hpp.
//
// Invariant: every received descriptor is adopted or closed, also if the message is invalid.
#include "fs/ring/shared_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace warren::ring {
namespace {

constexpr unsigned no_exec_seal = 8;  // MFD_NOEXEC_SEAL of Linux 6.3, which C libraries may lack
constexpr u32 message_magic = 0x52574152;  // "RAWR"
constexpr u32 descriptors_sent = 3;
constexpr u64 page_bytes = 4096;

/// The message that carries the descriptors of ring, doorbell and status page.
struct Message {
    u32 magic;
    u32 cells;
    u64 arena_bytes;
};

/// A non-executable memory file, if the kernel supports that; -1 on failure.
int make_memory_file(const char* name) {
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const int descriptor = memfd_create(name, flags | no_exec_seal);
    if (descriptor >= 0 || errno != EINVAL) return descriptor;
    return memfd_create(name, flags);
}

/// A message and its control data (the descriptors), for sendmsg(2) and recvmsg(2).
struct Envelope {
    /// CMSG_SPACE() rounds up: there may be room for more than is sent.
    static constexpr size_t descriptors_max =
        (CMSG_SPACE(descriptors_sent * sizeof(int)) - CMSG_LEN(0)) / sizeof(int);

    Message message{};
    iovec part{&message, sizeof message};
    alignas(cmsghdr) char control[CMSG_SPACE(descriptors_sent * sizeof(int))] = {};
    msghdr header{nullptr, 0, &part, 1, control, sizeof control, 0};

    cmsghdr* attached() { return CMSG_FIRSTHDR(&header); }
    static bool is_whole(ssize_t bytes) { return bytes == static_cast<ssize_t>(sizeof(Message)); }
};

}  // namespace

Errc SharedMemory::create(const char* name, u64 bytes, Others others) {
    *this = SharedMemory();
    descriptor_ = Descriptor(make_memory_file(name));
    if (!descriptor_) return Errc::no_memory;
    if (ftruncate(descriptor(), static_cast<off_t>(bytes)) != 0) return Errc::no_memory;
    memory_ = map_file(descriptor(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE);
    if (memory_ == nullptr) return Errc::no_memory;
    // A read-only descriptor would not protect the file: its holder can open the file again for
    // writing through /proc/self/fd. The seal refuses all writes except through the mapping above.
    const int unwritable = others == Others::read ? F_SEAL_FUTURE_WRITE : 0;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | unwritable;
    return fcntl(descriptor(), F_ADD_SEALS, seals) == 0 ? Errc::ok : Errc::not_supported;
}

Errc SharedMemory::adopt(int descriptor, u64 bytes, bool may_write) {
    *this = SharedMemory();
    descriptor_ = Descriptor(descriptor);
    struct stat status {};
    const int sealed = fcntl(descriptor, F_GET_SEALS);
    if (sealed < 0 || (sealed & F_SEAL_SHRINK) == 0) return Errc::invalid;
    if (fstat(descriptor, &status) != 0 || static_cast<u64>(status.st_size) < bytes) {
        return Errc::invalid;
    }
    memory_ = map_file(descriptor, bytes, may_write ? PROT_READ | PROT_WRITE : PROT_READ);
    return memory_ == nullptr ? Errc::no_memory : Errc::ok;
}

Errc SharedRing::create(const RingShape& shape, Peer peer, bool is_trusted) {
    if (!shape.is_valid() || shape.cells > cells_max || peer.groups.size() > core::groups_max) {
        return Errc::invalid;
    }
    shape_ = shape;
    peer_ = std::move(peer);
    is_trusted_ = is_trusted;
    WARREN_TRY(doorbell_.create("warren-doorbell", page_bytes, SharedMemory::Others::write));
    WARREN_TRY(status_.create("warren-status", page_bytes, SharedMemory::Others::read));
    return ring_.create("warren-ring", shape.bytes(), SharedMemory::Others::write);
}

Stamp SharedRing::stamp() const {
    Stamp stamp;
    stamp.caller.user = peer_.user;
    stamp.caller.group = peer_.group;
    stamp.caller.groups = peer_.groups.data();
    stamp.caller.group_count = static_cast<u32>(peer_.groups.size());
    stamp.is_trusted = is_trusted_;
    return stamp;
}

Errc SharedRing::hand_over(int socket) const {
    Envelope sent;
    sent.message = {message_magic, shape_.cells, shape_.arena_bytes};
    cmsghdr* attached = sent.attached();
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(descriptors_sent * sizeof(int));
    const int descriptors[descriptors_sent] = {ring_.descriptor(), doorbell_.descriptor(),
                                               status_.descriptor()};
    std::memcpy(CMSG_DATA(attached), descriptors, sizeof descriptors);
    return Envelope::is_whole(sendmsg(socket, &sent.header, MSG_NOSIGNAL)) ? Errc::ok : Errc::io;
}

Errc RemoteRing::receive(int socket) {
    Envelope envelope;
    const Message& message = envelope.message;
    const ssize_t received = recvmsg(socket, &envelope.header, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    const cmsghdr* attached = envelope.attached();
    int descriptors[Envelope::descriptors_max] = {};
    size_t count = 0;
    if (received >= 0 && attached != nullptr && attached->cmsg_level == SOL_SOCKET &&
        attached->cmsg_type == SCM_RIGHTS) {
        count = (attached->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        WARREN_CHECK(count <= Envelope::descriptors_max);
        std::memcpy(descriptors, CMSG_DATA(attached), count * sizeof(int));
    }
    shape_ = {message.cells, message.arena_bytes};
    const bool is_right = Envelope::is_whole(received) && message.magic == message_magic &&
                          count == descriptors_sent && shape_.is_valid() &&
                          shape_.cells <= cells_max;
    if (!is_right) {
        for (size_t i = 0; i < count; ++i)
            close(descriptors[i]);
        return Errc::invalid;
    }
    const Errc outcomes[] = {ring_.adopt(descriptors[0], shape_.bytes(), true),
                             doorbell_.adopt(descriptors[1], sizeof(Doorbell), true),
                             status_.adopt(descriptors[2], sizeof(ServerStatus), false)};
    for (const Errc outcome : outcomes)
        WARREN_TRY(outcome);
    return Errc::ok;
}

}  // namespace warren::ring

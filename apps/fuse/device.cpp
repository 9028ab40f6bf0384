// SPDX-License-Identifier: Apache-2.0
// libfuse reads and answers a request in the same thread, so what the layer sees in a request is
// kept in thread-local variables for the callback.
#include "apps/fuse/device.hpp"

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "apps/fuse/request_wait.hpp"
#include "apps/fuse/statx_reply.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

namespace {

thread_local bool request_clears_privileges = false;
thread_local bool request_is_answered = false;
thread_local bool request_is_statx = false;

// Part of the protocol, but missing from the header of Debian 12.
constexpr u32 direct_io_allow_mmap = 1 << 4;  // in flags2
constexpr u32 first_minor_with_prune = 45;
constexpr i32 notify_prune = 9;

// The first request: its number and the kernel's offers. Written before any thread answers.
std::atomic<u64> first_request{0};
std::atomic<u32> offered_flags{0};
std::atomic<u32> offered_flags2{0};
std::atomic<u32> offered_minor{0};

RequestWait request_wait;
std::atomic<u64> request_count{0};

template <class T>
T copy_of(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
}

void set_opcode(char* bytes, u32 opcode) {
    std::memcpy(bytes + offsetof(fuse_in_header, opcode), &opcode, sizeof(opcode));
}

/// Presents requests that libfuse does not know as others with the same layout: FUSE_TMPFILE as
/// FUSE_CREATE, with the name "/" that no other request has (see unnamed_file); FUSE_STATX as
/// FUSE_GETATTR (see is_statx()).
void present_as_known(char* bytes) {
    const u32 opcode = copy_of<fuse_in_header>(bytes).opcode;
    request_is_statx = opcode == statx_opcode;
    if (opcode == FUSE_TMPFILE) set_opcode(bytes, FUSE_CREATE);
    if (opcode == statx_opcode) set_opcode(bytes, FUSE_GETATTR);
}

void note_offer(u64 unique, const char* body, size_t body_bytes) {
    fuse_init_in offer{};
    std::memcpy(&offer, body, std::min(body_bytes, sizeof(offer)));
    const bool has_more = (offer.flags & FUSE_INIT_EXT) != 0;
    offered_flags.store(offer.flags, std::memory_order_relaxed);
    offered_flags2.store(has_more ? offer.flags2 : 0, std::memory_order_relaxed);
    offered_minor.store(offer.minor, std::memory_order_relaxed);
    first_request.store(unique, std::memory_order_relaxed);
}

void look_at_request(char* bytes, size_t size_bytes) {
    request_clears_privileges = false;
    if (size_bytes < sizeof(fuse_in_header)) return;
    present_as_known(bytes);
    const auto header = copy_of<fuse_in_header>(bytes);
    const char* body = bytes + sizeof(header);
    const size_t body_bytes = size_bytes - sizeof(header);
    if (header.opcode == FUSE_WRITE && body_bytes >= sizeof(fuse_write_in)) {
        request_clears_privileges =
            (copy_of<fuse_write_in>(body).write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
    } else if (header.opcode == FUSE_OPEN && body_bytes >= sizeof(fuse_open_in)) {
        request_clears_privileges =
            (copy_of<fuse_open_in>(body).open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
    } else if (header.opcode == FUSE_CREATE && body_bytes >= sizeof(fuse_create_in)) {
        request_clears_privileges =
            (copy_of<fuse_create_in>(body).open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
    } else if (header.opcode == FUSE_INIT && body_bytes >= offsetof(fuse_init_in, flags) + 4) {
        note_offer(header.unique, body, body_bytes);
    }
}

/// Accepts the kernel's offers in the reply to the first request.
void look_at_reply(const iovec* pieces, int count) {
    if (count < 2 || pieces[1].iov_len < offsetof(fuse_init_out, flags) + 4) return;
    const auto* header = static_cast<const fuse_out_header*>(pieces[0].iov_base);
    if (header->unique == 0 || header->unique != first_request.load(std::memory_order_relaxed)) {
        return;
    }
    first_request.store(0, std::memory_order_relaxed);
    if (header->error != 0) return;
    auto* answer = static_cast<fuse_init_out*>(pieces[1].iov_base);
    answer->flags |= offered_flags.load(std::memory_order_relaxed) & FUSE_HANDLE_KILLPRIV_V2;
    if (takes_direct_opens() && pieces[1].iov_len >= offsetof(fuse_init_out, flags2) + 4) {
        answer->flags |= FUSE_INIT_EXT;
        answer->flags2 |= direct_io_allow_mmap;
    }
}

ssize_t read_request(int device, void* buffer, size_t size_bytes, void*) {
    request_wait.before_read(device);
    const ssize_t got = ::read(device, buffer, size_bytes);
    if (got > 0) {
        request_wait.after_read();
        request_count.fetch_add(1, std::memory_order_relaxed);
        take_request_over();
        look_at_request(static_cast<char*>(buffer), static_cast<size_t>(got));
    }
    return got;
}

ssize_t write_reply(int device, iovec* pieces, int count, void*) {
    const bool is_notice = static_cast<const fuse_out_header*>(pieces[0].iov_base)->unique == 0;
    if (!is_notice) request_is_answered = true;
    look_at_reply(pieces, count);
    const ssize_t written = ::writev(device, pieces, count);
    // A notification about something the kernel does not cache is not an error; ENOENT keeps
    // libfuse silent.
    if (written < 0 && is_notice) errno = ENOENT;
    return written;
}

}  // namespace

bool install_device_layer(fuse_session* session) {
    fuse_custom_io layer{};
    layer.read = read_request;
    layer.writev = write_reply;
    return fuse_session_custom_io(session, &layer, fuse_session_fd(session)) == 0;
}

bool clears_privileges() {
    return request_clears_privileges;
}

bool is_statx() {
    return request_is_statx;
}

bool has_answered() {
    return request_is_answered;
}

void take_request_over() {
    request_is_answered = false;
}

bool takes_direct_opens() {
    return (offered_flags2.load(std::memory_order_relaxed) & direct_io_allow_mmap) != 0 &&
           offered_minor.load(std::memory_order_relaxed) >= first_minor_with_prune;
}

void make_kernel_forget(fuse_session* session, u64 node) {
    struct {
        fuse_out_header header;
        u32 count;
        u32 padding;
        u64 spare;
        u64 node;
    } notice{{sizeof(notice), notify_prune, 0}, 1, 0, 0, node};
    // Errors are expected: the kernel may have forgotten the node, or the connection may be gone.
    static_cast<void>(!::write(fuse_session_fd(session), &notice, sizeof(notice)));
}

u64 requests_read() {
    return request_count.load(std::memory_order_relaxed);
}

}  // namespace warren::fuse

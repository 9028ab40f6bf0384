// SPDX-License-Identifier: Apache-2.0
// One message for a question, the mount point, and one for an answer: the device that was flushed.
#include "apps/fuse/flusher.hpp"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace warren::fuse {

namespace {

struct Device {
    u32 major = 0;
    u32 minor = 0;
    bool is_flushed = false;
};

/// Flushes the file system at `path`.
Device flush_place(const char* path) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    Descriptor place(::open(path, flags | O_NOATIME));
    if (!place) place = Descriptor(::open(path, flags));
    struct statx facts {};
    Device device;
    if (place &&
        ::statx(place.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &facts) == 0) {
        device = {facts.stx_dev_major, facts.stx_dev_minor, ::syncfs(place.get()) == 0};
    }
    return device;
}

/// Leaves everything but the socket to the daemon, so that nothing stays open because of us.
void let_go(int socket) {
    if (const int nowhere = ::open("/dev/null", O_RDWR); nowhere >= 0) {
        for (int stream = 0; stream < 3; ++stream)
            ::dup2(nowhere, stream);
    }
    if (socket > 3) ::close_range(3, static_cast<unsigned>(socket) - 1, 0);
    ::close_range(static_cast<unsigned>(socket) + 1, UINT_MAX, 0);
    if (::chdir("/") != 0) std::_Exit(EXIT_FAILURE);
}

[[noreturn]] void answer(int socket) {
    ::prctl(PR_SET_NAME, "warren-flush");
    let_go(socket);
    char path[PATH_MAX];
    while (true) {
        const ssize_t got = ::recv(socket, path, sizeof(path) - 1, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) std::_Exit(EXIT_SUCCESS);
        path[got] = '\0';
        const Device device = flush_place(path);
        if (::send(socket, &device, sizeof(device), MSG_NOSIGNAL) < 0) std::_Exit(EXIT_SUCCESS);
    }
}

}  // namespace

Flusher::Flusher() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    Descriptor theirs(ends[1]);
    socket_ = Descriptor(ends[0]);
    // A child of a child: whoever started the mount in the foreground has no further child then.
    const pid_t child = ::fork();
    if (child == 0) {
        if (::fork() == 0) answer(theirs.get());
        std::_Exit(EXIT_SUCCESS);
    }
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Flushed Flusher::flush(const std::string& mountpoint, u32 device_major, u32 device_minor) {
    const std::lock_guard lock(mutex_);
    Device device;
    ssize_t got = -1;
    if (::send(socket_.get(), mountpoint.data(), mountpoint.size(), MSG_NOSIGNAL) > 0) {
        do {
            got = ::recv(socket_.get(), &device, sizeof(device), 0);
        } while (got < 0 && errno == EINTR);
    }
    if (stopped_.load(std::memory_order_relaxed)) return Flushed::ended;
    const bool is_ours = device.major == device_major && device.minor == device_minor;
    return got == sizeof(device) && is_ours && device.is_flushed ? Flushed::done
                                                                 : Flushed::elsewhere;
}

void Flusher::stop() {
    stopped_.store(true, std::memory_order_relaxed);
    // The one who waits in recv() wakes up; who comes later finds the flag or a dead socket.
    if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace warren::fuse

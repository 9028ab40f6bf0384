// SPDX-License-Identifier: Apache-2.0
// The socket is in /run/warren or, for a user who mounts without being root, in that user's runtime
// directory.
#include "apps/fuse/control_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace warren::fuse {

namespace {

/// Creates the directory if necessary; false and `error` if it is unsafe.
bool make_directory(const std::string& directory, std::string& error) {
    constexpr mode_t mode = 0755;
    const bool is_new = ::mkdir(directory.c_str(), mode) == 0;
    // The umask of the user who mounts must not hide the sockets from other users.
    if (is_new ? ::chmod(directory.c_str(), mode) != 0 : errno != EEXIST) {
        error = directory + ": " + std::strerror(errno);
        return false;
    }
    struct stat facts {};
    if (::lstat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
        facts.st_uid != ::geteuid() || (facts.st_mode & 022) != 0) {
        error = directory + ": not a directory that only its owner can change";
        return false;
    }
    return true;
}

/// The lock of the directory, held until the descriptor is closed; empty, with errno, on failure.
/// It is a file of its own, because others could lock the directory, which they may read.
Descriptor take_lock(const std::string& directory) {
    const std::string path = directory + "/lock";
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    while (lock && ::flock(lock.get(), LOCK_EX) != 0) {
        if (errno != EINTR) return Descriptor();
    }
    return lock;
}

}  // namespace

std::string socket_directory() {
    if (::geteuid() == 0) return "/run/warren";
    const char* own = std::getenv("XDG_RUNTIME_DIR");
    return (own != nullptr && own[0] == '/' ? std::string(own)
                                            : "/run/user/" + std::to_string(::geteuid())) +
           "/warren";
}

Descriptor ControlSocket::listen(const std::string& directory, const std::string& name, mode_t mode,
                                 const std::function<bool()>& is_mounted, std::string& error) {
    const std::string path = directory + "/" + name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        error = path + ": too long for a socket";
        return Descriptor();
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (!make_directory(directory, error)) return Descriptor();
    const Descriptor lock = take_lock(directory);
    if (!lock) {
        error = directory + "/lock: " + std::strerror(errno);
        return Descriptor();
    }
    // Otherwise the socket of this name may be that of the next mount with the number.
    if (!is_mounted()) {
        error = path + ": the mount is gone";
        return Descriptor();
    }
    ::unlink(path.c_str());  // left by an earlier mount with this number
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    Descriptor file;
    if (socket && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
        file = Descriptor(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!file || ::chmod(path.c_str(), mode) != 0 || ::listen(socket.get(), 64) != 0) {
        error = path + ": " + std::strerror(errno);
        return Descriptor();
    }
    directory_ = directory;
    path_ = path;
    file_ = std::move(file);
    return socket;
}

void ControlSocket::remove() {
    if (!file_) return;
    struct stat found {};
    struct stat own {};
    const Descriptor lock = take_lock(directory_);  // without it, the next mount removes the name
    if (lock && ::lstat(path_.c_str(), &found) == 0 && ::fstat(file_.get(), &own) == 0 &&
        found.st_ino == own.st_ino && found.st_dev == own.st_dev) {
        ::unlink(path_.c_str());
    }
    file_.close();
}

}  // namespace warren::fuse

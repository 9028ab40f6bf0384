// SPDX-License-Identifier: Apache-2.0
// fchmodat2(2) exists since Linux 6.6; on older kernels the mode is changed through the /proc path
// of a descriptor that was opened without following links.
#include "apps/warren/place.hpp"

#include <sys/syscall.h>

#include <cerrno>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

namespace warren::cli {

std::string path_for_system(const Place& place) {
    if (place.directory == AT_FDCWD) return place.name;
    return "/proc/self/fd/" + std::to_string(place.directory) + "/" + place.name;
}

int change_mode(const Place& place, u32 mode) {
    if (place.file >= 0) return ::fchmod(place.file, mode) == 0 ? 0 : errno;
    if (::syscall(SYS_fchmodat2, place.directory, place.name, mode, AT_SYMLINK_NOFOLLOW) == 0) {
        return 0;
    }
    if (errno != ENOSYS && errno != EPERM) return errno;
    const Descriptor file(::openat(place.directory, place.name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) return errno;
    if (S_ISLNK(status.st_mode)) return EOPNOTSUPP;
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    return ::chmod(path.c_str(), mode) == 0 ? 0 : errno;
}

int look_at(const Place& place, struct stat& status) {
    return ::fstatat(place.directory, place.name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

}  // namespace warren::cli

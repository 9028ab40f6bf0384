// SPDX-License-Identifier: Apache-2.0
// Uses O_PATH descriptors only: closing one that is open for reading or writing makes the kernel
// send a request to the daemon, which is the process that closes it.
#include "apps/fuse/control_place.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "apps/fuse/mount_table.hpp"
#include "base/last_error.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

namespace {

/// Reads what the kernel knows about a directory, without a request to any file system.
Errc look_at(int directory, struct statx& facts) {
    return ::statx(directory, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE,
                   &facts) == 0
               ? Errc::ok
               : last_error();
}

}  // namespace

Errc open_directory(const std::string& path, int more_flags, Place& place) {
    place.directory =
        Descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | more_flags));
    if (!place.directory) return last_error();
    return look_at(place.directory.get(), place.facts);
}

bool split(std::string path, std::string& parent, std::string& name) {
    while (path.size() > 1 && path.ends_with('/'))
        path.pop_back();
    const size_t slash = path.rfind('/');
    name = slash == std::string::npos ? path : path.substr(slash + 1);
    parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    return !name.empty() && name != "." && name != "..";
}

Errc open_parent(const std::string& path, Place& place) {
    std::string parent;
    if (!split(path, parent, place.name)) return Errc::invalid;
    return open_directory(parent, 0, place);
}

std::string resolved_path(const Place& place) {
    std::array<char, PATH_MAX> path;
    const std::string link = "/proc/self/fd/" + std::to_string(place.directory.get());
    const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
    if (length <= 0 || static_cast<size_t>(length) == path.size()) return "";
    std::string full(path.data(), static_cast<size_t>(length));
    return full.ends_with('/') ? full : full + "/";
}

Errc flush(int directory) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    Descriptor readable(::openat(directory, ".", flags));
    struct statx wanted {};
    if (!readable && look_at(directory, wanted) == Errc::ok) {
        for (const MountedPlace& place : read_mount_table()) {
            struct statx found {};
            if (place.device_major != wanted.stx_dev_major ||
                place.device_minor != wanted.stx_dev_minor) {
                continue;
            }
            readable = Descriptor(::open(place.mountpoint.c_str(), flags));
            if (readable && look_at(readable.get(), found) == Errc::ok &&
                found.stx_dev_major == wanted.stx_dev_major &&
                found.stx_dev_minor == wanted.stx_dev_minor) {
                break;
            }
            readable.close();
        }
    }
    if (!readable) return Errc::access;
    return ::syncfs(readable.get()) == 0 ? Errc::ok : last_error();
}

Errc show(int file, u64 offset, u64 length, Descriptor& shown) {
    constexpr unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const auto bytes = static_cast<off_t>(std::min(length, dedupe_bytes_max));
    if (::sync_file_range(file, static_cast<off_t>(offset), bytes, all) != 0) return last_error();
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    shown = Descriptor(::open(link.c_str(), O_PATH | O_CLOEXEC));
    return shown ? Errc::ok : last_error();
}

Errc check_nothing_mounted(const Place& place, const std::string& name) {
    const std::string directory = resolved_path(place);
    if (directory.empty()) return Errc::ok;
    return is_mounted_below(directory + name, mount_of(place.directory.get())) ? Errc::busy
                                                                               : Errc::ok;
}

}  // namespace warren::fuse

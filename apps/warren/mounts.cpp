// SPDX-License-Identifier: Apache-2.0
// Among mounts with the same device number, the last one in the table counts.
#include "apps/warren/mounts.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "apps/fuse/mount_table.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

std::string real_path(const std::string& path) {
    char* resolved = ::realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return path;
    std::string result = resolved;
    std::free(resolved);
    return result;
}

}  // namespace

bool is_on_warren_mount(const std::string& path) {
    struct statx found {};
    if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE,
                &found) != 0) {
        return false;
    }
    bool result = false;
    for (const fuse::MountedPlace& place : fuse::read_mount_table()) {
        if (place.device_major != found.stx_dev_major ||
            place.device_minor != found.stx_dev_minor) {
            continue;
        }
        result = place.is_warren();
    }
    return result;
}

bool is_warren_mount_point(const std::string& path) {
    const std::string wanted = real_path(path);
    return std::ranges::any_of(fuse::read_mount_table(), [&](const fuse::MountedPlace& place) {
        return place.is_warren() && place.mountpoint == wanted;
    });
}

bool is_of_volume(const std::string& text) {
    const Location location = parse_location(text);
    return location.in_image() || is_on_warren_mount(location.path) || looks_like_volume(text);
}

std::string mount_point_of_image(const std::string& image) {
    const std::string wanted = real_path(image);
    std::string point;
    for (const fuse::MountedPlace& place : fuse::read_mount_table()) {
        if (place.is_warren() && real_path(place.source) == wanted) point = place.mountpoint;
    }
    return point;
}

std::optional<fuse::ControlConnection> connect_for(const std::string& path,
                                                   std::string_view attempt,
                                                   std::string_view other_tool) {
    std::optional<fuse::ControlConnection> connection = fuse::ControlConnection::for_path(path);
    if (connection) return connection;
    struct statx found {};
    // Ask the daemon: the kernel's cache may still answer for a daemon that was killed.
    constexpr int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC;
    if (::statx(AT_FDCWD, path.c_str(), flags, STATX_TYPE, &found) != 0) {
        const int error = errno;
        complain({attempt, ": ", reason(static_cast<Errc>(error)),
                  error == ENOTCONN ? "; the daemon of this mount has ended: unmount, mount again"
                                    : missing_hint(parse_location(path))});
    } else if (is_on_warren_mount(path)) {
        complain({attempt,
                  ": the daemon of this mount cannot be reached (is its socket in "
                  "/run/warren gone, or was it mounted by another user?)"});
    } else if (looks_like_volume(path)) {
        complain({attempt, ": it is an image; write ", quote(path + ":/"), " for what is in it"});
    } else {
        const std::string hint =
            other_tool.empty() ? ""
                               : " (for other file systems use " + std::string(other_tool) + ")";
        complain({attempt, ": not on a Warren volume", hint});
    }
    return {};
}

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// Unmounting is finished when the volume is closed, not when the kernel has unmounted: a check or a
// copy of the image directly afterwards must see all changes. The daemon reports the close over its
// control socket.
#include "apps/fuse/unmount.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "apps/fuse/connection.hpp"
#include "apps/fuse/mount.hpp"
#include "base/last_error.hpp"
#include "base/quote.hpp"

namespace warren::fuse {

namespace {

constexpr int patience_ms = 10'000;
constexpr int hearing_patience_ms = 5000;
constexpr int forced_patience_ms = 500;  // with a daemon that may be stopped
constexpr int leaving_patience_ms = 2000;

Errc run_fusermount(const std::string& mountpoint, Detach how) {
    std::string words[] = {"fusermount3", "-u", "--", mountpoint};
    if (how == Detach::lazily) words[1] = "-uz";
    if (how == Detach::forcibly) words[1] = "-uq";  // quiet: it is tried repeatedly
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                         nullptr};
    pid_t child = 0;
    const int code = ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments, environ);
    if (code != 0) return static_cast<Errc>(code);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return last_error();
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Errc::ok : Errc::io;
}

std::string resolved(const std::filesystem::path& path) {
    const std::unique_ptr<char, decltype(&std::free)> full(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    return full ? std::string(full.get()) : path.string();
}

/// The topmost mount on `place`, or of the image with that name.
std::optional<MountedPlace> find_by_name(const std::string& place) {
    if (auto mounted = top_mount_on(place)) return mounted;
    const std::vector<MountedPlace> table = read_mount_table();
    for (auto mounted = table.rbegin(); mounted != table.rend(); ++mounted) {
        if (mounted->is_warren() && mounted->source == place) return *mounted;
    }
    return std::nullopt;
}

/// Finds the mount that is meant. A path is first compared as written, then with links resolved,
/// and the last component's link is followed only at the end: that may send a request to a daemon
/// that does not answer.
std::optional<MountedPlace> find_mount(const std::string& place, bool may_ask) {
    std::error_code error;
    std::filesystem::path path = std::filesystem::absolute(place, error).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // a slash at the end
    if (auto mounted = find_by_name(path.string())) return mounted;
    path = std::filesystem::path(resolved(path.parent_path())) / path.filename();
    if (auto mounted = find_by_name(path.string())) return mounted;
    return may_ask ? find_by_name(resolved(place)) : std::nullopt;
}

int complain(const std::string& program, const std::string& place, const std::string& reason) {
    std::fprintf(stderr, "%s: %s: %s\n", program.c_str(), quoted_if_needed(place).c_str(),
                 reason.c_str());
    return exit_mount_failed;
}

std::string why(Errc code) {
    switch (code) {
        case Errc::exists:
            return "another mount covers it; unmount that one first";
        case Errc::busy:
            return "target is busy; close the files and leave the directories in it, or use -l";
        case Errc::not_permitted:
            return "must be superuser to unmount";
        case Errc::io:
            return "fusermount3 failed; the mount is in use, or another user's";
        default:
            return std::strerror(static_cast<int>(code));
    }
}

/// Whether the volume is mounted elsewhere too, so that it stays open. To be called while it is
/// mounted: afterwards the kernel may give its device number to another file system.
bool is_mounted_elsewhere(const MountedPlace& mounted) {
    return std::ranges::any_of(read_mount_table(), [&](const MountedPlace& other) {
        return other.same_device(mounted) && other.number != mounted.number;
    });
}

}  // namespace

Errc detach(const MountedPlace& mounted, Detach how) {
    // umount2(2) takes a path, and none leads to a mount that is covered.
    if (is_covered(mounted)) return Errc::exists;
    const std::string& mountpoint = mounted.mountpoint;
    const int flags = UMOUNT_NOFOLLOW | (how == Detach::lazily ? MNT_DETACH : 0) |
                      (how == Detach::forcibly ? MNT_FORCE : 0);
    if (::umount2(mountpoint.c_str(), flags) == 0) return Errc::ok;
    const auto code = last_error();
    return code == Errc::not_permitted && ::geteuid() != 0 ? run_fusermount(mountpoint, how) : code;
}

namespace {

/// Aborts the connection, and unmounts once the processes that waited for it have left.
Errc cut_and_detach(const MountedPlace& mounted, bool lazy) {
    if (is_covered(mounted)) return Errc::exists;
    if (::geteuid() != 0) {  // fusermount3 cannot abort it
        const Descriptor file = open_connection_file(mounted.device_minor, "abort", O_WRONLY);
        static_cast<void>(file && ::write(file.get(), "1", 1) == 1);
    }
    const auto may_be_in_use = [](Errc code) {  // fusermount3 does not report the reason
        return code == Errc::busy || code == Errc::io;
    };
    Errc code = detach(mounted, Detach::forcibly);
    for (int waited_ms = 0; may_be_in_use(code) && !lazy && waited_ms < leaving_patience_ms;
         waited_ms += 20) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        code = detach(mounted, Detach::forcibly);
    }
    return may_be_in_use(code) && lazy ? detach(mounted, Detach::lazily) : code;
}

}  // namespace

int unmount_volume(const std::string& program, const std::string& place, UnmountOptions options) {
    const auto [lazy, force] = options;
    const auto mounted = find_mount(place, !force);
    if (!mounted) return complain(program, place, "not mounted");
    if (!mounted->is_warren()) {
        return complain(program, place, "a " + mounted->type + " mount, not a Warren volume");
    }
    auto daemon = ControlConnection::for_device(mounted->device_major, mounted->device_minor);
    const bool stays_open = is_mounted_elsewhere(*mounted);
    const int hearing_ms = force ? forced_patience_ms : hearing_patience_ms;
    const bool is_heard = !daemon || daemon->ask_for_close(hearing_ms) == Errc::ok;
    const Errc code = force ? cut_and_detach(*mounted, lazy)
                            : detach(*mounted, lazy ? Detach::lazily : Detach::when_unused);
    if (code != Errc::ok) return complain(program, place, why(code));
    if (!daemon || lazy || stays_open || (force && !is_heard)) return EXIT_SUCCESS;
    if (!is_heard) {
        std::fprintf(stderr,
                     "%s: %s: unmounted, but its daemon did not answer: the volume is closed when "
                     "that process has ended\n",
                     program.c_str(), place.c_str());
        return EXIT_SUCCESS;
    }
    const Errc closed = daemon->wait_until_closed(patience_ms);
    if (closed == Errc::busy) {
        std::fprintf(stderr, "%s: %s: unmounted, but still in use in another namespace\n",
                     program.c_str(), place.c_str());
        return EXIT_SUCCESS;
    }
    if (closed != Errc::ok) {
        return complain(program, mounted->source,
                        std::string("could not be closed cleanly: ") +
                            std::strerror(static_cast<int>(closed)) +
                            "; check it with fsck before using it again");
    }
    return EXIT_SUCCESS;
}

}  // namespace warren::fuse

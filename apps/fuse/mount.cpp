// SPDX-License-Identifier: Apache-2.0
// `mount` returns when the mount works: the daemon is a child that reports over a pipe; the parent
// waits for the report and exits with the reported code.
#include "apps/fuse/mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "apps/fuse/daemon.hpp"
#include "apps/fuse/log.hpp"
#include "apps/fuse/mount_flags.hpp"
#include "apps/fuse/mount_table.hpp"
#include "apps/fuse/unmount.hpp"
#include "base/last_error.hpp"
#include "base/quote.hpp"

namespace warren::fuse {

namespace {

int complain(const MountOptions& options, const std::string& text) {
    std::fprintf(stderr, "%s: %s\n", options.program.c_str(), text.c_str());
    return exit_mount_failed;
}

/// The absolute path without symbolic links; empty, with errno, if the file does not exist.
std::string resolved(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> full(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    return full ? std::string(full.get()) : std::string();
}

/// Removes a mount whose daemon was killed: it answers no request, and a mount on top of it would
/// only hide it.
void remove_dead_mount(const std::string& mountpoint) {
    struct statx facts {};
    if (::statx(AT_FDCWD, mountpoint.c_str(), AT_STATX_FORCE_SYNC, STATX_TYPE, &facts) == 0 ||
        errno != ENOTCONN) {
        return;
    }
    const auto top = top_mount_on(mountpoint);
    // If the user may not unmount it, the mount that follows reports the reason.
    if (top && top->is_warren()) {
        static_cast<void>(detach(*top, Detach::lazily));
    }
}

/// Makes both paths absolute. Returns an error text, or "".
std::string resolve_paths(MountOptions& options) {
    const std::string image = resolved(options.image);
    if (image.empty()) return quoted_if_needed(options.image) + ": " + std::strerror(errno);
    const std::string mountpoint = resolved(options.mountpoint);
    if (mountpoint.empty()) {
        return "mount point " + quoted_if_needed(options.mountpoint) + ": " + std::strerror(errno) +
               (errno == ENOENT ? "; make the directory first" : "");
    }
    remove_dead_mount(mountpoint);
    struct stat facts {};
    if (::stat(mountpoint.c_str(), &facts) != 0)
        return quoted_if_needed(mountpoint) + ": " + std::strerror(errno);
    if (!S_ISDIR(facts.st_mode))
        return "mount point " + quoted_if_needed(mountpoint) + ": not a directory";
    options.image = image;
    options.mountpoint = mountpoint;
    return "";
}

int mount_in_foreground(const MountOptions& options) {
    set_log_target(LogTarget::stderr_stream);
    return serve_mount(options, [&](int, const std::string& text) {
        if (!text.empty()) complain(options, text);
    });
}

/// Detaches standard input and output from the terminal.
void leave_terminal() {
    const Descriptor nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nowhere) return;
    for (int stream = 0; stream < 3; ++stream)
        ::dup2(nowhere.get(), stream);
}

/// The process of the daemon. Reports "code text" to the parent and never returns.
[[noreturn]] void become_daemon(const MountOptions& options, Descriptor to_parent) {
    ::setsid();
    if (::chdir("/") != 0) std::_Exit(exit_mount_failed);
    set_log_target(LogTarget::system);
    const int code = serve_mount(options, [&](int exit_code, const std::string& text) {
        const std::string report = static_cast<char>(exit_code) + text;
        leave_terminal();
        // A parent that has exited does not need the report.
        static_cast<void>(!::write(to_parent.get(), report.data(), report.size()));
        to_parent.close();
    });
    std::_Exit(code);
}

std::string read_all(int descriptor) {
    std::string bytes;
    char piece[512];
    while (true) {
        const ssize_t got = ::read(descriptor, piece, sizeof(piece));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return bytes;
        bytes.append(piece, static_cast<size_t>(got));
    }
}

int mount_in_background(const MountOptions& options) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return complain(options, std::strerror(errno));
    Descriptor from_child(ends[0]), to_parent(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return complain(options, std::string("no new process: ") + std::strerror(errno));
    if (child == 0) {
        from_child.close();
        become_daemon(options, std::move(to_parent));
    }
    to_parent.close();
    const std::string report = read_all(from_child.get());
    if (report.empty()) return complain(options, "the mount's daemon ended before it was ready");
    if (report.size() > 1) complain(options, report.substr(1));
    return report[0];
}

int remount(const MountOptions& options) {
    const std::string mountpoint = resolved(options.mountpoint);
    const auto mounted = top_mount_on(mountpoint);
    if (!mounted || !mounted->is_warren()) {
        return complain(
            options, quoted_if_needed(options.mountpoint) + ": no Warren volume is mounted here");
    }
    auto daemon = ControlConnection::for_path(mountpoint);
    if (!daemon)
        return complain(options,
                        quoted_if_needed(mountpoint) + ": the mount's daemon is out of reach");
    const unsigned long flags = changed_mount_flags(current_mount_flags(mountpoint), options);
    const bool read_only = (flags & MS_RDONLY) != 0;
    auto tell_kernel = [&]() -> Errc {
        return ::mount(nullptr, mountpoint.c_str(), nullptr, MS_REMOUNT | flags, nullptr) == 0
                   ? Errc::ok
                   : last_error();
    };
    auto tell_daemon = [&] { return daemon->remount(read_only, options.access_times); };
    // Whichever of kernel and daemon starts to refuse writes must do so first.
    Errc code = read_only ? tell_kernel() : tell_daemon();
    if (code == Errc::ok) code = read_only ? tell_daemon() : tell_kernel();
    if (code == Errc::ok) return EXIT_SUCCESS;
    std::string text =
        quoted_if_needed(mountpoint) + ": not remounted: " + std::strerror(static_cast<int>(code));
    if (code == Errc::busy && read_only) text += "; files are open for writing";
    return complain(options, text);
}

}  // namespace

int mount_volume(const MountOptions& asked) {
    MountOptions options = asked;
    if (options.remount) return remount(options);
    if (const std::string error = resolve_paths(options); !error.empty()) {
        return complain(options, error);
    }
    return options.foreground ? mount_in_foreground(options) : mount_in_background(options);
}

}  // namespace warren::fuse

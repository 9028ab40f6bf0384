// SPDX-License-Identifier: Apache-2.0
// fusectl has a directory for each connection, named by its device number. It is often not mounted,
// for instance in containers.
#include "apps/fuse/connection.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace warren::fuse {

namespace {

/// Mounts a kernel file system by fsmount(2), invisible to other processes.
Descriptor mount_privately(const char* type) {
#ifdef SYS_fsopen
    constexpr int close_on_exec = 1;  // for both calls
    constexpr int create = 6;         // FSCONFIG_CMD_CREATE
    const Descriptor context(static_cast<int>(::syscall(SYS_fsopen, type, close_on_exec)));
    if (!context) return Descriptor();
    if (::syscall(SYS_fsconfig, context.get(), create, nullptr, nullptr, 0) != 0) {
        return Descriptor();
    }
    return Descriptor(static_cast<int>(::syscall(SYS_fsmount, context.get(), close_on_exec, 0)));
#else
    static_cast<void>(type);
    errno = ENOSYS;
    return Descriptor();
#endif
}

}  // namespace

Descriptor open_connection_file(u32 device_minor, const char* file_name, int flags) {
    const std::string name = std::to_string(device_minor) + "/" + file_name;
    const std::string path = "/sys/fs/fuse/connections/" + name;
    Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
    if (file) return file;
    const Descriptor control = mount_privately("fusectl");
    if (!control) return Descriptor();
    return Descriptor(::openat(control.get(), name.c_str(), flags | O_CLOEXEC));
}

}  // namespace warren::fuse

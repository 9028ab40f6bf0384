// SPDX-License-Identifier: Apache-2.0
// statvfs(3) and mount(2) number the same flags differently.
#include "apps/fuse/mount_flags.hpp"

#include <sys/mount.h>
#include <sys/statvfs.h>

#include <array>

namespace warren::fuse {

namespace {

struct FlagBits {
    unsigned long seen;  // in the result of statvfs(3)
    unsigned long set;   // for mount(2)
};
constexpr std::array<FlagBits, 8> flag_bits{{{ST_RDONLY, MS_RDONLY},
                                             {ST_NOSUID, MS_NOSUID},
                                             {ST_NODEV, MS_NODEV},
                                             {ST_NOEXEC, MS_NOEXEC},
                                             {ST_SYNCHRONOUS, MS_SYNCHRONOUS},
                                             {ST_NOATIME, MS_NOATIME},
                                             {ST_NODIRATIME, MS_NODIRATIME},
                                             {ST_RELATIME, MS_RELATIME}}};

struct NamedFlag {
    const char* name;
    unsigned long flag;
    bool on;
};
constexpr std::array<NamedFlag, 11> named_flags{{{"dev", MS_NODEV, false},
                                                 {"nodev", MS_NODEV, true},
                                                 {"suid", MS_NOSUID, false},
                                                 {"nosuid", MS_NOSUID, true},
                                                 {"exec", MS_NOEXEC, false},
                                                 {"noexec", MS_NOEXEC, true},
                                                 {"sync", MS_SYNCHRONOUS, true},
                                                 {"async", MS_SYNCHRONOUS, false},
                                                 {"dirsync", MS_DIRSYNC, true},
                                                 {"nodiratime", MS_NODIRATIME, true},
                                                 {"diratime", MS_NODIRATIME, false}}};

}  // namespace

unsigned long current_mount_flags(const std::string& mountpoint) {
    struct statvfs seen {};
    unsigned long flags = 0;
    if (::statvfs(mountpoint.c_str(), &seen) != 0) return flags;
    for (const FlagBits& bits : flag_bits) {
        if ((seen.f_flag & bits.seen) != 0) flags |= bits.set;
    }
    return flags;
}

unsigned long changed_mount_flags(unsigned long flags, const MountOptions& options) {
    if (options.read_only) flags |= MS_RDONLY;
    if (options.writable) flags &= ~static_cast<unsigned long>(MS_RDONLY);
    for (const std::string& name : options.flags) {
        for (const NamedFlag& named : named_flags) {
            if (name == named.name) flags = named.on ? flags | named.flag : flags & ~named.flag;
        }
    }
    if (options.access_times != AccessTimes::unchanged) {
        flags &= ~static_cast<unsigned long>(MS_NOATIME | MS_RELATIME | MS_STRICTATIME);
        flags |= options.access_times == AccessTimes::never    ? MS_NOATIME
                 : options.access_times == AccessTimes::always ? MS_STRICTATIME
                                                               : MS_RELATIME;
    }
    return flags;
}

}  // namespace warren::fuse

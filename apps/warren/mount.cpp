// SPDX-License-Identifier: Apache-2.0
// Mounts a volume. As mount.warren it is what mount(8) calls for a line of fstab: there -f means
// that nothing is to be done.
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "apps/fuse/mount.hpp"
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/engine_choice.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr std::array<Option, 9> options{{
    {'f', "foreground", nullptr, "stay in the foreground; ^C unmounts"},
    {'o', nullptr, "OPTIONS",
     "options with commas between them: ro, rw, remount, noatime,\n"
     "relatime, strictatime, nodev, nosuid, noexec, sync, dirsync,\n"
     "allow_other, commit=SECONDS, threads=NUMBER,\n"
     "engine=auto|cpu|cuda, disk=auto|plain|ring|direct,\n"
     "data=ordered|journal|writeback, errors=remount-ro|continue,\n"
     "meta_buffer=SIZE, file_buffer=SIZE,\n"
     "and those that only mount(8) reads"},
    {'r', "read-only", nullptr, "the same as -o ro"},
    {'w', "rw", nullptr, "the same as -o rw"},
    {'n', "no-mtab", nullptr, nullptr},
    {'s', "sloppy", nullptr, nullptr},
    {'v', "verbose", nullptr, nullptr},
    {'t', "types", "TYPE", nullptr},
    {'N', "namespace", "NAMESPACE", nullptr},
}};

constexpr Page page{
    .usage = "[-f] [-o OPTIONS] IMAGE DIRECTORY\n-o remount[,OPTIONS] [IMAGE] DIRECTORY",
    .summary = "Mount the volume in IMAGE (a file or block device) on DIRECTORY.",
    .options = options,
    .notes =
        "Returns when the mount works; the daemon that serves it goes on in the background\n"
        "and ends when the volume is unmounted. Changes are made durable every 5 seconds\n"
        "(commit=), by fsync(2), and by `warren sync` and `warren umount`. The engine `auto` is\n"
        "cuda if there is a GPU that this program can use, else cpu; `warren info` says which.\n"
        "The disk is reached by plain reads and writes, by io_uring through the page cache (ring)\n"
        "or past it (direct); auto measures which is fastest, and `warren info` says what it saw.\n"
        "What a power cut may do to contents that were not synced: ordered leaves each part of a\n"
        "file old or new, journal all files as of one moment, writeback may show what lay on the\n"
        "disk before. file_buffer= sets how much of files' contents the daemon keeps in memory\n"
        "besides the kernel's page cache (0: nothing), meta_buffer= how much of the metadata\n"
        "(0: all), with engine=cuda in the GPU's memory. SIZE is in bytes or has K, M or G behind "
        "it.\n"
        "A volume that is full says so (ENOSPC) when the kernel writes back what it has taken:\n"
        "to fsync(2), or else to close(2); write(2) itself says it with -o sync or O_SYNC.\n"
        "What is damaged answers EIO, and all else goes on: the system's log names the inode,\n"
        "`warren fsck` the path. A write that the disk refuses is told to who wrote, by write(2),\n"
        "fsync(2) or close(2), and to the system's log; from then on nothing changes any more\n"
        "(EROFS) and reads go on. With errors=continue that is so after a commit that fails;\n"
        "contents that are refused are told to who wrote, and all else goes on (not on a GPU,\n"
        "which takes no more changes then).",
    .examples =
        "  warren mount disk.img /mnt\n"
        "  warren mount -o ro,noexec disk.img /mnt\n"
        "  warren mount -o remount,rw /mnt\n",
    .opens_images = true,
};

bool is_helper_of_mount() {
    return program().find("mount.") != std::string::npos;
}

/// Fills in what the command line says. False, after a complaint, if it makes no sense.
bool read_options(const Arguments& parsed, fuse::MountOptions& mount) {
    for (const auto& [id, value] : parsed.options) {
        std::string text = value;
        if (id == 'r') text = "ro";
        if (id == 'w') text = "rw";
        if (id != 'o' && id != 'r' && id != 'w') continue;
        if (std::string error; !fuse::add_mount_options(text, mount, error)) {
            usage_error(page, {error});
            return false;
        }
    }
    return true;
}

}  // namespace

int command_mount(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(page, arguments);
    if (parsed.done) return parsed.exit_code;
    fuse::MountOptions mount;
    mount.program = program();
    mount.allow_other = ::geteuid() == 0;
    mount.engine = chosen_engine();
    if (!read_options(parsed, mount)) return page.usage_exit;
    const std::vector<std::string>& operands = parsed.operands;
    const size_t fewest = mount.remount ? 1 : 2;
    if (operands.size() < fewest) {
        return usage_error(page, {operands.empty() ? "missing operand" : "missing mount point"});
    }
    if (operands.size() > 2) return usage_error(page, {"extra operand ", quote(operands[2])});
    mount.mountpoint = operands.back();
    if (operands.size() == 2) mount.image = operands.front();
    if (!mount.remount) warn_of_exposure(mount.image);
    if (parsed.has('f')) {
        if (is_helper_of_mount()) return EXIT_SUCCESS;
        mount.foreground = true;
    }
    return fuse::mount_volume(mount);
}

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// warren mount: mounts a volume. Called as mount.warren it behaves as mount(8) expects for a line
// of fstab: there -f means to do nothing.
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "apps/fuse/mount.hpp"
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/engine_choice.hpp"
#include "apps/warren/host_walk.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

std::vector<Section> mount_sections() {
    return {{"Mount options", fuse::mount_option_words()}};
}

/// The words that are valid after -o, with all values of options that have a fixed set.
std::vector<std::string_view> mount_choices() {
    static const std::vector<std::string> words = [] {
        std::vector<std::string> all;
        for (const OptionWord& word : fuse::mount_option_words()) {
            if (word.help == nullptr) continue;
            if (word.choices == nullptr) all.emplace_back(word.name);
            if (word.choices == nullptr) continue;
            for (const std::string_view value : word.choices())
                all.push_back(std::string(word.name) += value);
        }
        return all;
    }();
    return {words.begin(), words.end()};
}

constexpr std::array<Option, 9> mount_options{{
    {'f', "foreground", nullptr,
     "stay in the foreground; ^C unmounts. When called as mount.warren: do nothing (--fake of "
     "mount(8))"},
    {'o', nullptr, "OPTIONS", "comma-separated mount options; see below", mount_choices},
    {'r', "read-only", nullptr, "the same as -o ro"},
    {'w', "rw", nullptr, "the same as -o rw"},
    {'n', "no-mtab", nullptr, nullptr},
    {'s', "sloppy", nullptr, nullptr},
    {'v', "verbose", nullptr, nullptr},
    {'t', "types", "TYPE", nullptr},
    {'N', "namespace", "NAMESPACE", nullptr},
}};

constexpr ExitCode mount_exits[] = {
    {"0", "success"},
    {"1", "the command line was invalid"},
    {"32", "the mount failed"},
};

constexpr Page mount_page{
    .usage = "[-f] [-o OPTIONS] IMAGE DIRECTORY\n-o remount[,OPTIONS] [IMAGE] DIRECTORY",
    .summary = "Mount the volume in IMAGE (a file or block device) on DIRECTORY.",
    .options = mount_options,
    .sections = mount_sections,
    .notes =
        "The command returns when the mount works. The daemon that serves it continues in the "
        "background and ends when the volume is unmounted. Changes are made durable every 5 "
        "seconds (commit=), by fsync(2), and by `warren sync` and `warren umount`.\n\n"
        "The engine auto is that of the CPU, with a GPU beside it if there is one. The GPU keeps a "
        "copy of the metadata; find, du, `warren rm -r`, changes of many files and the packing of "
        "directories use it where that is predicted to be faster. The GPU is taken once such a "
        "command has been slower on the CPU, with at most a quarter of its free memory; "
        "device_memory= takes that much at once. Find and du need 400M or more beside the copy. "
        "What finds no room there runs on the CPU. If the GPU fails, the CPU does it all and the "
        "system's log says why. `warren info` shows how many commands ran where; `warren device "
        "release` frees the memory. The engine cuda runs everything on the GPU, for programs that "
        "run there.\n\n"
        "disk= selects how the image is accessed: by plain reads and writes (plain), or by "
        "io_uring through the page cache (ring) or bypassing it (direct). auto measures which "
        "is fastest; `warren info` shows the result.\n\n"
        "data= selects what a power cut may do to contents that were not synced. With "
        "ordered, each part of a file is either old or new; with journal, all files are as of "
        "one moment; with writeback, a file may show old contents of the disk.\n\n"
        "file_buffer= sets how much file contents the daemon keeps in memory in addition to "
        "the kernel's page cache, and meta_buffer= how much metadata; with engine=cuda that "
        "is memory of the GPU. SIZE is in bytes, or has the suffix K, M or G.\n\n"
        "If a volume is full, the error ENOSPC occurs when the kernel writes back cached "
        "data: it is returned by fsync(2), or else by close(2). With -o sync or O_SYNC, "
        "write(2) itself returns it.\n\n"
        "Access to a damaged object returns EIO; the rest of the volume stays usable. The "
        "system's log names the inode, `warren fsck` the path.\n\n"
        "If the disk refuses a write, write(2), fsync(2) or close(2) returns the error, and "
        "it is logged in the system's log. From then on the volume is read-only (EROFS). With "
        "errors=continue the volume becomes read-only only when a commit fails; with a GPU it "
        "does so after any refused write.",
    .exits = mount_exits,
    .examples =
        "  warren mount disk.img /mnt\n"
        "  warren mount -o ro,noexec disk.img /mnt\n"
        "  warren mount -o remount,rw /mnt",
    .see_also = "fstab(5), mount(8)",
    .opens_images = true,
};

bool is_helper_of_mount() {
    return program().find("mount.") != std::string::npos;
}

/// Takes the options of the command line. Returns false, after an error message, if they are
/// invalid.
bool read_options(const Arguments& parsed, fuse::MountOptions& mount) {
    for (const auto& [id, value] : parsed.options) {
        std::string text = value;
        if (id == 'r') text = "ro";
        if (id == 'w') text = "rw";
        if (id != 'o' && id != 'r' && id != 'w') continue;
        if (std::string error; !fuse::add_mount_options(text, mount, error)) {
            usage_error(mount_page, {error});
            return false;
        }
    }
    return true;
}

int command_mount(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(mount_page, arguments);
    if (parsed.done) return parsed.exit_code;
    fuse::MountOptions mount;
    mount.program = program();
    mount.allow_other = ::geteuid() == 0;
    mount.engine = chosen_engine();
    if (!read_options(parsed, mount)) return mount_page.usage_exit;
    const std::vector<std::string>& operands = parsed.operands;
    const size_t fewest = mount.remount ? 1 : 2;
    if (operands.size() < fewest) {
        return usage_error(mount_page,
                           {operands.empty() ? "missing operand" : "missing mount point"});
    }
    if (operands.size() > 2) return usage_error(mount_page, {"extra operand ", quote(operands[2])});
    mount.mountpoint = operands.back();
    if (operands.size() == 2) mount.image = operands.front();
    if (!mount.remount) warn_of_exposure(mount.image);
    if (parsed.has('f')) {
        if (is_helper_of_mount()) return EXIT_SUCCESS;
        mount.foreground = true;
    }
    raise_open_limit();  // for what the peers of the control socket send
    return fuse::mount_volume(mount);
}

}  // namespace

const Command mount_command = {"mount",    "mount a volume",
                               mount_page, command_mount,
                               false,      {"mount.warren", "mount.fuse.warren"}};

}  // namespace warren::cli

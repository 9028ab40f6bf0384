// SPDX-License-Identifier: Apache-2.0
// Unmounts volumes and returns when they are closed, so that the images can be checked or copied.
#include <array>
#include <cstdlib>

#include "apps/fuse/mount.hpp"
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr std::array<Option, 6> umount_options{{
    {'l', "lazy", nullptr, "unmount now, close the volume when it is no longer in use"},
    {'f', "force", nullptr,
     "abort the connection to the daemon first, even if it does not answer: unsynced changes "
     "may be lost, and open files fail"},
    {'n', "no-mtab", nullptr, nullptr},
    {'r', "read-only", nullptr, nullptr},
    {'v', "verbose", nullptr, nullptr},
    {'t', "types", "TYPE", nullptr},
}};

constexpr ExitCode umount_exits[] = {
    {"0", "all are unmounted and closed"},
    {"1", "the command line was invalid"},
    {"32", "a volume could not be unmounted or closed"},
};

constexpr Page umount_page{
    .usage = "[-fl] DIRECTORY|IMAGE...",
    .summary = "Unmount volumes and wait until they are closed.",
    .options = umount_options,
    .exits = umount_exits,
    .examples =
        "  warren umount /mnt\n"
        "  warren umount -fl /mnt   even if the daemon is stopped or hangs",
    .see_also = "umount(8)",
};

int command_umount(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(umount_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return umount_page.usage_exit;
    int exit_code = EXIT_SUCCESS;
    for (const std::string& place : parsed.operands) {
        const int code = fuse::unmount_volume(program(), place, {parsed.has('l'), parsed.has('f')});
        if (code != EXIT_SUCCESS) exit_code = code;
    }
    return exit_code;
}

}  // namespace

const Command umount_command = {"umount",    "unmount a volume and wait until it is closed",
                                umount_page, command_umount,
                                false,       {"umount.warren", "umount.fuse.warren"}};

}  // namespace warren::cli

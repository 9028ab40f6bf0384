// SPDX-License-Identifier: Apache-2.0
// Each command of the program `warren` is one function, in a file of the same name.
//
// Invariant: a command gets its own name as arguments[0], prints results on stdout and everything
// else on stderr, and returns the exit code of the program.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/arguments.hpp"

namespace warren::cli {

struct Command {
    const char* name;
    const char* purpose;  // one line
    const Page& page;
    int (*run)(std::span<char* const> arguments);
    bool spans_ranks = false;  // the processes started by mpirun share the work
    /// The names under which mount(8), mkfs(8) and similar programs call it.
    std::array<const char*, 2> helpers = {};
};

extern const Command cat_command, chmod_command, chown_command, chunk_command, clone_command,
    cmp_command, cp_command, dedup_command, device_command, doctor_command, du_command,
    find_command, fsck_command, hash_command, info_command, ln_command, ls_command, mkdir_command,
    mkfs_command, mount_command, mv_command, rebuild_command, resize_command, rm_command,
    similar_command, stat_command, sync_command, touch_command, umount_command, walk_command;

struct CommandGroup {
    const char* heading;
    std::vector<const Command*> commands;
};

/// All commands, in the order and groups of the help page.
const std::vector<CommandGroup>& command_groups();

/// The help page of the program itself, and the id of its option --manual.
extern const Page program_page;
inline constexpr int manual_option = 256;

/// The command with that name, or null.
const Command* command_named(std::string_view name);

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// Every command of the program `warren` is one function in one file of its name.
//
// Invariant: a command gets its own name as arguments[0], prints results on stdout and everything
// else on stderr, and answers the exit code of the program.
#pragma once

#include <span>

namespace warren::cli {

int command_cat(std::span<char* const> arguments);
int command_chmod(std::span<char* const> arguments);
int command_chown(std::span<char* const> arguments);
int command_chunk(std::span<char* const> arguments);
int command_cmp(std::span<char* const> arguments);
int command_cp(std::span<char* const> arguments);
int command_dedup(std::span<char* const> arguments);
int command_doctor(std::span<char* const> arguments);
int command_du(std::span<char* const> arguments);
int command_find(std::span<char* const> arguments);
int command_fsck(std::span<char* const> arguments);
int command_hash(std::span<char* const> arguments);
int command_info(std::span<char* const> arguments);
int command_ln(std::span<char* const> arguments);
int command_ls(std::span<char* const> arguments);
int command_mkdir(std::span<char* const> arguments);
int command_mkfs(std::span<char* const> arguments);
int command_mount(std::span<char* const> arguments);
int command_mv(std::span<char* const> arguments);
int command_rebuild(std::span<char* const> arguments);
int command_resize(std::span<char* const> arguments);
int command_rm(std::span<char* const> arguments);
int command_similar(std::span<char* const> arguments);
int command_stat(std::span<char* const> arguments);
int command_sync(std::span<char* const> arguments);
int command_touch(std::span<char* const> arguments);
int command_umount(std::span<char* const> arguments);
int command_walk(std::span<char* const> arguments);

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// Checkpoints of the tools that walk the host's files: the options for them, and which command a
// checkpoint belongs to.
//
// Invariant: before a walk with checkpoints begins, its folder has a file `command` with the words
// of the command and the plan derived from them (for a copy, its targets). Another command line
// cannot resume it. The file is removed when the command has finished.
#pragma once

#include <string>
#include <vector>

#include "apps/warren/host_walk.hpp"

namespace warren::cli {

/// Rows for the option table of a command that can be resumed.
#define WARREN_CHECKPOINT_OPTIONS                                           \
    {::warren::cli::checkpoint_option, "checkpoint", "FOLDER",              \
     "save checkpoints in FOLDER, every 30 s and when interrupted"},        \
        {::warren::cli::checkpoint_seconds_option, "checkpoint-every", "N", \
         "save them every N seconds"},                                      \
    {                                                                       \
        ::warren::cli::resume_option, "resume", nullptr,                    \
            "resume from the checkpoint, with any number of ranks"          \
    }

/// Checks the checkpoint options that take_all() has read and, if there are any, catches signals.
/// Returns false, after an error message, if they are invalid. `trees` is the number of trees to
/// walk.
bool take_checkpoint(const Page& page, const Arguments& parsed, size_t trees, WalkSetup& setup);
/// The same for a command whose words are not parsed by getopt.
bool take_checkpoint(const std::vector<std::string>& words, size_t trees, WalkSetup& setup);

/// Called by all ranks before the walk. Stores `plan`, or replaces it by the plan of the run that
/// is resumed. Returns false, after an error message, if the folder has a checkpoint that must not
/// be used.
bool begin_checkpoints(WalkSetup& setup, std::string& plan);
bool begin_checkpoints(WalkSetup& setup);

/// Called when the command has finished without an interrupt. `is_cut`: the walk ended before it
/// saw everything, and is not to be resumed.
void end_checkpoints(const WalkSetup& setup, bool is_cut = false);

/// Reports that a walk was interrupted and how to resume it; returns the exit code of the command.
int exit_interrupted(const WalkSetup& setup);

}  // namespace warren::cli

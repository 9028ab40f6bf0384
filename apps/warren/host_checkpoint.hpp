// SPDX-License-Identifier: Apache-2.0
// Checkpoints of the tools that walk the host's files: the options that ask for them, and whose
// they are.
//
// Invariant: before a walk with checkpoints begins, its folder has a file `command`: the words of
// the command, and what it has decided by them (where a copy goes). Nothing is taken up again by
// other words; the file goes when the command is done.
#pragma once

#include <string>
#include <vector>

#include "apps/warren/host_walk.hpp"

namespace warren::cli {

/// Rows for the table of options of a command that can be taken up again.
#define WARREN_CHECKPOINT_OPTIONS                                           \
    {::warren::cli::checkpoint_option, "checkpoint", "FOLDER",              \
     "save checkpoints in FOLDER, every 30 s and when told to stop"},       \
        {::warren::cli::checkpoint_seconds_option, "checkpoint-every", "N", \
         "save them every N seconds"},                                      \
    {                                                                       \
        ::warren::cli::resume_option, "resume", nullptr,                    \
            "go on from the checkpoint, with any number of ranks"           \
    }

/// Checks what take_all() has taken of checkpoints and, with them, minds signals; false, with a
/// complaint, if it makes no sense. `trees`: how many are walked.
bool take_checkpoint(const Page& page, const Arguments& parsed, size_t trees, WalkSetup& setup);
/// The same for a command whose words `getopt` does not read.
bool take_checkpoint(const std::vector<std::string>& words, size_t trees, WalkSetup& setup);

/// Before the walk, by all ranks. Keeps `plan`, or replaces it by that of the run that this one
/// goes on from; false, with a complaint, if the folder has a checkpoint that is not to be used.
bool begin_checkpoints(WalkSetup& setup, std::string& plan);
bool begin_checkpoints(WalkSetup& setup);

/// When the command is done, and not interrupted. `is_cut`: it has ended its walk before all was
/// seen, and nothing is to be taken up again.
void end_checkpoints(const WalkSetup& setup, bool is_cut = false);

/// Says that a walk was interrupted and how it goes on; the exit code of the command.
int exit_interrupted(const WalkSetup& setup);

}  // namespace warren::cli

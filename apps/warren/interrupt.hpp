// SPDX-License-Identifier: Apache-2.0
// Handles Ctrl-C during a long copy into an image: the command stops at the next file, closes the
// volume and reports it, so that nothing since the last commit is lost.
//
// Invariant: only the first signal is caught; a second one ends the process at once.
#pragma once

namespace warren::cli {

/// From now on SIGINT, SIGTERM and SIGHUP ask the command to stop.
void catch_interrupts();

/// Whether one of these signals has arrived.
bool interrupted();

/// The exit code of an interrupted command: 128 plus the signal number.
int interrupted_exit();

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// Ctrl-C in the middle of a long copy into an image: the command stops at the next file, closes the
// volume and says so, instead of leaving everything since the last commit behind.
//
// Invariant: only the first signal is caught; a second one ends the process at once.
#pragma once

namespace warren::cli {

/// From now on SIGINT, SIGTERM and SIGHUP ask the command to stop.
void catch_interrupts();

/// Whether it was asked to stop.
bool interrupted();

/// The exit code of a command that was: 128 and the signal's number.
int interrupted_exit();

}  // namespace warren::cli

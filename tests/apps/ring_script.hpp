// SPDX-License-Identifier: Apache-2.0
// Single commands of a ring, for Python tests that check what the kernel shows afterwards.
#pragma once

#include <string>

namespace warren {

/// Runs the commands that arrive as lines on standard input through a ring of the mount that `path`
/// lies on, and prints a line for each: the error number and, without an error, mode, links, user,
/// group, size and inode of the command's object.
///
///   look DIRECTORY NAME                  create DIRECTORY NAME MODE
///   unlink DIRECTORY NAME                rmdir DIRECTORY NAME
///   chmod DIRECTORY NAME MODE            link DIRECTORY NAME DIRECTORY NEW
///   rename DIRECTORY NAME DIRECTORY NEW HOW, a number of enum class Rename
///
/// Modes are octal.
int run_script(const std::string& path);

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Small steps that many tests of volumes need, with unlimited rights, and invariants that a volume
// keeps whatever is done to it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "warren/volume.hpp"

namespace warren {

/// A caller without permission checks.
inline const Caller anybody{.check = false};

Handle make_directory(Volume& volume, Handle in, const std::string& name, u32 mode = 040777);
Handle make_file(Volume& volume, Handle in, const std::string& name);

/// Follows `path` ('/'-separated) from the root. Symbolic links are not followed.
Result<Attributes> resolve(Volume& volume, const Caller& caller, std::string_view path);

/// Fills the volume with files of bytes '#' and unlinks them, so that a new file that exposes old
/// data shows them. The unlink is not committed.
void leave_foreign_bytes(Volume& volume);

/// Names and inode numbers in a directory; fails the test if one is listed twice.
std::map<std::string, u64> list_names(Volume& volume, Handle directory);

/// Walks the volume and fails the test unless link counts, parents and inode numbers agree with the
/// names, and the volume's count of inodes is right. Requires: no other thread uses the volume.
void expect_counts_agree(Volume& volume);

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// Trees of files that walks are measured on.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::bench {

/// One directory of a sixth of the files, 8 chains of 60 directories, the rest in 2,518 directories
/// hung at random into each other; files of 0 to 4,000 bytes.
void make_mixed_tree(const std::string& root, u64 files);
/// One directory of empty files.
void make_large_directory(const std::string& root, u64 files);
/// Half of the directories hang on one arm that grows longer, the others on the root; `files` empty
/// files in each.
void make_skewed_tree(const std::string& root, u64 directories, u64 files);

}  // namespace warren::bench

// SPDX-License-Identifier: Apache-2.0
// The trees that are removed and walked, made equal in a directory of the host and in a volume.
//
// Invariant: a tree lists directories before what they hold, depth first.
#pragma once

#include <string>
#include <vector>

#include "warren/volume.hpp"

namespace warren::bench {

struct Node {
    u32 depth = 0;  // 0: in the directory that the tree is made in
    std::string name;
    bool is_directory = false;
};

using Tree = std::vector<Node>;

/// The root of a tree is one directory of this name, or one file.
Tree single_file(const std::string& name);
/// `count` nested directories.
Tree deep_tree(const std::string& name, u32 count);
/// `parents` directories with `entries` each: empty files, or directories.
Tree flat_tree(const std::string& name, u32 parents, u32 entries, bool entries_are_directories);
/// One directory with `count` directories.
Tree wide_tree(const std::string& name, u32 count);

/// Makes the tree below a directory of the host.
void make_on_host(const std::string& folder, const Tree& tree);
/// Makes the tree in a directory of a volume.
void make_in_volume(Volume& volume, Handle folder, const Tree& tree);

/// Removes a tree of the host by the smallest possible loop: openat, getdents, unlinkat.
void remove_by_loop(const std::string& folder, const std::string& name);

}  // namespace warren::bench

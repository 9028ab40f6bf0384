// SPDX-License-Identifier: Apache-2.0
// Whether a volume holds what the model holds: names, attributes, hard links, contents, from the
// root down. Only calls of Volume are used, with unlimited rights.
#pragma once

#include <string>

#include "tests/support/model_file_system.hpp"
#include "warren/volume.hpp"

namespace warren {

struct CompareOptions {
    bool contents = true;
    bool times = true;
};

/// What differs, one line each, some lines at most; empty if nothing does. `root` is the directory
/// that the model's root stands for, that of the volume if none is given.
std::string compare_trees(Volume& volume, const ModelFileSystem& model,
                          const CompareOptions& options = {}, Handle root = {});

/// What differs between the attributes of an inode and what the model knows of it. The parent is
/// not compared.
std::string compare_attributes(const Attributes& found, const ModelInode& inode, bool times);

/// What differs in the contents of a regular file.
std::string compare_contents(Volume& volume, Handle file, const ModelInode& inode);

/// What differs in the extended attributes.
std::string compare_extended(Volume& volume, Handle handle, const ModelInode& inode);

/// Bytes as text for people, cut where they get long.
std::string printable_name(std::string_view bytes);

}  // namespace warren

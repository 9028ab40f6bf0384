// SPDX-License-Identifier: Apache-2.0
// Compares a volume with the model: names, attributes, hard links and contents, from the root down.
// Uses only calls of Volume, with unlimited rights.
#pragma once

#include <string>

#include "tests/support/model_file_system.hpp"
#include "warren/volume.hpp"

namespace warren {

struct CompareOptions {
    bool contents = true;
    bool times = true;
};

/// Returns the differences, one a line, a limited number of lines; "" if there are none. `root` is
/// the directory that corresponds to the model's root, by default the volume's root.
std::string compare_trees(Volume& volume, const ModelFileSystem& model,
                          const CompareOptions& options = {}, Handle root = {});

/// The differences between the attributes of an inode and the model. The parent is not compared.
std::string compare_attributes(const Attributes& found, const ModelInode& inode, bool times);

/// The differences in the contents of a regular file.
std::string compare_contents(Volume& volume, Handle file, const ModelInode& inode);

/// The differences in the extended attributes.
std::string compare_extended(Volume& volume, Handle handle, const ModelInode& inode);

/// Bytes as printable text, truncated if long.
std::string printable_name(std::string_view bytes);

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// The rows of the table that compares engines with kernel file systems: what each is called, and
// how much there is of it.
//
// Invariant: a row means the same work wherever it is done; its label is made here and nowhere
// else.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::bench {

/// The amount of work.
struct Scale {
    u64 runs = 5;
    u64 large_runs = 5;      // of rows with a million files
    u64 directories = 1000;  // of such a row, with as many files in each:
    u64 files_each = 1000;
    u64 singles = 1000;  // calls one at a time

    u64 files() const { return directories * files_each; }
};

inline constexpr u64 batch_items = 1000;  // of the smaller batches

/// 1,234,567
std::string with_commas(u64 number);

namespace rows {

inline const std::string unlink_one = "delete files, one call each";
inline const std::string unlink_many = "delete 1,000 files of one directory, by name";
inline const std::string create_one = "create files, one call each";
inline const std::string stat_one = "stat by name, one call each";
inline const std::string rename_one = "rename files, one call each";
inline const std::string deep = "Deep: delete 1,000 directories in each other";
inline const std::string wide = "Wide: delete 1,000 directories in one";
inline const std::string mix = "Mix: delete 100 x 100 directories";
inline const std::string move_shared = "move 1,000 files, one shared directory";
inline const std::string move_own = "move 1,000 files, each in its own directory";
inline std::string create(const Scale& scale) {
    return "create " + with_commas(scale.files()) + " files";
}
inline std::string remove(const Scale& scale) {
    return "delete " + with_commas(scale.files()) + " files";
}
inline std::string move(const Scale& scale) {
    return "move " + with_commas(scale.files()) + " files";
}
inline std::string find(const Scale& scale) {
    return "find over " + with_commas(scale.files()) + " files";
}
inline std::string find_few(const Scale& scale) {
    return "find -name '*7*7*7*' over " + with_commas(scale.files()) + " files";
}
inline std::string du(const Scale& scale) {
    return "du over " + with_commas(scale.files()) + " files";
}
inline std::string stat(const Scale& scale) {
    return "stat " + with_commas(scale.files()) + " files by name";
}
inline std::string clone(const Scale& scale) {
    return "clone " + with_commas(scale.files()) + " files of 4 KiB";
}
inline std::string clone_again(const Scale& scale) {
    return clone(scale) + ", once more";
}
inline std::string rebuild(const Scale& scale) {
    return "pack a directory of " + with_commas(scale.files()) + " names, as many gone";
}

}  // namespace rows

}  // namespace warren::bench

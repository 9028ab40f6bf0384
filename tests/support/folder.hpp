// SPDX-License-Identifier: Apache-2.0
// Trees on the host's file system for the tests of the walk: generated from a random seed, listed
// by a plain loop over readdir(3) as the reference for the walk, and removed at the end.
#pragma once

#include <string>
#include <vector>

#include "base/random.hpp"
#include "warren/types.hpp"

namespace warren::walk {

/// A new empty directory below $TMPDIR (else in memory), removed with its contents.
class Folder {
 public:
    Folder();
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    void make_directory(const std::string& name) const;
    void make_file(const std::string& name, u64 size_bytes = 0) const;
    void make_link(const std::string& target, const std::string& name) const;
    /// A chain of `depth` directories called `step` below `name`, however long its path is.
    void make_chain(const std::string& name, const std::string& step, u32 depth) const;
    /// About `entries` of all kinds: directories, files, links (also dangling and in cycles),
    /// additional names of files, pipes; with any bytes in their names.
    void fill(Random& random, u32 entries) const;

 private:
    std::string path_;
};

struct Listed {
    std::string path;
    char type;  // as find -type
    u64 size;
    bool operator==(const Listed&) const = default;
    auto operator<=>(const Listed&) const = default;
};

/// All at and below `root`, sorted; links are not followed.
std::vector<Listed> list_tree(const std::string& root);

}  // namespace warren::walk

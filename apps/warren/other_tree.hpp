// SPDX-License-Identifier: Apache-2.0
// A second tree beside the one that is walked: the target of a copy, the other side of a
// comparison. Its directories are found by what stands behind the root in the path of the walk's.
//
// Invariant: below the root no symbolic link is followed and ".." is not taken, whatever anybody
// does to the tree meanwhile. Nothing is remembered but one open directory for each thread, so it
// does not matter which thread or process asks.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/per_thread.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

/// What stands behind `root` and a slash in the path of something below it; "" for the root.
std::string_view below_root(std::string_view path, std::string_view root);

/// The path without its last name and the slash before that; "" if it has but one.
std::string_view without_last(std::string_view below);

class OtherTree {
 public:
    explicit OtherTree(std::string root) : root_(std::move(root)) {}

    const std::string& root() const { return root_; }
    /// The directory `below` the root (names with slashes between, "" is the root itself). It stays
    /// open until the calling thread asks for another one. -1 with errno if there is none.
    int directory(std::string_view below);
    /// The same, opened for the caller to close.
    Descriptor open(std::string_view below);
    /// Whether this is the directory at the root.
    bool is_root(u64 device, u64 inode);

 private:
    struct Recent {
        std::string below;
        Descriptor directory;
    };

    int root_descriptor();

    std::string root_;
    std::mutex mutex_;  // root_directory_
    Descriptor root_directory_;
    u64 root_device_ = 0;
    u64 root_inode_ = 0;
    PerThread<Recent> recent_;
};

/// The names in the open directory without "." and ".."; 0 or errno.
int list_names(int directory, std::vector<std::string>& names);

}  // namespace warren::cli

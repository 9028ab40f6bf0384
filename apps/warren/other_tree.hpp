// SPDX-License-Identifier: Apache-2.0
// A second tree that is accessed in parallel to the one being walked: the target of a copy, the
// other side of a comparison. Its directories have the same paths relative to the root.
//
// Invariant: below the root no symbolic link is followed and ".." is not used, whatever other
// processes do to the tree meanwhile. The only state is one open directory for each thread, so any
// thread or process may ask for any directory.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/per_thread.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

/// The part of `path` after `root` and a slash; "" for the root itself.
std::string_view below_root(std::string_view path, std::string_view root);

/// The path without its last component and the slash before it; "" if it has only one.
std::string_view without_last(std::string_view below);

class OtherTree {
 public:
    explicit OtherTree(std::string root) : root_(std::move(root)) {}

    const std::string& root() const { return root_; }
    /// The directory `below` the root (a relative path, "" for the root itself). It stays open
    /// until the calling thread asks for another one. Returns -1 with errno on failure.
    int directory(std::string_view below);
    /// The same, as a descriptor that the caller owns.
    Descriptor open(std::string_view below);
    /// Whether these numbers identify the root directory.
    bool is_root(u64 device, u64 inode);

 private:
    struct Recent {
        std::string below;
        Descriptor directory;
    };

    int root_descriptor();

    std::string root_;
    std::mutex mutex_;  // guards root_directory_
    Descriptor root_directory_;
    u64 root_device_ = 0;
    u64 root_inode_ = 0;
    PerThread<Recent> recent_;
};

/// The names in the open directory without "." and ".."; 0 or errno.
int list_names(int directory, std::vector<std::string>& names);

}  // namespace warren::cli

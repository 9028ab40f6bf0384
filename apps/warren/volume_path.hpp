// SPDX-License-Identifier: Apache-2.0
// Follows a path inside a volume as the kernel would inside a mount: symbolic links on the way,
// "." and "..". The volume itself knows handles and single names only.
//
// Invariant: never leaves the volume. An absolute link starts at the volume's root, as after
// chroot; ".." of the root is the root.
#pragma once

#include <string>
#include <string_view>

#include "apps/warren/directory.hpp"

namespace warren::cli {

/// Where a path leads: its last name and the directory that holds it or would hold it.
struct Place {
    Handle directory;
    std::string name;  // empty: the directory itself
};

class PathWalker {
 public:
    PathWalker(Volume& volume, const Caller& caller) : volume_(volume), caller_(caller) {}

    /// The directory and last name of `path`; the last name need not be there.
    Errc locate(Handle from, std::string_view path, Place& place);
    /// The inode that `path` names.
    Result<Attributes> find(Handle from, std::string_view path, Follow follow);

 private:
    Errc step(Handle& at, std::string_view name, std::string& rest);

    Volume& volume_;
    const Caller& caller_;
    u32 links_followed_ = 0;
};

}  // namespace warren::cli

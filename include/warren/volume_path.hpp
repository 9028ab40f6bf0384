// SPDX-License-Identifier: Apache-2.0
// Follows paths inside a volume as the kernel would inside a mount: symbolic links on the way, "."
// and "..". The volume itself knows handles and single names only.
//
// Invariant: never leaves the volume. An absolute path or link starts at the volume's root, as
// after chroot; ".." of the root is the root; the empty path is the directory where it starts.
// Everything here may throw std::bad_alloc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "warren/volume.hpp"

namespace warren {

/// Whether a path whose last name is a symbolic link leads to the link or behind it.
enum class Follow : bool { no, yes };

/// Where a path leads: its last name and the directory that holds it or would hold it.
struct Located {
    Handle directory;
    std::string name;  // empty: the directory itself
};

class PathWalker {
 public:
    PathWalker(Volume& volume, const Caller& caller) : volume_(volume), caller_(caller) {}

    /// The directory and last name of `path`; the last name need not be there.
    Errc locate(Handle from, std::string_view path, Located& located);
    /// The inode that `path` names.
    Result<Attributes> find(Handle from, std::string_view path, Follow follow);

 private:
    Errc step(Handle& at, std::string_view name, std::string& rest);

    Volume& volume_;
    const Caller& caller_;
    u32 links_followed_ = 0;
};

/// As Located, for one of many paths; the name is a part of the path.
struct LocatedName {
    Handle directory;
    std::string_view name;  // empty: the directory itself
    Errc code = Errc::ok;   // why the path leads nowhere
};

/// PathWalker::locate() for each path. A directory that many of them lead through is looked up
/// once. Requires: as many `located` as paths.
void locate_many(Volume& volume, const Caller& caller, Handle from,
                 std::span<const std::string_view> paths, std::span<LocatedName> located);

/// PathWalker::find() for each path, by Volume::lookup_many(). Requires: as many `found` as paths.
void find_many(Volume& volume, const Caller& caller, Handle from,
               std::span<const std::string_view> paths, Follow follow,
               std::span<Result<Attributes>> found);

}  // namespace warren

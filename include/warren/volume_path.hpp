// SPDX-License-Identifier: Apache-2.0
// Resolves paths inside a volume as the kernel would inside a mount, including symbolic links, "."
// and "..". The volume itself knows only handles and single names.
//
// Invariant: resolution never leaves the volume. An absolute path or link starts at the volume's
// root, as after chroot(2); ".." of the root is the root; the empty path is the directory where it
// starts. Every function here may throw std::bad_alloc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "warren/volume.hpp"

namespace warren {

/// Whether to follow a symbolic link that is the last component of a path.
enum class Follow : bool { no, yes };

/// What a slash behind the last component of a path means. It asks for a directory.
enum class Slash : u8 {
    directory,  // what exists must be a directory, otherwise Errc::not_directory
    refused,    // what is created is not a directory: Errc::not_directory, or Errc::exists
    ignored,    // not checked: a directory is created, or the caller checks
};

/// Where a path leads: its last component and the directory that contains it or would contain it.
struct Located {
    Handle directory;
    std::string name;  // empty: the directory itself
};

class PathWalker {
 public:
    PathWalker(Volume& volume, const Caller& caller) : volume_(volume), caller_(caller) {}

    /// Finds the directory and the last component of `path`. The last component need not exist; if
    /// it is a symbolic link it is not followed.
    Errc locate(Handle from, std::string_view path, Located& located,
                Slash slash = Slash::directory);
    /// Performs locate() for both paths of a move. Errc::busy if one of them ends at a directory
    /// itself, Errc::not_directory if a slash asks for a directory and something else is moved.
    Errc locate_move(Handle from, std::string_view path, std::string_view target, Located& located,
                     Located& target_located);
    /// Finds the inode that `path` names.
    Result<Attributes> find(Handle from, std::string_view path, Follow follow);
    /// Like find() with Follow::yes. If only the last name does not exist, for instance that of a
    /// link's target, creates it and sets `is_new`.
    Result<Attributes> find_or_create(Handle from, std::string_view path,
                                      const CreateOptions& options, bool& is_new);

 private:
    Result<Attributes> find_last(Handle from, std::string_view path, Follow follow, Located& last);
    Errc step(Handle& at, std::string_view name, std::string& rest);

    Volume& volume_;
    const Caller& caller_;
    u32 links_followed_ = 0;
};

/// Like Located, for one of many paths; the name is part of the path's string.
struct LocatedName {
    Handle directory;
    std::string_view name;  // empty: the directory itself
    Errc code = Errc::ok;   // why the path could not be resolved
};

/// Performs PathWalker::locate() for each path. A directory that several paths pass through is
/// looked up once. Requires: `located` has as many elements as `paths`.
void locate_many(Volume& volume, const Caller& caller, Handle from,
                 std::span<const std::string_view> paths, std::span<LocatedName> located,
                 Slash slash = Slash::directory);

/// Performs PathWalker::find() for each path, by Volume::lookup_many(). Requires: `found` has as
/// many elements as `paths`.
void find_many(Volume& volume, const Caller& caller, Handle from,
               std::span<const std::string_view> paths, Follow follow,
               std::span<Result<Attributes>> found);

}  // namespace warren

// SPDX-License-Identifier: Apache-2.0
// What a path on the command line refers to: a file of the host, or a file inside a volume that is
// not mounted, written IMAGE:/path.
//
// Invariant: a path refers into an image if the part before some ":/" is an existing file or block
// device; the first such ":/" counts. "./x:/y" is in an image only if "./x" is one of these.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/warren/directory.hpp"

namespace warren::cli {

struct Location {
    std::string text;   // as given
    std::string image;  // empty: a path of the host
    std::string path;   // in the volume, beginning with '/', or on the host

    bool in_image() const { return !image.empty(); }
    /// The prefix of the path in messages: "IMAGE:" or nothing.
    std::string prefix() const { return in_image() ? image + ":" : std::string(); }
};

Location parse_location(std::string_view text);

/// For a host path that does not exist: a suggestion in parentheses, or nothing.
std::string missing_hint(const Location& location);

/// Warns if users other than the image's owner and group may open it: a user who may read an image
/// can lock it, which prevents a mount, and see everything in it.
void warn_of_exposure(const std::string& image);

/// Whether the file begins with a volume's superblock.
bool looks_like_volume(const std::string& path);

/// The caller for operations of commands in an image: new files get the user's ids. Permissions
/// inside are not checked, because the right to write the image file is the right to write every
/// byte of it.
Caller command_caller();

/// The process's umask.
u32 process_umask();

/// The images that a command has open, each once. They are closed in any case at the end.
class Session {
 public:
    Session() = default;
    ~Session() { close(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Opens the image if it is not open yet; null, after an error message, if that fails.
    /// Requires: the first call for an image that will be written asks for Access::write.
    Volume* open(const std::string& image, Access access);
    /// The directory that the paths of `location` are relative to; null, after an error message, on
    /// failure.
    std::shared_ptr<Directory> directory(const Location& location, Access access);
    /// Commits and closes all images; false, after an error message, if anything could not be
    /// written.
    bool close();

 private:
    struct Opened {
        std::string image;
        std::unique_ptr<Volume> volume;
    };
    std::map<std::pair<u64, u64>, Opened> volumes_;  // by device and inode of the image
};

}  // namespace warren::cli

// SPDX-License-Identifier: Apache-2.0
// What a path on the command line names: a file of the host, or a file inside a volume that is not
// mounted, written IMAGE:/path.
//
// Invariant: a text is an image's path if what stands before some ":/" is an existing file or block
// device; the first such place counts. "./x:/y" is an image only if "./x" is one of these.
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
    std::string path;   // in the volume, beginning with '/', or the host's

    bool in_image() const { return !image.empty(); }
    /// What stands before the path in messages: "IMAGE:" or nothing.
    std::string prefix() const { return in_image() ? image + ":" : std::string(); }
};

Location parse_location(std::string_view text);

/// For a host path that is not there: what the user may have meant, in parentheses, or nothing.
std::string missing_hint(const Location& location);

/// Warns if users other than the image's owner and group may open it: a user who may read it
/// may lock it, which keeps a mount out, and see all that is in it.
void warn_of_exposure(const std::string& image);

/// Whether the file begins with a volume's superblock.
bool looks_like_volume(const std::string& path);

/// On whose behalf commands work in an image: new files get the user's ids, permissions inside are
/// not checked, because the right to write the image file is the right to write every byte of it.
Caller command_caller();

/// The process's umask.
u32 process_umask();

/// The images that a command has open, each once. Closed at the end, whatever happens.
class Session {
 public:
    Session() = default;
    ~Session() { close(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Opens the image if it is not open yet; null, with a complaint, if that fails. Requires: the
    /// first opening of an image that will be written asks for Access::write.
    Volume* open(const std::string& image, Access access);
    /// Where the paths of `location` start from; null, with a complaint, if there is none.
    std::shared_ptr<Directory> directory(const Location& location, Access access);
    /// Commits and closes all; false, with a complaint, if anything could not be written.
    bool close();

 private:
    struct Opened {
        std::string image;
        std::unique_ptr<Volume> volume;
    };
    std::map<std::pair<u64, u64>, Opened> volumes_;  // by device and inode of the image
};

}  // namespace warren::cli

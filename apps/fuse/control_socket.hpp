// SPDX-License-Identifier: Apache-2.0
// The name of a control socket. It is the device number of the mount, which the kernel may give to
// another mount as soon as this one is gone, while its daemon is still closing the volume. The next
// mount then replaces the socket.
//
// Invariant: the directory's lock is held from comparing what has the name to changing it, so that
// no daemon removes or replaces the socket of a mount that exists.
#pragma once

#include <functional>
#include <string>

#include "base/descriptor.hpp"

namespace warren::fuse {

/// The directory for sockets of this user's mounts.
std::string socket_directory();

class ControlSocket {
 public:
    /// Creates the socket in `directory`, which is created if necessary, replaces what has its
    /// name, and listens, unless the mount is gone by then. Returns an empty descriptor, with
    /// `error`, on failure.
    Descriptor listen(const std::string& directory, const std::string& name, mode_t mode,
                      const std::function<bool()>& is_mounted, std::string& error);
    /// Removes the name, unless it is another socket's by now.
    void remove();

 private:
    std::string directory_;
    std::string path_;
    Descriptor file_;  // of path_, as created here: held, so that its inode number is not reused
};

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// The control server of a mount as in a daemon, but without listening. The server identifies a
// descriptor's file by device and inode number: here the root of another file system, whose number
// is 1, stands for the root of the mount, and a file on it for a file.
#pragma once

#include <array>
#include <memory>

#include "apps/fuse/control_server.hpp"

namespace warren::fuse::test {

class ServedControl {
 public:
    ServedControl(MountState& state, Invalidator& invalidator);
    /// Waits until all connections have released the server.
    ~ServedControl();
    ServedControl(const ServedControl&) = delete;
    ServedControl& operator=(const ServedControl&) = delete;

    ControlServer& server() { return *server_; }
    /// A directory that stands for the mount's root.
    int root() const { return root_.get(); }
    /// A file that stands for the one of this number.
    int file(u64 inode);

 private:
    std::shared_ptr<ControlServer> server_;
    Descriptor root_;
    Descriptor file_;
};

/// Both ends of a connection.
std::array<Descriptor, 2> make_connection();

}  // namespace warren::fuse::test

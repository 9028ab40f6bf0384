// SPDX-License-Identifier: Apache-2.0
// The daemon's side of the control socket: listens, identifies peers, and serves each connection in
// a thread of its own.
//
// Invariant: a connection uses nothing of the others' but a thread, and each user has a limited
// number of connections, as have all users but root together, so that the daemon does not run out
// of descriptors; a peer that takes too long for a frame is disconnected. A connection counts until
// the kernel has been told of its changes. No verb runs after stop(), which waits for no peer: an
// answer in parts is aborted. The server is owned jointly with its connections, because closing a
// descriptor received from a peer may block for ever.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "apps/fuse/control_socket.hpp"
#include "apps/fuse/control_verbs.hpp"
#include "apps/fuse/ring_server.hpp"

namespace warren::fuse {

class ControlServer : public std::enable_shared_from_this<ControlServer> {
 public:
    ControlServer(MountState& mount, Invalidator& invalidator);
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    /// Creates the socket for the mount with this device number and starts to listen. Returns
    /// false, with `error`, if the socket cannot be created; the mount then works without bulk
    /// commands.
    bool start(u32 device_major, u32 device_minor, std::string& error);
    /// Prepares for admit() only, without a socket.
    void start_unheard(u32 device_major, u32 device_minor);
    /// Serves a connection in a thread of its own, if its peer may have another one.
    void admit(Descriptor socket);
    /// Stops listening and waits for running verbs. Tells the peers that wait for the close that
    /// the kernel has unmounted.
    void stop();
    /// Tells the waiting peers the result of closing the volume, and removes the socket.
    void report_closed(Errc code);

 private:
    enum class Stage : u8 { serving, stopping, closed };

    void listen();
    void converse(int socket, const Peer& peer, ControlVerbs& verbs);
    std::string answer(int socket, const Peer& peer, Frame& frame, ControlVerbs& verbs,
                       std::unique_ptr<RingServer>& ring);
    std::string answer_or_throw(int socket, const Peer& peer, Frame& frame, ControlVerbs& verbs,
                                std::unique_ptr<RingServer>& ring);
    Errc open_ring(const Peer& peer, std::unique_ptr<RingServer>& ring);
    /// Counts a running verb; false after stop() was called.
    bool begin_verb();
    void end_verb();
    void serve_close(int socket);

    MountState& mount_;
    Invalidator& invalidator_;
    const u64 connections_max_;  // of all users but root
    u32 device_major_ = 0, device_minor_ = 0;
    ControlSocket name_;
    Descriptor listener_;
    Descriptor wake_;  // an eventfd that ends listen()
    std::thread thread_;

    std::mutex mutex_;
    std::condition_variable changed_;
    Stage stage_ = Stage::serving;
    Errc close_code_ = Errc::ok;
    std::set<int> sockets_;              // of all connections
    std::set<int> streaming_;            // of connections whose verb sends parts
    std::map<u32, int> connections_of_;  // by user
    int verbs_running_ = 0;
    int rings_ = 0;  // open now
};

}  // namespace warren::fuse

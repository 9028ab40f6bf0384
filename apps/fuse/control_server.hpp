// SPDX-License-Identifier: Apache-2.0
// The daemon's end of the control socket: listens, knows who connects, serves each connection in a
// thread of its own.
//
// Invariant: a connection costs others nothing but its thread, and one user has few of them; a
// peer that stops in the middle of a frame is dropped. No verb runs after stop(), which waits for
// no peer: an answer in parts is broken off. Connections share
// the server with its owner, because closing a stranger's descriptor may block for ever.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "apps/fuse/control_verbs.hpp"
#include "apps/fuse/ring_server.hpp"

namespace warren::fuse {

class ControlServer : public std::enable_shared_from_this<ControlServer> {
 public:
    ControlServer(MountState& mount, Invalidator& invalidator);
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    /// Makes the socket for the mount with this device number and starts to listen. False, with
    /// `error`, if there is no place for it; the mount then works without bulk commands.
    bool start(u32 device_major, u32 device_minor, std::string& error);
    /// Gets ready for admit() alone, without a socket.
    void start_unheard(u32 device_major, u32 device_minor);
    /// Serves a connection in a thread of its own, if its peer may have one.
    void admit(Descriptor socket);
    /// Ends listening and waits for the verbs under way. Tells the peers that wait for the close
    /// that the kernel has unmounted.
    void stop();
    /// Tells the waiting peers how closing the volume went, and removes the socket.
    void report_closed(Errc code);

 private:
    enum class Stage : u8 { serving, stopping, closed };
    class RunningVerb;
    class Streaming;

    void listen();
    void converse(int socket, const Peer& peer);
    std::string answer(int socket, const Peer& peer, Frame& frame,
                       std::unique_ptr<RingServer>& ring);
    std::string answer_or_throw(int socket, const Peer& peer, Frame& frame,
                                std::unique_ptr<RingServer>& ring);
    Errc open_ring(const Peer& peer, std::unique_ptr<RingServer>& ring);
    /// Counts a verb that begins; false once stop() was called.
    bool begin_verb();
    void end_verb();
    void serve_close(int socket);

    MountState& mount_;
    Invalidator& invalidator_;
    std::unique_ptr<ControlVerbs> verbs_;
    std::string path_;
    u64 socket_inode_ = 0;  // of path_, as it was made here
    Descriptor listener_;
    Descriptor wake_;  // an eventfd that ends listen()
    std::thread thread_;

    std::mutex mutex_;
    std::condition_variable changed_;
    Stage stage_ = Stage::serving;
    Errc close_code_ = Errc::ok;
    std::set<int> sockets_;              // of all connections
    std::set<int> streaming_;            // of those whose verb sends parts
    std::map<u32, int> connections_of_;  // by user
    int verbs_running_ = 0;
    int rings_ = 0;  // open now
};

}  // namespace warren::fuse

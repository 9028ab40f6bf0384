// SPDX-License-Identifier: Apache-2.0
// The socket is named by the device number of the mount, which is unique during its life.
#include "apps/fuse/control_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "apps/fuse/log.hpp"
#include "apps/fuse/session.hpp"
#include "base/on_exit.hpp"
#include "base/out_of_memory.hpp"

namespace warren::fuse {

namespace {

constexpr int connections_per_user = 16;
constexpr int rings_max = 64;            // for each mount: each ring has memory and a thread
constexpr time_t patience_seconds = 60;  // for a peer that stopped sending or receiving
constexpr std::chrono::seconds frame_patience{20};
/// The socket, those of a frame, the ring's, and a table that is read.
constexpr u64 descriptors_of_connection = descriptor_limit + 4;

/// Half of the descriptors that this process may have are for connections.
u64 fitting_connections() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
    return limit.rlim_cur / 2 / descriptors_of_connection;
}

Peer identify(int socket) {
    Peer peer;
    ucred ids{};
    socklen_t size = sizeof(ids);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &ids, &size) != 0) {
        peer.user = peer.group = 65534;  // nobody
        return peer;
    }
    peer.user = ids.uid;
    peer.group = ids.gid;
    peer.process = static_cast<u32>(ids.pid);
    peer.groups.resize(64);
    size = static_cast<socklen_t>(peer.groups.size() * sizeof(u32));
    int answer = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &size);
    if (answer != 0 && errno == ERANGE) {
        peer.groups.resize(size / sizeof(u32));
        answer = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &size);
    }
    peer.groups.resize(answer == 0 ? size / sizeof(u32) : 0);
    return peer;
}

/// Returns when the peer has sent something or has closed the connection.
void wait_for_input(int socket) {
    pollfd waiting{socket, POLLIN, 0};
    while (::poll(&waiting, 1, -1) < 0 && errno == EINTR) {
    }
}

std::string lone_answer(Errc code) {
    return Encoder().number(static_cast<u64>(code)).bytes();
}

}  // namespace

ControlServer::ControlServer(MountState& mount, Invalidator& invalidator)
    : mount_(mount), invalidator_(invalidator), connections_max_(fitting_connections()) {}

ControlServer::~ControlServer() {
    stop();
}

void ControlServer::start_unheard(u32 device_major, u32 device_minor) {
    device_major_ = device_major;
    device_minor_ = device_minor;
}

bool ControlServer::start(u32 device_major, u32 device_minor, std::string& error) {
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
    if (!wake_) {
        error = std::strerror(errno);
        return false;
    }
    listener_ = name_.listen(
        socket_directory(), socket_name(device_major, device_minor),
        mount_.allow_other ? 0666 : 0600, [&] { return !has_ended(mount_.session); }, error);
    if (!listener_) return false;
    start_unheard(device_major, device_minor);
    thread_ = std::thread([this] { listen(); });
    return true;
}

void ControlServer::listen() {
    while (true) {
        std::array<pollfd, 2> events{{{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
        if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) break;
        if (events[1].revents != 0) break;
        Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (socket) {
            // If there is no memory to serve a peer, it is disconnected.
            static_cast<void>(or_no_memory([&] { admit(std::move(socket)); }));
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));  // wait for closes
        }
    }
}

void ControlServer::admit(Descriptor socket) {
    const timeval patience{patience_seconds, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    Peer peer = identify(socket.get());
    const u32 user = peer.user;
    if (!mount_.allow_other && user != 0 && user != ::geteuid()) return;
    const int number = socket.get();
    {
        std::lock_guard lock(mutex_);
        const auto known = connections_of_.find(user);
        const bool is_full =
            sockets_.size() >= connections_max_ ||
            (known != connections_of_.end() && known->second >= connections_per_user);
        if (stage_ != Stage::serving || (user != 0 && is_full)) return;
        sockets_.insert(number);
        ++connections_of_[user];
    }
    auto leave = [server = shared_from_this(), number, user] {
        std::lock_guard lock(server->mutex_);
        server->sockets_.erase(number);
        if (--server->connections_of_[user] == 0) server->connections_of_.erase(user);
        server->changed_.notify_all();
    };
    const Errc begun = or_no_memory([&] {
        auto verbs =
            std::make_unique<ControlVerbs>(mount_, invalidator_, device_major_, device_minor_);
        std::thread([leave, server = shared_from_this(), held = std::move(socket),
                     who = std::move(peer), verbs = std::move(verbs)]() mutable {
            // If memory runs out between two frames, the connection is closed.
            static_cast<void>(or_no_memory([&] { server->converse(held.get(), who, *verbs); }));
            verbs.reset();  // may wait for the kernel
            leave();
        }).detach();
    });
    if (begun != Errc::ok) {
        leave();
        log_line("no memory for a control connection");
    }
}

bool ControlServer::begin_verb() {
    std::lock_guard lock(mutex_);
    if (stage_ != Stage::serving) return false;
    ++verbs_running_;
    mount_.verbs_served.fetch_add(1, std::memory_order_relaxed);
    return true;
}

void ControlServer::end_verb() {
    std::lock_guard lock(mutex_);
    --verbs_running_;
    changed_.notify_all();
}

/// Opens the connection's ring. It ends with the connection, and so in any case with the peer's
/// process.
Errc ControlServer::open_ring(const Peer& peer, std::unique_ptr<RingServer>& ring) {
    if (ring != nullptr) return Errc::busy;
    {
        const std::lock_guard lock(mutex_);
        if (rings_ >= rings_max) return Errc::busy;
        ++rings_;
    }
    const auto count_off = [this] {
        const std::lock_guard lock(mutex_);
        --rings_;
    };
    std::unique_ptr<RingServer> made;
    const Errc memory = or_no_memory([&] {
        made = std::make_unique<RingServer>(
            mount_, invalidator_, peer,
            RingTurn{[this] { return begin_verb(); }, [this] { end_verb(); }, count_off});
    });
    if (memory != Errc::ok) count_off();
    WARREN_TRY(memory);
    WARREN_TRY(made->open());
    ring = std::move(made);
    return Errc::ok;
}

std::string ControlServer::answer(int socket, const Peer& peer, Frame& frame, ControlVerbs& verbs,
                                  std::unique_ptr<RingServer>& ring) {
    std::string text;
    const Errc memory =
        or_no_memory([&] { text = answer_or_throw(socket, peer, frame, verbs, ring); });
    if (memory != Errc::ok) text = lone_answer(memory);
    return text;  // moved: a copy would ask for memory
}

std::string ControlServer::answer_or_throw(int socket, const Peer& peer, Frame& frame,
                                           ControlVerbs& verbs, std::unique_ptr<RingServer>& ring) {
    const PartSink sink{[&](std::string_view part) {
                            return send_frame(socket, ControlVerb::part, part) == Errc::ok;
                        },
                        [&] { ::shutdown(socket, SHUT_RDWR); }};
    switch (frame.verb) {
        case ControlVerb::open_ring:
            return lone_answer(open_ring(peer, ring));
        case ControlVerb::attach_ring:
            return ring == nullptr ? lone_answer(Errc::invalid)
                                   : verbs.attach(peer, frame, ring->grants());
        case ControlVerb::scan:
        case ControlVerb::scan_space:
        case ControlVerb::usage: {
            {
                const std::lock_guard lock(mutex_);
                streaming_.insert(socket);  // so that stop() aborts the verb
                if (stage_ != Stage::serving) ::shutdown(socket, SHUT_RDWR);
            }
            const OnExit end_streaming([&] {
                const std::lock_guard lock(mutex_);
                streaming_.erase(socket);
            });
            return verbs.serve(peer, frame, sink);
        }
        default:
            return verbs.serve(peer, frame, sink);
    }
}

void ControlServer::converse(int socket, const Peer& peer, ControlVerbs& verbs) {
    Frame frame;
    std::unique_ptr<RingServer> ring;
    while (true) {
        // A peer with a ring may be silent for any time.
        if (ring != nullptr) wait_for_input(socket);
        const Errc received =
            or_no_memory([&] { return receive_frame(socket, frame, frame_patience); });
        if (received == Errc::no_memory || received == other_protocol) {
            // The position of the next frame is unknown, so this is the last answer.
            static_cast<void>(send_frame(socket, ControlVerb::answer, lone_answer(received)));
        }
        if (received != Errc::ok) return;
        if (frame.verb == ControlVerb::close) return serve_close(socket);
        if (!begin_verb()) return;
        const bool had_ring = ring != nullptr;
        std::string payload;
        {
            const OnExit end([this] { end_verb(); });  // stop() waits for it
            payload = answer(socket, peer, frame, verbs, ring);
        }
        frame.descriptors.clear();  // before the peer continues, since they keep the mount busy
        if (send_frame(socket, ControlVerb::answer, payload) != Errc::ok) return;
        if (!had_ring && ring != nullptr && ring->hand_over(socket) != Errc::ok) return;
    }
}

void ControlServer::serve_close(int socket) {
    if (send_frame(socket, ControlVerb::part, {}) != Errc::ok) return;  // the peer may unmount now
    std::unique_lock lock(mutex_);
    while (stage_ == Stage::serving) {
        changed_.wait_for(lock, std::chrono::seconds(1));
        // A peer whose unmount failed disconnects without a message.
        pollfd peer{socket, POLLIN, 0};
        if (stage_ == Stage::serving && ::poll(&peer, 1, 0) != 0) return;
    }
    lock.unlock();
    const bool heard = send_frame(socket, ControlVerb::part, {}) == Errc::ok;
    lock.lock();
    changed_.wait(lock, [&] { return stage_ == Stage::closed; });
    const Errc code = close_code_;
    lock.unlock();
    if (heard) static_cast<void>(send_frame(socket, ControlVerb::answer, lone_answer(code)));
}

void ControlServer::stop() {
    if (thread_.joinable()) {
        const u64 one = 1;
        while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
        }
        thread_.join();
    }
    listener_.close();
    std::unique_lock lock(mutex_);
    if (stage_ == Stage::serving) stage_ = Stage::stopping;
    for (const int socket : sockets_)
        ::shutdown(socket, SHUT_RD);  // nothing more is read
    for (const int socket : streaming_)
        ::shutdown(socket, SHUT_RDWR);
    changed_.notify_all();
    changed_.wait(lock, [&] { return verbs_running_ == 0; });
}

void ControlServer::report_closed(Errc code) {
    std::unique_lock lock(mutex_);
    if (stage_ == Stage::closed) return;
    stage_ = Stage::closed;
    close_code_ = code;
    name_.remove();
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(5), [&] { return sockets_.empty(); });
}

}  // namespace warren::fuse

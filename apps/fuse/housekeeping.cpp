// SPDX-License-Identifier: Apache-2.0
// If the mount is still in use when a signal comes, it is taken out of the tree at once and served
// for a few seconds more; then, or at a second signal, the connection is cut.
#include "apps/fuse/housekeeping.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>

#include "apps/fuse/late_seek.hpp"
#include "apps/fuse/log.hpp"
#include "apps/fuse/unmount.hpp"

namespace warren::fuse {

namespace {

constexpr int grace_ms = 10'000;
constexpr int interrupt = SIGUSR1;  // wakes the thread in Session::serve()

void ignore_signal(int) {}

sigset_t ending_signals(bool hang_up) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGQUIT);
    if (hang_up) ::sigaddset(&signals, SIGHUP);
    return signals;
}

}  // namespace

Committer::Committer(MountState& mount, u32 seconds) : mount_(mount) {
    if (seconds != 0) thread_ = std::thread([this, seconds] { run(seconds); });
}

Committer::~Committer() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    ending_changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Committer::run(u32 seconds) {
    std::unique_lock lock(mutex_);
    while (
        !ending_changed_.wait_for(lock, std::chrono::seconds(seconds), [&] { return ending_; })) {
        lock.unlock();
        // The log is told if it fails; the next round tries again.
        if (mount_.volume.access()->has_unsaved()) static_cast<void>(mount_.sync());
        lock.lock();
    }
}

void block_ending_signals() {
    sigset_t signals = ending_signals(true);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    struct sigaction action {};
    action.sa_handler = ignore_signal;  // with no flags: a wait that it meets returns
    ::sigaction(interrupt, &action, nullptr);
}

Terminator::Terminator(MountState& mount, pthread_t server, bool hang_up)
    : mount_(mount), server_(server) {
    const sigset_t signals = ending_signals(hang_up);
    signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC));
    end_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
}

Terminator::~Terminator() {
    const u64 one = 1;
    while (::write(end_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
}

bool Terminator::wait(int timeout_ms, bool& signalled) {
    std::array<pollfd, 2> events{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
    signalled = false;
    const int ready = ::poll(events.data(), events.size(), timeout_ms);
    if (ready > 0 && events[0].revents != 0) {
        signalfd_siginfo signal{};
        signalled = ::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal);
    }
    return ready > 0 && events[1].revents != 0;
}

void Terminator::unmount_in_order() {
    {
        const Descriptor root(
            ::open(mount_.mountpoint.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (root) ::syncfs(root.get());
    }
    if (detach(mount_.mountpoint, Detach::when_unused) == Errc::ok) return;
    if (detach(mount_.mountpoint, Detach::lazily) == Errc::ok) {
        log_line(mount_.mountpoint + ": still in use; unmounted for newcomers, ends in " +
                 std::to_string(grace_ms / 1000) + " s");
    }
}

void Terminator::run() {
    bool signalled = false;
    while (!signalled) {
        if (wait(-1, signalled)) return;
    }
    unmount_in_order();
    if (wait(grace_ms, signalled)) return;
    mount_.late_seeker->stop();
    log_line(mount_.mountpoint + ": the connection is cut");
    do {
        fuse_session_exit(mount_.session);
        ::pthread_kill(server_, interrupt);
    } while (!wait(50, signalled));
}

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// If the mount is in use when a signal arrives, it is detached from the tree at once and served for
// a few more seconds; then, or at a second signal, the connection is aborted.
#include "apps/fuse/housekeeping.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "apps/fuse/late_seek.hpp"
#include "apps/fuse/log.hpp"
#include "base/wait_for_stop.hpp"

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

std::jthread start_committer(MountState& mount, u32 seconds) {
    if (seconds == 0) return {};
    return std::jthread([&mount, seconds](const std::stop_token& stop) {
        while (!wait_for_stop(stop, std::chrono::seconds(seconds))) {
            // A failure is logged by sync(), and the next round tries again.
            if (mount.volume.access()->has_unsaved()) static_cast<void>(mount.sync());
        }
    });
}

void block_ending_signals() {
    sigset_t signals = ending_signals(true);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    struct sigaction action {};
    action.sa_handler = ignore_signal;  // without SA_RESTART: the signal interrupts a blocking call
    ::sigaction(interrupt, &action, nullptr);
}

Terminator::Terminator(MountState& mount, Watchdog& watchdog, pthread_t server, bool hang_up)
    : mount_(mount), watchdog_(watchdog), server_(server) {
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

Terminator::Event Terminator::wait(int timeout_ms, bool awaits_reply) {
    // poll() ignores negative descriptors.
    const int replies = awaits_reply ? watchdog_.descriptor() : -1;
    std::array<pollfd, 3> events{
        {{end_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {replies, POLLIN, 0}}};
    if (::poll(events.data(), events.size(), timeout_ms) <= 0) return Event::none;
    if (events[0].revents != 0) return Event::end;
    signalfd_siginfo signal{};
    if (events[1].revents != 0 &&
        ::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
        return Event::signal;
    }
    return events[2].revents != 0 ? Event::reply : Event::none;
}

/// Returns with an event that ends the wait: another signal, or the end.
Terminator::Event Terminator::unmount_in_order() {
    watchdog_.begin_unmount();
    Event event = Event::none;
    while (event == Event::none)
        event = wait(-1, true);  // writing back may take long
    if (event != Event::reply) return event;
    const std::string end = "ends in " + std::to_string(grace_ms / 1000) + " s";
    const Errc code = watchdog_.reply();
    if (code == Errc::busy) {
        log_line(mount_.mountpoint + ": still in use; unmounted for newcomers, " + end);
    } else if (code == Errc::exists) {
        log_line(mount_.mountpoint + ": another mount covers it, so it stays in the tree, and " +
                 end + "; unmount that one first, then this one");
    }
    return wait(grace_ms);
}

void Terminator::run() {
    Event event = Event::none;
    while (event == Event::none)
        event = wait(-1);
    if (event == Event::signal) event = unmount_in_order();
    if (event == Event::end) return;
    log_line(mount_.mountpoint + ": the connection is cut");
    // Ends waits in the kernel that would never end without a server; then the loop.
    watchdog_.abort();
    mount_.late_seeker->stop();
    do {
        fuse_session_exit(mount_.session);
        ::pthread_kill(server_, interrupt);
    } while (wait(50) != Event::end);
}

}  // namespace warren::fuse

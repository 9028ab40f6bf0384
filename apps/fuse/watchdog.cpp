// SPDX-License-Identifier: Apache-2.0
// How the daemon's death is noticed: not by a pidfd, which becomes readable only when the last
// thread has exited, nor by the end of a socket, which a stuck thread keeps open; but by the
// parent-death signal, which the kernel sends when the thread that forked exits.
#include "apps/fuse/watchdog.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "apps/fuse/connection.hpp"
#include "apps/fuse/mount_flags.hpp"
#include "apps/fuse/unmount.hpp"
#include "base/last_error.hpp"

namespace warren::fuse {

namespace {

constexpr int parent_died = SIGUSR2;
constexpr const char* process_name = "warren-watchdog";  // 15 bytes, the kernel's maximum

enum class Order : u32 { guard, finish_mount, unmount, abort };

struct Question {
    Order order;
    u32 device_minor;
    u64 mount;
};

/// Returns an error if the process is gone.
Errc send_question(int socket, Order order, const MountedPlace& mounted = {}) {
    const Question question{order, mounted.device_minor, mounted.number};
    return ::send(socket, &question, sizeof(question), MSG_NOSIGNAL) == sizeof(question)
               ? Errc::ok
               : last_error();
}

Errc receive_answer(int socket) {
    u32 answer = 0;
    ssize_t got = -1;
    do {
        got = ::recv(socket, &answer, sizeof(answer), 0);
    } while (got < 0 && errno == EINTR);
    return got == sizeof(answer) ? static_cast<Errc>(answer) : Errc::io;
}

/// Renames the process in ps(1), including its command line: a user who kills all daemons by their
/// command line must not kill this process.
void rename_process() {
    ::prctl(PR_SET_NAME, process_name);
    std::ifstream file("/proc/self/stat");
    std::string text;
    std::getline(file, text);
    std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
    std::vector<u64> numbers;
    std::string word;
    while (words >> word)
        numbers.push_back(std::strtoull(word.c_str(), nullptr, 10));
    constexpr std::size_t arguments_begin = 48 - 3;  // proc_pid_stat(5), from field 3 on
    if (numbers.size() <= arguments_begin + 1) return;
    const u64 begin = numbers[arguments_begin];
    const u64 end = numbers[arguments_begin + 1];
    if (begin == 0 || end <= begin) return;
    // The kernel reports the addresses of the arguments in this process's memory.
    auto* arguments = reinterpret_cast<char*>(begin);  // NOLINT
    std::memset(arguments, 0, end - begin);
    std::strncpy(arguments, process_name, end - begin - 1);
}

void close_from(int first_closed) {
#ifdef SYS_close_range
    if (::syscall(SYS_close_range, first_closed, ~0u, 0) == 0) return;
#endif
    const long limit = ::sysconf(_SC_OPEN_MAX);
    for (int number = first_closed; number < limit; ++number)
        ::close(number);
}

Errc finish_mount_here(const MountOptions& options) {
    struct statx facts {};
    if (::statx(AT_FDCWD, options.mountpoint.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS,
                &facts) != 0) {
        return last_error();
    }
    if (::geteuid() != 0) return Errc::ok;
    const unsigned long now = current_mount_flags(options.mountpoint);
    const unsigned long wanted = changed_mount_flags(now, options);
    if (wanted == now) return Errc::ok;
    ::mount(nullptr, options.mountpoint.c_str(), nullptr, MS_REMOUNT | MS_BIND | wanted, nullptr);
    return Errc::ok;
}

Errc unmount_here(const MountedPlace& mounted) {
    if (is_covered(mounted)) {
        ::sync();  // no path leads to the mount alone
        return Errc::exists;
    }
    {
        const Descriptor root(
            ::open(mounted.mountpoint.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (root) ::syncfs(root.get());
    }
    if (detach(mounted, Detach::when_unused) == Errc::ok) return Errc::ok;
    const Errc code = detach(mounted, Detach::lazily);
    return code == Errc::ok ? Errc::busy : code;
}

/// The code of the process itself.
class Watcher {
 public:
    Watcher(const MountOptions& options, std::array<Descriptor, 2> sockets, pid_t daemon)
        : options_(options), sockets_(std::move(sockets)), daemon_(daemon) {
        mounted_.mountpoint = options.mountpoint;
    }

    [[noreturn]] void run() {
        sigset_t signals;
        ::sigemptyset(&signals);
        ::sigaddset(&signals, parent_died);
        ::sigaddset(&signals, SIGCHLD);
        signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC));
        // If the daemon died before this call, it has closed its sockets, since it had only one
        // thread.
        ::prctl(PR_SET_PDEATHSIG, parent_died);
        const bool is_watching = signals_ && ::getppid() == daemon_;
        answer(sockets_[0], is_watching ? Errc::ok : Errc::io);
        while (is_watching && take_event()) {
        }
        static_cast<void>(abort());
        std::_Exit(EXIT_SUCCESS);
    }

 private:
    struct Job {
        pid_t process;
        int socket;  // of the caller that waits for the answer
    };

    static void answer(const Descriptor& socket, Errc code) { answer(socket.get(), code); }
    static void answer(int socket, Errc code) {
        const auto number = static_cast<u32>(code);
        // If the daemon is gone there is nobody to answer.
        static_cast<void>(!::send(socket, &number, sizeof(number), MSG_NOSIGNAL));
    }

    Errc abort() const {
        return abort_file_ && ::write(abort_file_.get(), "1", 1) == 1 ? Errc::ok : Errc::io;
    }

    /// Runs `work` in a child process, since it may block on the mount.
    template <class Work>
    void do_aside(int socket, const Work& work) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::signal(SIGCHLD, SIG_DFL);
            std::_Exit(static_cast<int>(work()));
        }
        if (child < 0) return answer(socket, last_error());
        jobs_.push_back({child, socket});
    }

    void take_ended_children() {
        int status = 0;
        for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
            const Errc code = WIFEXITED(status) ? static_cast<Errc>(WEXITSTATUS(status)) : Errc::io;
            std::erase_if(jobs_, [&](const Job& job) {
                if (job.process == child) answer(job.socket, code);
                return job.process == child;
            });
        }
    }

    /// Returns false if the daemon is gone.
    bool take_signal() {
        signalfd_siginfo signal{};
        if (::read(signals_.get(), &signal, sizeof(signal)) != sizeof(signal)) return true;
        if (signal.ssi_signo == SIGCHLD) take_ended_children();
        return signal.ssi_signo != parent_died || signal.ssi_pid != static_cast<u32>(daemon_);
    }

    bool take_question(int socket) {
        Question question{};
        const ssize_t got = ::recv(socket, &question, sizeof(question), 0);
        if (got < 0 && errno == EINTR) return true;
        if (got != sizeof(question)) return false;
        switch (question.order) {
            case Order::guard:
                mounted_.number = question.mount;
                abort_file_ = open_connection_file(question.device_minor, "abort", O_WRONLY);
                answer(socket, abort_file_ ? Errc::ok : last_error());
                break;
            case Order::finish_mount:
                do_aside(socket, [&] { return finish_mount_here(options_); });
                break;
            case Order::unmount:
                do_aside(socket, [&] { return unmount_here(mounted_); });
                break;
            case Order::abort:
                static_cast<void>(abort());
                break;
        }
        return true;
    }

    /// Waits for an event; returns false if the daemon is gone.
    bool take_event() {
        std::array<pollfd, 3> events{{{signals_.get(), POLLIN, 0},
                                      {sockets_[0].get(), POLLIN, 0},
                                      {sockets_[1].get(), POLLIN, 0}}};
        if (::poll(events.data(), events.size(), -1) < 0) return errno == EINTR;
        if (events[0].revents != 0 && !take_signal()) return false;
        for (const pollfd& event : {events[1], events[2]}) {
            if (event.revents != 0 && !take_question(event.fd)) return false;
        }
        return true;
    }

    const MountOptions& options_;
    MountedPlace mounted_;  // its path and number
    const std::array<Descriptor, 2> sockets_;
    const pid_t daemon_;
    Descriptor signals_;
    Descriptor abort_file_;  // refers to the connection, even if its number is reused
    std::vector<Job> jobs_;
};

/// The first steps of the forked process: releases everything that belongs to the daemon.
[[noreturn]] void become_watcher(const MountOptions& options, int at_once, int later,
                                 pid_t daemon) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::setsid();
    // Move the sockets to unused numbers first, then below all descriptors that are closed.
    constexpr int first = 3;  // after the standard streams
    const int moved[] = {::fcntl(at_once, F_DUPFD, 64), ::fcntl(later, F_DUPFD, 64)};
    const int nowhere = ::open("/dev/null", O_RDWR);
    if (moved[0] < 0 || moved[1] < 0 || nowhere < 0 || ::chdir("/") != 0) {
        std::_Exit(EXIT_FAILURE);
    }
    for (int stream = 0; stream < first; ++stream)
        ::dup2(nowhere, stream);
    for (int i = 0; i < 2; ++i)
        ::dup3(moved[i], first + i, O_CLOEXEC);
    close_from(first + 2);
    rename_process();
    Watcher(options, {Descriptor(first), Descriptor(first + 1)}, daemon).run();
}

}  // namespace

Watchdog::~Watchdog() {
    at_once_.close();
    later_.close();
    if (process_ < 0) return;
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Errc Watchdog::start(const MountOptions& options) {
    int first[2], second[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, first) != 0) return last_error();
    at_once_ = Descriptor(first[0]);
    const Descriptor far_at_once(first[1]);
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, second) != 0) return last_error();
    later_ = Descriptor(second[0]);
    const Descriptor far_later(second[1]);
    const pid_t daemon = ::getpid();
    process_ = ::fork();
    if (process_ < 0) return last_error();
    if (process_ == 0) become_watcher(options, far_at_once.get(), far_later.get(), daemon);
    return receive_answer(at_once_.get());  // the process is watching now
}

Errc Watchdog::guard(const MountedPlace& mounted) {
    WARREN_TRY(send_question(at_once_.get(), Order::guard, mounted));
    return receive_answer(at_once_.get());
}

Errc Watchdog::finish_mount() {
    WARREN_TRY(send_question(at_once_.get(), Order::finish_mount));
    return receive_answer(at_once_.get());
}

void Watchdog::begin_unmount() {
    // If the process is gone, descriptor() is readable and reply() returns an error.
    static_cast<void>(send_question(later_.get(), Order::unmount));
}

Errc Watchdog::reply() {
    return receive_answer(later_.get());
}

void Watchdog::abort() {
    static_cast<void>(send_question(later_.get(), Order::abort));
}

}  // namespace warren::fuse

// SPDX-License-Identifier: Apache-2.0
// Each allocation of memory within each request over a mount's control socket fails once, all of
// them in every run; see starved_mount.hpp. The connection is served as in a daemon, but for the
// listening. A descriptor tells the server by device and number which directory it leads to: here
// the root of another file system, whose number is 1, stands for the root of the mount.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>

#include "apps/fuse/control_server.hpp"
#include "base/out_of_memory.hpp"
#include "tests/apps/starved_mount.hpp"

namespace {

/// What the number 1 is taken for.
std::atomic<warren::u64> number_of_one = 1;

}  // namespace

/// The system's call, but for the number 1. Whatever is linked into this program calls this one.
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* facts) noexcept {
    const long code = ::syscall(SYS_statx, directory, path, flags, mask, facts);
    if (code == 0 && facts->stx_ino == 1) facts->stx_ino = number_of_one;
    return static_cast<int>(code);
}

namespace warren::fuse::test {
namespace {

/// A connection to the server of a mount's control socket.
class Control {
 public:
    explicit Control(Mount& mount)
        : invalidator_(mount.kernel.session(), [](u64, const std::string&) { return false; }),
          server_(std::make_shared<ControlServer>(mount.state, invalidator_)),
          directory_(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        struct statx facts {};
        EXPECT_EQ(::statx(directory_.get(), "", AT_EMPTY_PATH, STATX_INO, &facts), 0);
        EXPECT_EQ(facts.stx_ino, 1u) << "/proc cannot stand for the root of a mount";
        number_of_one = mount.volume().root().inode;
        server_->start_unheard(facts.stx_dev_major, facts.stx_dev_minor);
    }
    /// Opens a connection. Errc::no_memory: the server let it go.
    Errc connect() {
        std::array<int, 2> ends{-1, -1};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        socket_ = Descriptor(ends[0]);
        Descriptor other(ends[1]);
        return or_no_memory([&] {
            server_->admit(std::move(other));
            return Errc::ok;
        });
    }
    /// Waits until the connection's thread has let go of the server.
    ~Control() {
        socket_.close();
        while (server_.use_count() > 1)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        number_of_one = 1;
    }
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;

    /// Asks and answers 0 or the errno that the client would see.
    int ask(Verb verb, const Encoder& request, bool has_results) {
        const UncountedAllocations uncounted;
        const int directory = directory_.get();
        if (send_frame(socket_.get(), verb, request.bytes(), {&directory, 1}) != Errc::ok) {
            return EPIPE;
        }
        Frame frame;
        do {
            if (receive_frame(socket_.get(), frame) != Errc::ok) return EPIPE;
        } while (frame.verb == Verb::part);
        Decoder answer(frame.payload);
        int error = static_cast<int>(answer.number32());
        while (has_results && error == 0 && !answer.at_end())
            error = static_cast<int>(answer.number32());
        return answer.good() ? error : EPROTO;
    }

 private:
    Invalidator invalidator_;
    std::shared_ptr<ControlServer> server_;
    Descriptor directory_;
    Descriptor socket_;
};

struct VerbCall {
    const char* name;
    Verb verb;
    std::function<void(Encoder&)> request;
    bool is_whole = true;
    bool has_results = false;
};

std::vector<VerbCall> verb_calls() {
    const auto named = [](const char* name) {
        return [name](Encoder& request) { request.text(name); };
    };
    const auto move = [](Encoder& request, const std::string& from, const std::string& to) {
        request.number(0).text(from).number(0).text(to);
    };
    return {
        {"rm -r", Verb::remove_tree, named("directory")},
        {"rm -r of a file", Verb::remove_tree, named("file")},
        {"mv", Verb::move, [=](Encoder& request) { move(request, "doomed", "new"); }, true, true},
        {"mv of several", Verb::move,
         [=](Encoder& request) {
             for (const char* const name : {"doomed", "other", "link"})
                 move(request, name, std::string(name) + " new");
         },
         false, true},
        {"rebuild", Verb::rebuild, [](Encoder&) {}},
        {"find", Verb::scan,
         [](Encoder& request) {
             request.text("");
             encode(request, ScanFilter{});
         }},
        {"du", Verb::usage,
         [](Encoder& request) { request.text("directory").number(3).number(0); }},
        {"sync", Verb::sync, [](Encoder&) {}},
        {"info", Verb::info, [](Encoder&) {}},
        {"remount", Verb::remount,
         [](Encoder& request) {
             request.number(0).number(static_cast<u64>(AccessTimes::unchanged));
         }},
    };
}

class StarvedVerbs : public StarvedMount {};
INSTANTIATE_TEST_SUITE_P(Engines, StarvedVerbs, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(StarvedVerbs, areAnsweredAndDoNoHarm) {
    // The connection has this process's user, and all in the volume is root's.
    if (::geteuid() != 0) GTEST_SKIP() << "only root may change the volume";
    for (const VerbCall& call : verb_calls()) {
        const auto prepare = [&](Mount& mount) -> std::function<int()> {
            const auto control = std::make_shared<Control>(mount);
            EXPECT_EQ(control->connect(), Errc::ok);
            Encoder request;
            call.request(request);
            return [control, request, &call] {
                return control->ask(call.verb, request, call.has_results);
            };
        };
        fail_each(call.name, call.is_whole, prepare);
    }
    EXPECT_GT(failures_, verb_calls().size());
    std::printf("%llu allocations failed\n", static_cast<unsigned long long>(failures_));
}

TEST_P(StarvedVerbs, findAConnectionServedOrLetGo) {
    const auto prepare = [&](Mount& mount) -> std::function<int()> {
        return [control = std::make_shared<Control>(mount)] {
            const Errc connected = control->connect();
            const int asked = control->ask(Verb::sync, {}, false);
            // Who is let go finds nobody at the other end.
            if (connected != Errc::ok || asked == EPIPE) return ENOMEM;
            return asked;
        };
    };
    fail_each("connect", true, prepare);
    EXPECT_GT(failures_, 3u);
}

}  // namespace
}  // namespace warren::fuse::test

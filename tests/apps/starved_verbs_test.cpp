// SPDX-License-Identifier: Apache-2.0
// Each allocation within each request over a mount's control socket fails once, in every run; see
// starved_mount.hpp.
#include <unistd.h>

#include <cstdio>

#include "base/out_of_memory.hpp"
#include "tests/apps/served_control.hpp"
#include "tests/apps/starved_mount.hpp"

namespace warren::fuse::test::starved_verbs_test {
namespace {

/// A connection to the server of a mount's control socket.
class Control {
 public:
    explicit Control(Mount& mount)
        : invalidator_(mount.kernel.session(), [](u64, const std::string&) { return false; }),
          served_(mount.state, invalidator_),
          file_(served_.file(mount.state.nodes.inode_of(mount.file))) {}
    /// Opens a connection. Errc::no_memory: the server disconnected it.
    Errc connect() {
        auto [own, other] = make_connection();
        socket_ = std::move(own);
        return or_no_memory([&, &end = other] { served_.server().admit(std::move(end)); });
    }

    /// Sends a request; returns 0 or the errno that the client would see.
    int ask(ControlVerb verb, const Encoder& request, bool has_results) {
        const UncountedAllocations uncounted;
        const int directory = served_.root();
        const int files[] = {file_, file_};
        const int places[] = {file_, directory};
        const auto shown = verb == ControlVerb::dedupe  ? std::span<const int>(files)
                           : verb == ControlVerb::clone ? std::span<const int>(places)
                                                        : std::span<const int>(&directory, 1);
        if (send_frame(socket_.get(), verb, request.bytes(), shown) != Errc::ok) return EPIPE;
        Frame frame;
        do {
            if (receive_frame(socket_.get(), frame) != Errc::ok) return EPIPE;
        } while (frame.verb == ControlVerb::part);
        Decoder answer(frame.payload);
        int error = static_cast<int>(answer.number32());
        while (has_results && error == 0 && !answer.at_end())
            error = static_cast<int>(answer.number32());
        return answer.good() ? error : EPROTO;
    }

 private:
    Invalidator invalidator_;
    ServedControl served_;
    const int file_;
    Descriptor socket_;  // closed first
};

struct VerbCall {
    const char* name;
    ControlVerb verb;
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
        {"rm -r", ControlVerb::remove_tree, named("directory")},
        {"rm -r of a file", ControlVerb::remove_tree, named("file")},
        {"mv", ControlVerb::move, [=](Encoder& request) { move(request, "doomed", "new"); }, true,
         true},
        {"mv of several", ControlVerb::move,
         [=](Encoder& request) {
             for (const char* const name : {"doomed", "other", "link"})
                 move(request, name, std::string(name) + " new");
         },
         false, true},
        {"rebuild", ControlVerb::rebuild, [](Encoder&) {}},
        {"find", ControlVerb::scan,
         [](Encoder& request) {
             request.text("");
             request.put(ScanFilter{});
         }},
        {"du --shared", ControlVerb::scan_space,
         [](Encoder& request) {
             request.text("");
             request.put(ScanFilter{});
         }},
        {"stat", ControlVerb::scan_space,
         [](Encoder& request) {
             request.text("file");
             request.put(ScanFilter{});
         }},
        {"du", ControlVerb::usage,
         [](Encoder& request) { request.text("directory").number(3).number(0); }},
        {"dedup", ControlVerb::dedupe,
         [](Encoder& request) { request.number(0).number(7 * 4096).number(7 * 4096); }},
        {"clone", ControlVerb::clone, named("clone")},
        {"sync", ControlVerb::sync, [](Encoder&) {}},
        {"info", ControlVerb::info, [](Encoder&) {}},
        {"device release", ControlVerb::release_device, [](Encoder&) {}},
        {"remount", ControlVerb::remount,
         [](Encoder& request) {
             request.number(0).number(static_cast<u64>(AccessTimes::unchanged));
         }},
    };
}

class StarvedVerbs : public StarvedMount {};
INSTANTIATE_TEST_SUITE_P(Engines, StarvedVerbs, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(StarvedVerbs, areAnsweredAndDoNoHarm) {
    // The connection has this process's user, and everything in the volume belongs to root.
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
    EXPECT_GT(failures_ * case_step, verb_calls().size());
    std::printf("%llu allocations failed\n", static_cast<unsigned long long>(failures_));
}

TEST_P(StarvedVerbs, findAConnectionServedOrLetGo) {
    const auto prepare = [&](Mount& mount) -> std::function<int()> {
        return [control = std::make_shared<Control>(mount)] {
            const Errc connected = control->connect();
            const int asked = control->ask(ControlVerb::sync, {}, false);
            // A client that was disconnected finds the socket closed.
            if (connected != Errc::ok || asked == EPIPE) return ENOMEM;
            return asked;
        };
    };
    fail_each("connect", true, prepare);
    EXPECT_GT(failures_ * case_step, 3u);
}

}  // namespace
}  // namespace warren::fuse::test::starved_verbs_test

// SPDX-License-Identifier: Apache-2.0
// Directories are attached again for each command, since they may have been replaced.
#include "tests/apps/ring_script.hpp"

#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>

#include "apps/fuse/control.hpp"
#include "base/descriptor.hpp"
#include "fs/ring/client.hpp"
#include "fs/ring/shared_ring.hpp"

namespace warren {
namespace {

using ops::Verb;

class Script {
 public:
    explicit Script(fuse::ControlConnection connection) : connection_(std::move(connection)) {}

    Errc open() {
        WARREN_TRY(connection_.open_ring(remote_));
        client_.emplace(remote_.ring(), remote_.doorbell(), remote_.status(), false);
        return Errc::ok;
    }

    /// Runs one line of the script.
    ops::Reply obey(std::istream& words) {
        std::string verb, directory, name;
        words >> verb >> directory >> name;
        ops::Command command;
        ops::Reply reply;
        reply.code = attach(directory, command.handle);
        if (reply.code != Errc::ok) return reply;
        set_name(command, name);
        if (verb == "look") return run(Verb::lookup, command);
        if (verb == "unlink") return run(Verb::unlink, command);
        if (verb == "rmdir") return run(Verb::remove_directory, command);
        if (verb == "create") {
            words >> std::oct >> command.mode;
            return run(Verb::create, command);
        }
        if (verb == "chmod") {
            reply = run(Verb::lookup, command);
            if (reply.code != Errc::ok) return reply;
            ops::Command change;
            change.handle = reply.attributes.handle;
            change.change.which = AttributeChange::mode;
            words >> std::oct >> change.change.new_mode;
            return run(Verb::set_attributes, change);
        }
        std::string to, new_name;
        words >> to >> new_name;
        reply.code = attach(to, command.target);
        if (reply.code != Errc::ok) return reply;
        if (verb == "link") {
            reply = run(Verb::lookup, command);
            if (reply.code != Errc::ok) return reply;
            command.handle = reply.attributes.handle;
            set_name(command, new_name);
            return run(Verb::link, command);
        }
        u32 how = 0;
        words >> how;
        command.how = static_cast<u8>(how);
        command.new_name = new_name.data();
        command.new_name_length = static_cast<u32>(new_name.size());
        return run(Verb::rename, command);
    }

 private:
    static void set_name(ops::Command& command, const std::string& name) {
        command.name = name.data();
        command.name_length = static_cast<u32>(name.size());
    }

    Errc attach(const std::string& path, Handle& handle) {
        const Descriptor opened(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!opened) return static_cast<Errc>(errno);
        const int number = opened.get();
        Result<Handle> found = Errc::io;
        WARREN_TRY(connection_.attach({&number, 1}, {&found, 1}));
        if (found) handle = *found;
        return found.code();
    }

    ops::Reply run(Verb verb, ops::Command& command) {
        command.verb = verb;
        ops::Reply reply;
        const Result<u64> ticket = client_->submit(command);
        reply.code = ticket.code();
        if (!ticket) return reply;
        Errc code = Errc::busy;
        while (code == Errc::busy)
            code = client_->wait(*ticket, reply, 1000);
        if (code != Errc::ok) reply.code = code;
        return reply;
    }

    fuse::ControlConnection connection_;
    ring::RemoteRing remote_;
    std::optional<ring::RingClient> client_;
};

}  // namespace

int run_script(const std::string& path) {
    std::optional<fuse::ControlConnection> connection = fuse::ControlConnection::for_path(path);
    if (!connection) return EXIT_FAILURE;
    Script script(std::move(*connection));
    if (script.open() != Errc::ok) return EXIT_FAILURE;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        const ops::Reply reply = script.obey(words);
        const Attributes& at = reply.attributes;
        std::printf("%d %u %u %u %u %llu %llu\n", static_cast<int>(reply.code), at.mode, at.links,
                    at.user, at.group, static_cast<unsigned long long>(at.size),
                    static_cast<unsigned long long>(at.handle.inode));
        std::fflush(stdout);
    }
    return EXIT_SUCCESS;
}

}  // namespace warren

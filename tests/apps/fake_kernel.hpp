// SPDX-License-Identifier: Apache-2.0
// The kernel's side of a mount, played by a test: it speaks the protocol of /dev/fuse over a socket
// with a session that is otherwise like the daemon's. The test's thread serves one request at a
// time, with the same libfuse and the same callbacks; root is not needed.
//
// Invariant: each request that requires a reply gets one. What the daemon hands out (references,
// opens) is counted as the kernel does, so that everything can be given back.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fuse/session.hpp"

namespace warren::fuse::test {

/// The bytes of a request after the header.
class Body {
 public:
    template <class T>
    Body& add(const T& value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Body& name(std::string_view text) {
        bytes_.append(text).push_back('\0');
        return *this;
    }
    Body& data(std::string_view bytes) {
        bytes_.append(bytes);
        return *this;
    }
    const std::string& bytes() const { return bytes_; }

 private:
    std::string bytes_;
};

struct Answer {
    int error = 0;  // an errno
    std::string body;

    template <class T>
    T as() const {
        T value{};
        std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
        return value;
    }
};

class FakeKernel {
 public:
    /// Sends the INIT request to a session on `mount`.
    explicit FakeKernel(MountState& mount);
    ~FakeKernel();
    FakeKernel(const FakeKernel&) = delete;
    FakeKernel& operator=(const FakeKernel&) = delete;

    fuse_session* session() const { return session_.get(); }

    /// Sends a request to the daemon.
    void send(u32 opcode, u64 node, const Body& body = {});
    /// Lets the daemon serve it, in this thread.
    void serve();
    /// The reply to the last request; fails the test unless there was exactly one.
    Answer receive();
    Answer ask(u32 opcode, u64 node, const Body& body = {}) {
        send(opcode, node, body);
        serve();
        return receive();
    }

    /// Looks up a name; returns its node.
    u64 look_up(u64 parent, std::string_view name);
    /// Opens a file or directory.
    u64 open(u64 node, bool is_directory);
    /// Gives back everything that the daemon has handed out.
    void give_back();
    /// Ends the connection, as an unmount does.
    void hang_up();

 private:
    struct Open {
        u64 node = 0;
        u64 number = 0;
        bool is_directory = false;
    };

    void count(const Answer& answer);
    void count_listed(const std::string& listing);

    int own_end_ = -1;
    Session session_;
    u64 unique_ = 0;
    u32 opcode_ = 0;  // of the last request
    u64 node_ = 0;
    std::map<u64, u64> references_;
    std::vector<Open> opens_;
};

}  // namespace warren::fuse::test
